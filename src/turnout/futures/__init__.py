"""Python functions on warm workers. Empty on purpose: a worker loads this before all else."""
