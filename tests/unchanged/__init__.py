"""What must not change by accident: written down as files, by `python -m tests.unchanged`, in a commit that changes nothing else and says why."""
