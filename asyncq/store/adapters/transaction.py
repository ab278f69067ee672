"""Refuses a change on a caller's connection that its owner could not roll back."""

from asyncq.domain.errors import ConfigurationError, TransactionUnusable

# How to open a transaction, in the caller's library.
ASYNCPG = "open a transaction first (async with connection.transaction(): ...)"
SQLALCHEMY = "the isolation level of its engine or connection is AUTOCOMMIT: choose another one"
PSYCOPG = "it has autocommit=True: open a transaction first (async with connection.transaction(): ...)"


def check_autocommit(autocommit: bool, *, is_in_transaction: bool, how: str) -> None:
    """Check a connection that a caller gave for a change.

    TransactionUnusable if it is in no transaction, and `autocommit` is False; `how` says what the caller can do.
    ConfigurationError if `autocommit` is True in a transaction.
    """
    if autocommit and is_in_transaction:
        raise ConfigurationError(
            "autocommit=True on a connection in a transaction: its commit decides; leave autocommit out"
        )
    if not autocommit and not is_in_transaction:
        raise TransactionUnusable(
            "the connection is in no transaction: the change would be committed at once, whatever is rolled back; "
            f"{how}. If the change is to be committed at once, say autocommit=True"
        )
