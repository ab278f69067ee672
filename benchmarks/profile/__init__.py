"""The time of a job by part: `python -m benchmarks.profile`."""
