"""Adds the jobs of the crontab when they are due."""
