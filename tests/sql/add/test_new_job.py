"""`_new_job`: the members of a record of options become the attributes of a job to be added."""

import json

from asyncq.domain.deduplication import Record
from tests.sql.test_rules import columns
from tests.support.session import Session

MEMBERS = {
    "max_attempts": 3,
    "job_key": "k",
    "priority": -1,
    "flags": {"f": True},
    "job_key_mode": "replace",
    "meta": {"m": 1},
    "unique_key": r"\xaa",
    "states": ["active"],
    "period": "PT1H",
    "on_conflict": "ignore",
    "rerun": True,
    "idempotency_key": "r",
    "window_s": 1.5,
    "extras": {"timeout_s": 30},
    "expires_s": 2.5,
    "expires_at": "2030-01-31T04:00:00+00:00",
    "deadline_s": 2.5,
    "deadline_at": "2030-01-31T04:00:00+00:00",
    "after": [1, 2],
}


async def test_the_members_of_pythons_record_are_the_attributes(sql: Session) -> None:
    """A member without an attribute would be lost without an error."""
    names = [column.split()[0] for column in (await columns(sql, "_new_job")).split(", ")]

    assert ["identifier", "payload", "queue_name", "run_at"] == names[:4]
    assert sorted(names[4:]) == sorted(Record.__struct_fields__) == sorted(MEMBERS)


async def test_each_member_becomes_its_attribute(sql: Session) -> None:
    """A missing member becomes null."""
    call = "select to_json(asyncq._new_job('t', '{}', 'q', null, $1::text::jsonb))"
    bare = {"identifier": "t", "payload": {}, "queue_name": "q", "run_at": None}
    full = [json.loads(await sql.value(call, text)) for text in (json.dumps(MEMBERS), "{}", None)]

    assert [bare | MEMBERS, bare | dict.fromkeys(MEMBERS), bare | dict.fromkeys(MEMBERS)] == full
