"""Writes the ends of runs, reports them, and claims the next job of a partition."""
