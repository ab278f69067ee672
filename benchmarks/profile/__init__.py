"""Where the time of a job goes, by part: `python -m benchmarks.profile`."""
