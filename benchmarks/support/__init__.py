"""What the benchmarks share: the harness that measures and writes pages, and the suite's command
with instruments in it.
"""
