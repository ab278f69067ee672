"""`_looks_back`: most adds need not look at what is remembered, and do not pay for it."""

import pytest

from tests.support.session import Session

KEY = "ab" * 32
CASES = {
    "no policy": ("null", False),
    "states that live": (f'{{"key": "{KEY}", "states": ["available", "active"]}}', False),
    "an ended state, and an ended job": (f'{{"key": "{KEY}", "states": ["active", "completed"]}}', True),
    "an ended state, and no ended job": (f'{{"key": "{"cd" * 32}", "states": ["active", "completed"]}}', False),
    "a request": ('{"request": "r", "window_s": 1}', True),
}


@pytest.mark.parametrize(("extra", "said"), CASES.values(), ids=CASES)
async def test_what_has_to_be_looked_at(sql: Session, extra: str, said: bool) -> None:
    """A request is always looked for; ended jobs only by who asks for them, and only if there are any."""
    await sql.execute(f"""
        insert into asyncq._ended_jobs (id, created_at, ended_at, keep_until, task_id, state, unique_key)
          values (1, now(), now(), 'infinity', 1, 'completed', decode('{KEY}', 'hex'))""")
    found = await sql.value("select coalesce(asyncq._looks_back(array[$1::text::jsonb]), false)", extra)

    assert said == found
