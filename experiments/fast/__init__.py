"""RLlib, faster on one machine and with the same results: `switch.make_fast`.

Imports nothing else of this suite (README.md).
"""
