"""Recurring jobs: what a crontab says, when its items are due, and which job each of them adds. Pure."""
