"""The harness: sets up what it needs, lets the queues do the same work in turn, checks each run, writes what it saw."""
