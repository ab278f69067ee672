"""Benchmarks: what asyncq does in a second, on a real server with fsync on. Only ratios of one run count."""
