"""What must not change by accident, as files: `python -m tests.unchanged` writes them,
in a commit of its own that says why.
"""
