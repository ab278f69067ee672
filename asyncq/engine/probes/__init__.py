"""Answers the questions of supervisors and monitors about one worker, in a thread of its own."""
