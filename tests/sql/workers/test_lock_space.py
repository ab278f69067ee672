"""`_lock_space`: the locks of two schemas never conflict."""

from tests.support.session import Session


async def test_each_schema_has_locks_of_its_own(sql: Session) -> None:
    """Advisory locks belong to the database."""
    mine = await sql.value("select asyncq._lock_space()")

    assert await sql.value("select hashtext($1 || ':workers')", sql.schema) == mine
    assert await sql.value("select hashtext('another:workers')") != mine
