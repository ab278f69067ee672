"""asyncq on the files of Python's standard library: `make demo`, or `python -m examples.demo` in the clone."""
