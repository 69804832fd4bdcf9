"""The part of the suite that reads studies. Never imports Ray or Hydra."""
