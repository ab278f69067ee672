"""Adds the jobs of recurring items when they are due."""
