"""The log: each event as a sentence."""
