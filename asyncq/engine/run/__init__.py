"""Runs jobs: the handler's task, its context, its transactions, and handlers that do not end."""
