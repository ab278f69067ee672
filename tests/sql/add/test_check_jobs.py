"""`_check_jobs`: every limit, with the error code that graphile-worker gives it."""

import pytest

from tests.support.session import Session

BAD = {
    "no identifier": (["null"], "GWBID", "identifier", "identifier must not be null"),
    "a long identifier": (
        ["repeat('ü', 129)"],
        "GWBID",
        "identifier",
        "identifier is 129 characters long, at most 128 are allowed",
    ),
    "a long queue": (
        ["'t'", "queue_name := repeat('ü', 129)"],
        "GWBQN",
        "queue_name",
        "queue_name is 129 characters long, at most 128 are allowed",
    ),
    "the queue default": (
        ["'t'", "queue_name := 'default'"],
        "GWBQN",
        "queue_name",
        "queue_name 'default' is reserved for jobs without a queue",
    ),
    "an empty key": (
        ["'t'", "job_key := ''"],
        "GWBJK",
        "job_key",
        "job_key is empty, at least 1 character is needed",
    ),
    "a long key": (
        ["'t'", "job_key := repeat('ü', 513)"],
        "GWBJK",
        "job_key",
        "job_key is 513 characters long, at most 512 are allowed",
    ),
    "no attempts": (
        ["'t'", "max_attempts := 0"],
        "GWBMA",
        "max_attempts",
        "max_attempts is 0, at least 1 is needed",
    ),
    "negative attempts": (
        ["'t'", "max_attempts := -1"],
        "GWBMA",
        "max_attempts",
        "max_attempts is -1, at least 1 is needed",
    ),
    "too many attempts": (
        ["'t'", "max_attempts := 32768"],
        "GWBMA",
        "max_attempts",
        "max_attempts is 32768, at most 32767 is allowed",
    ),
    "a low priority": (
        ["'t'", "priority := -32769"],
        "22003",
        "priority",
        "priority is -32769, expected -32768 to 32767",
    ),
    "a high priority": (
        ["'t'", "priority := 32768"],
        "22003",
        "priority",
        "priority is 32768, expected -32768 to 32767",
    ),
    "a mode that does not exist": (
        ["'t'", "job_key := 'k'", "job_key_mode := 'bogus'"],
        "GWBKM",
        "job_key_mode",
        "job_key_mode 'bogus' is unknown, expected 'replace', 'preserve_run_at' or 'unsafe_dedupe'",
    ),
    "a mode that does not exist, without a key": (
        ["'t'", "job_key_mode := 'bogus'"],
        "GWBKM",
        "job_key_mode",
        "job_key_mode 'bogus' is unknown, expected 'replace', 'preserve_run_at' or 'unsafe_dedupe'",
    ),
    "a time without end": (
        ["'t'", "run_at := 'infinity'"],
        "22008",
        "run_at",
        "run_at is infinity, expected a year from 1 to 9999",
    ),
    "a time without beginning": (
        ["'t'", "run_at := '-infinity'"],
        "22008",
        "run_at",
        "run_at is -infinity, expected a year from 1 to 9999",
    ),
    "a time after the last year": (
        ["'t'", "run_at := '10000-01-01 05:45+05:45'"],
        "22008",
        "run_at",
        "run_at is 10000-01-01T00:00:00, expected a year from 1 to 9999",
    ),
    "a null flag": (["'t'", "flags := array['f', null]"], "22023", "flags", "flags: a flag must be a text, got null"),
}

NUL = {
    '{"a": "\\u0000"}': True,
    '"\\u0000"': True,
    '{"\\u0000": 1}': True,
    '{"a": "x\\\\\\u0000"}': True,
    '{"a": "\\\\u0000"}': False,
    '{"a": "\\\\\\\\u0000"}': False,
    '{"a": "u0000"}': False,
    '{"a": "\\u00000"}': True,
    '{"a": "\\u0001"}': False,
}

HALVES = {
    r'["\ud83d"]': True,
    r'{"a\uDC00": 1}': True,
    r'"\ud83d\\\ude00"': True,
    r'"\ud83d\ud83d\ude00"': True,
    r'"\ud83d\ude00 \uE000 \u00e9"': False,
    r'"\\ud83d"': False,
}

GOOD = (
    "repeat('ü', 128)",
    "'t', queue_name := repeat('ü', 128)",
    "'t', max_attempts := 1",
    "'t', max_attempts := 32767",
    "'t', priority := -32768",
    "'t', priority := 32767",
    "'t', job_key := 'k'",
    "'t', job_key := repeat('ü', 512)",
    "'t', job_key_mode := 'unsafe_dedupe'",
    "'t', job_key_mode := 'preserve_run_at'",
    "'t', run_at := '0001-01-01 00:00:00+00'",
    "'t', run_at := '9999-12-31 23:59:59.999999+00'",
    "'t', queue_name := 'Default'",
)


@pytest.mark.parametrize("case", BAD)
async def test_a_job_beyond_the_limits_is_refused(sql: Session, case: str) -> None:
    """Programs read the code, people read the sentence. The client raises the same one."""
    arguments, code, field, said = BAD[case]
    error = await sql.refusal(f"select asyncq.add_job({', '.join(arguments)})")

    assert (code, field, said) == (error.sqlstate, error.column_name, error.message)


@pytest.mark.parametrize("arguments", GOOD)
async def test_a_job_at_the_limit_is_taken(sql: Session, arguments: str) -> None:
    """A limit that refuses its own value is another limit."""
    assert 1 == await sql.value(f"select count(*) from (select asyncq.add_job({arguments})) as added")


@pytest.mark.parametrize(("payload", "refused"), NUL.items())
async def test_a_payload_with_a_nul_is_refused(sql: Session, payload: str, refused: bool) -> None:
    """json stores it, and every reader that wants it as text fails; an escaped backslash before u0000 is harmless."""
    add = "select asyncq.add_job('t', $1::text::json)"
    if refused:
        error = await sql.refusal(add, payload)

        assert ("GWBPL", "payload") == (error.sqlstate, error.column_name)
    else:
        await sql.rows(add, payload)

        assert payload == await sql.value("select payload::text from asyncq._jobs")


@pytest.mark.parametrize(("payload", "refused"), HALVES.items())
async def test_a_payload_with_half_a_character_is_refused(sql: Session, payload: str, refused: bool) -> None:
    """No worker could read it, and an add that merges an array into it would fail. The client refuses it too."""
    add = "select asyncq.add_job('t', $1::text::json, job_key => 'k')"
    if refused:
        error = await sql.refusal(add, payload)

        assert ("GWBPL", "payload") == (error.sqlstate, error.column_name)
        assert "payload holds half of a surrogate pair, which is no character" == error.message
    else:
        await sql.rows(add, payload)

        assert payload == await sql.value("select payload::text from asyncq._jobs")


async def test_the_first_of_several_faults_is_named(sql: Session) -> None:
    """The place in the call helps to find it among a thousand jobs."""
    error = await sql.refusal("""
        select asyncq._check_jobs(array[
          asyncq._new_job('a', null, null, null, null, 1), asyncq._new_job('b', null, 'default', null, null, 1),
          asyncq._new_job('c', null, null, null, null, 0)])""")

    assert ("GWBQN", "Job 2 of 3.") == (error.sqlstate, error.detail)


async def test_modes_may_be_null(sql: Session) -> None:
    """Null is the default, as for the other arguments."""
    assert 1 == await sql.value("select count(*) from (select asyncq.add_job('t', job_key_mode := null)) as added")


@pytest.mark.parametrize(("characters", "refused"), [(16 * 1024 * 1024 - 2, False), (16 * 1024 * 1024 - 1, True)])
async def test_a_payload_has_at_most_16_mib(sql: Session, characters: int, refused: bool) -> None:
    """A worker fetches hundreds at a time: those of one who adds by SQL fit into its memory too. The quotes count."""
    add = "select asyncq.add_job('t', to_json(repeat('x', $1)))"
    if refused:
        error = await sql.refusal(add, characters)

        assert "payload is 16777217 bytes of JSON, at most 16777216 are allowed" == error.message
        assert ("GWBPL", "payload") == (error.sqlstate, error.column_name)
    else:
        await sql.rows(add, characters)


async def test_a_fault_is_found_at_any_place(sql: Session) -> None:
    """It may be behind valid jobs, in another task, or in an array with nulls."""
    call = """
        select asyncq._check_jobs(array(
          select asyncq._new_job(
            task, payload, queue, run_at, null, attempts, key, priority, job_key_mode => mode)
          from unnest(
            array['a', 'b', 'a'], {payloads}::json[], {queues}::text[], {run_ats}::timestamptz[], {attempts}::int[],
            {keys}::text[], {priorities}::int[], {modes}::text[])
            with ordinality as given(task, payload, queue, run_at, attempts, key, priority, mode, ord)
          order by ord))"""
    faults = {
        "payloads": r"""array[null, '{}', '"\u0000"']::json[]""",
        "queues": "array['q', null, 'default']",
        "run_ats": "array[null, now(), 'infinity']",
        "attempts": "array[1, null, 0]",
        "keys": "array['k', null, '']",
        "priorities": "array[null, 1, 32768]",
        "modes": "array['replace', null, 'other']",
    }
    errors = [
        await sql.refusal(call.format_map(dict.fromkeys(faults, "null") | {name: faults[name]})) for name in faults
    ]

    assert ["GWBPL", "GWBQN", "22008", "GWBMA", "GWBJK", "22003", "GWBKM"] == [error.sqlstate for error in errors]
    assert {"Job 3 of 3."} == {error.detail for error in errors}


async def test_an_escaped_backslash_before_u0000_is_harmless_beside_other_jobs(sql: Session) -> None:
    """The quick check of all payloads finds a nul there, but the check of each one does not."""
    call = r"""
        select asyncq._check_jobs(array[
          asyncq._new_job('a', '{}', null, null, null), asyncq._new_job('a', '"%su0000"', null, null, null)])"""
    refusal = await sql.refusal(call % "\\")

    assert ("GWBPL", "Job 2 of 2.") == (refusal.sqlstate, refusal.detail)
    assert 1 == len(await sql.rows(call % "\\\\"))


async def test_a_name_that_is_missing_or_long_is_found_among_others(sql: Session) -> None:
    """All names count."""
    errors = [
        await sql.refusal(f"""
            select asyncq._check_jobs(array(
              select asyncq._new_job(name, null, null, null, null)
              from unnest({names}) with ordinality as given(name, ord) order by ord))""")
        for names in ("array['a', null]", "array[null, 'a']", "array[null::text]", "array['a', repeat('b', 129)]")
    ]

    assert ["GWBID"] * 4 == [error.sqlstate for error in errors]
    assert ["Job 2 of 2.", "Job 1 of 2.", "Job 1 of 1.", "Job 2 of 2."] == [error.detail for error in errors]
