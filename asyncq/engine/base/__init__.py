"""The parts of a worker that all others use: identity, observers, back-off, the lease, calls of user code."""
