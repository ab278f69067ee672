"""`_add_held_jobs`: which act is done; what each of them does is tested with it."""

import pytest

from tests.sql.session import Session

ADD = """
select outcome from asyncq._add_held_jobs(
  '{{t,t}}', array['[1]', '[2]']::json[], null, null, null, {keys}, null, null, array['replace', 'replace'], null,
  {dedupes}, '{held}')
order by ord
"""
ASK = '{{"key": "{}", "on_conflict": "ignore"}}'
ASKS = f"array['{ASK.format('aa' * 32)}', '{ASK.format('bb' * 32)}']::jsonb[]"


@pytest.mark.parametrize(
    ("keys", "dedupes", "held", "outcomes"),
    [
        ("'{k,x}'", "null", "held", ["updated", "added"]),
        ("'{x,x}'", "null", "doubled", ["added", "updated"]),
        ("null", ASKS, "held", ["deduplicated", "added"]),
    ],
)
async def test_each_kind_of_key_has_its_act(
    sql: Session, keys: str, dedupes: str, held: str, outcomes: list[str]
) -> None:
    """Another one would add what is there, or fail."""
    await sql.execute("select asyncq.add_job('t', job_key => 'k')")
    await sql.execute(f"update asyncq._jobs set unique_key = '\\x{'aa' * 32}'")

    assert outcomes == await sql.values(ADD.format(keys=keys, dedupes=dedupes, held=held))
