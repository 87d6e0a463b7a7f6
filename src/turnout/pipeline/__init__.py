"""Pipelines: steps, their runs, and which of them waits for which. Pure; the hub does what a plan says."""
