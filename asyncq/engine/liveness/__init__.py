"""Keeps a worker alive in the eyes of the others, and starts nothing without a proof of that."""
