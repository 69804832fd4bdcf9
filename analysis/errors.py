"""The one exception for a study that cannot be analysed: its message is all that a person sees."""


class AnalysisError(Exception):
    """What was asked for cannot be read or computed; the message is one sentence that names the fix."""
