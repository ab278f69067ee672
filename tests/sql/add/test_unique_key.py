"""`_unique_key`: the key of a job under a policy, as asyncq/domain/unique.py computes it."""

import hashlib
import json
from random import Random
from typing import Any

from asyncq.domain.deduplication import singleton_key
from asyncq.domain.unique import UniquePolicy
from tests.support.json_texts import chances, collect, quoted, some_text, some_value
from tests.support.session import Session
from tests.support.twins import differences, outcome, outcomes
from tests.support.vectors import KEYED, KEYLESS

CALL = "encode(asyncq._unique_key(asyncq._check_policy(a1::jsonb), a2, a3, a4::json, a5::json), 'hex')"
SINGLETON = "select encode(asyncq._unique_key(asyncq._check_policy('{}'), $1, null, null, null, $2), 'hex')"


def in_python(policy: dict[str, Any], job: dict[str, Any]) -> str:
    """The key that Python computes."""
    return outcome(lambda: UniquePolicy.parse(policy).key(**job))


async def keys(sql: Session, given: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str | None]:
    """The keys of jobs under their policies."""
    rows = [(json.dumps(policy), *map(job.get, ("type", "queue", "args", "meta"))) for policy, job in given]
    return await outcomes(sql, CALL, *zip(*rows, strict=True))


async def test_the_keys_of_jobs(sql: Session) -> None:
    """The digests of the spec's example and of a third implementation among them."""
    given = [(vector.policy, vector.job) for vector in KEYED.values()]
    expected = [hashlib.sha256(vector.canonical.encode()).hexdigest() for vector in KEYED.values()]

    assert [] == differences(given, expected, await keys(sql, given))
    assert {vector.digest for vector in KEYED.values() if vector.digest} <= set(expected)


async def test_a_job_without_a_key_is_refused_with_the_field_at_fault(sql: Session) -> None:
    """The same code and field as in Python."""
    given = [(vector.policy, vector.job) for vector in KEYLESS.values()]

    assert [] == differences(given, [f"GWBUP {vector.field}" for vector in KEYLESS.values()], await keys(sql, given))


async def test_a_key_has_32_bytes(sql: Session) -> None:
    """The column has this size."""
    key = await sql.value("select asyncq._unique_key('{}', 't', null, null, null)")

    assert hashlib.sha256(b'{"type":"t"}').digest() == key


async def test_python_and_sql_agree_on_jobs_of_all_kinds(sql: Session) -> None:
    """2,000 jobs by chance, under policies that name some of their members."""
    given = collect(chances.map(some_job), 2000)
    expected = [in_python(*row) for row in given]

    assert [] == differences(given, expected, await keys(sql, given))


def some_job(chance: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy and a job."""
    job: dict[str, Any] = {"type": some_text(chance)}
    if chance.random() < 0.5:
        job["queue"] = some_text(chance)
    named: dict[str, list[str]] = {}
    for field in ("args", "meta"):
        names = list({some_text(chance) for _ in range(chance.randint(0, 4))})
        named[field] = [name for name in names if name and chance.random() < 0.6]
        if chance.random() < 0.9:
            members = ",".join(f"{quoted(chance, name)}:{some_value(chance, 3)}" for name in names)
            job[field] = chance.choice(["{%s}", "{%s}", "[{%s}]", "[{%s},1]"]) % members
    policy: dict[str, Any] = {"keys": chance.sample(["type", "queue", "args", "meta"], chance.randint(0, 4))}
    policy["args_keys"] = chance.choice([None, named["args"], named["args"], [*named["args"], "missing"]])
    policy["meta_keys"] = named["meta"] or None
    return policy, job


async def test_each_subject_has_a_key_of_its_own(sql: Session) -> None:
    """Quotes in it cannot make it look like another one's."""
    pairs = [
        ("t", None),
        ("t", "a"),
        ("t", "b"),
        ("u", "a"),
        ("t", ""),
        ("t", "A"),
        ("t", 'a","type":"t'),
        ("t", "null"),
    ]
    found = [await sql.value(SINGLETON, *pair) for pair in pairs]

    assert len(pairs) == len(set(found))
    assert [singleton_key(*pair) for pair in pairs] == found


async def test_subjects_that_look_the_same_are_the_same(sql: Session) -> None:
    """As in a unique policy: strings in Unicode's form NFC."""
    composed, decomposed = [await sql.value(SINGLETON, text, text) for text in ("caf\u00e9", "cafe\u0301")]

    assert singleton_key("caf\u00e9", "caf\u00e9") == composed == decomposed
