"""`_lock_keys`: an add with a key waits for another one, and fails if one committed after its snapshot."""

import pytest

from tests.support.session import Session, session

PASS = "select asyncq._lock_keys($1::text[])"
KEY_LOCKS = "select key, used_at from asyncq._key_locks order by ctid"
LEVELS = ("repeatable_read", "serializable")


async def test_each_key_has_a_key_lock(sql: Session) -> None:
    """A repeated key has only one."""
    keys = ["", "a", "b", "a", "A", " ", "ü" * 512]

    assert 6 == await sql.value(PASS, keys)
    assert 6 == len(await sql.rows(KEY_LOCKS))


async def test_key_locks_are_taken_in_one_order(own: Session) -> None:
    """Two calls with different orders could deadlock."""
    await own.value(PASS, [f"k{i}" for i in range(200)])
    locks = [row["key"] for row in await own.rows(KEY_LOCKS)]  # a new table, in the order of insertion

    assert 200 == len(locks)
    assert sorted(locks) == locks


async def test_without_keys_there_are_no_key_locks(sql: Session) -> None:
    """Nothing to wait for."""
    assert (0, 0) == (await sql.value(PASS, []), await sql.value(PASS, None))


async def test_a_key_lock_is_written_each_time(own: Session) -> None:
    """An older snapshot then fails, and unused key locks are found by the time."""
    await own.value(PASS, ["a"])
    (before,) = await own.rows(KEY_LOCKS)
    await own.value(PASS, ["a"])
    (after,) = await own.rows(KEY_LOCKS)

    assert before["key"] == after["key"]
    assert before["used_at"] < after["used_at"]


async def test_one_transaction_may_take_a_key_lock_repeatedly(sql: Session) -> None:
    """A single statement may do so too."""
    assert [1, 1, 1] == await sql.values("select asyncq._lock_keys('{a}') from generate_series(1, 3)")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("existed", [False, True])
async def test_an_old_snapshot_cannot_take_a_key_lock_that_was_used_since(
    dsn: str, own: Session, level: str, existed: bool
) -> None:
    """It would check a table in which the other's job is not there yet: 40001 instead of two jobs with one key."""
    if existed:
        await own.value(PASS, ["a"])
    async with session(dsn, own.schema) as old:
        transaction = old.connection.transaction(isolation=level)
        await transaction.start()
        await old.rows("select from asyncq._jobs")
        await own.value(PASS, ["a"])
        error = await old.refusal(PASS, ["a"])
        await transaction.rollback()

    assert "40001" == error.sqlstate


async def test_a_key_lock_is_held_until_the_end_of_the_transaction(dsn: str, own: Session) -> None:
    """Until then other transactions do not see its changes."""
    async with session(dsn, own.schema, lock_timeout="50ms") as other, own.connection.transaction():
        await own.value(PASS, ["a", "b"])
        error = await other.refusal(PASS, ["b", "c"])

        assert "55P03" == error.sqlstate
        assert 1 == await other.value(PASS, ["c"])


async def test_key_locks_survive_a_crash(sql: Session) -> None:
    """Prepared transactions survive a crash, and later ones must find their key locks."""
    assert b"p" == await sql.value("select relpersistence from pg_class where oid = 'asyncq._key_locks'::regclass")
