"""The running worker: the only code that starts tasks."""
