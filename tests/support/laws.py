"""The laws of the store as one statement, whose plan is kept: each call of `violations` plans them again."""

from asyncq.store.statements import texts

LAWS = texts("functions")["violations"].split("$$")[1]
"""The body of the function `violations`: rows of law, job_id and said."""
