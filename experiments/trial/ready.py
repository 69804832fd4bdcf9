"""Imported by each process that Ray starts on the study's machine: what a trial needs,
before the process is given one.
"""

import os

IS_LIGHT = "RL_SCALING_LIGHT_PROCESS"
"""Variable in the environment of a process that will never run a trial."""

if IS_LIGHT not in os.environ:
    from experiments.trial import trainable  # noqa: F401
