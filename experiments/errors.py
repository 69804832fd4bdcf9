"""The one exception for wrong input: its message is all that a person sees."""


class ConfigurationError(ValueError):
    """Something the user asked for cannot be done; the message names the key and the fix.

    Raised before anything is started. `experiments/run.py` prints the message and exits with code 2.
    """
