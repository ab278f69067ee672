"""The harness: sets the environments up, lets the queues do the same work in turn, checks each run, stores results."""
