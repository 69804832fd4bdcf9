"""The time, CPUs, memory and GPUs that a trial takes, and its processes."""
