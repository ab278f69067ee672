"""Benchmarks: what asyncq does in a second, on a real server with fsync on. Ratios of one run count, not absolute times."""
