"""The part of the suite that reads studies. Never imports Ray or Hydra."""


class AnalysisError(Exception):
    """A study cannot be analysed as asked; the message is one sentence that names the fix, and all that a person sees."""
