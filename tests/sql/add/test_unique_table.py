"""The outcome of an add under a unique policy, for each strategy and each state of the job that has its key.

Source: the Open Job Spec, unique jobs, sections 5 to 7.
"""

from datetime import datetime
from typing import Any

import pytest

from tests.support.keyed import Done
from tests.support.session import Session
from tests.support.unique import ALL_STATES, HELD, STRATEGIES, ask, hold, left, word

LATER = "2040-01-02T03:04:05+00:00"

# The outcome of an add beside a job in a state that its policy lists.
OUTCOMES = {"reject": "rejected", "ignore": "deduplicated", "replace": "added", "replace_except_schedule": "added"}


async def held(sql: Session, job: int) -> tuple[str, bool] | None:
    """The state of a job, and whether it has its key."""
    return (await left(sql)).get(job)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("state", HELD)
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "not listed"])
async def test_the_outcome_is_that_of_the_table(sql: Session, state: str, strategy: str, is_listed: bool) -> None:
    """A state that the policy does not list is not seen; a replacement is a job of its own."""
    states = [name for name in ALL_STATES if is_listed or name != word(state)]
    policy = {"states": states, "on_conflict": strategy}
    existing = await hold(sql, state)
    done = await ask(sql, policy)
    barred = Done(OUTCOMES[strategy], existing, existing, word(state))

    if not is_listed:
        assert Done("added", done.id) == done
    elif strategy in ("reject", "ignore"):
        assert barred == done
    else:
        assert barred._replace(id=done.id) == done
        assert existing < done.id


@pytest.mark.parametrize("strategy", ["reject", "ignore"])
@pytest.mark.parametrize("state", HELD)
async def test_a_rejected_or_ignored_add_changes_nothing(sql: Session, state: str, strategy: str) -> None:
    """The other job keeps its revision and its times."""
    await hold(sql, state)
    before = await sql.rows("select * from asyncq._jobs")
    ended = await sql.rows("select * from asyncq._ended_jobs")
    await ask(sql, {"states": ALL_STATES, "on_conflict": strategy}, payload={"new": 1}, queue="new", run_at=LATER)

    assert before == await sql.rows("select * from asyncq._jobs")
    assert ended == await sql.rows("select * from asyncq._ended_jobs")


# The other job after its replacement: its state, and whether it has the key.
REPLACED = {
    "scheduled": None,
    "available": None,
    "retryable": None,
    "active": ("cancelled", True),
    "discarded": ("discarded", False),
    "cancelled, running": ("cancelled", False),
    "completed": ("completed, ended", False),
    "cancelled": ("cancelled, ended", False),
    "discarded, removed": ("discarded, ended", False),
}


@pytest.mark.parametrize("strategy", ["replace", "replace_except_schedule"])
@pytest.mark.parametrize("state", HELD)
async def test_a_replaced_job_is_cancelled_or_loses_the_key(sql: Session, state: str, strategy: str) -> None:
    """A waiting job ends, the worker of a running job is notified, an ended job keeps its state."""
    existing = await hold(sql, state)
    done = await ask(sql, {"states": ALL_STATES, "on_conflict": strategy}, payload={"new": 1})
    row = await sql.row(
        "select payload::text, attempts, asyncq._state(job) from asyncq._jobs as job where id = $1", done.id
    )

    assert REPLACED[state] == await held(sql, existing)
    assert 0 == row["attempts"]
    assert '{"new": 1}' == row["payload"]


@pytest.mark.parametrize("strategy", ["replace", "replace_except_schedule"])
async def test_a_replaced_job_that_was_to_be_known_is_known_as_cancelled(sql: Session, strategy: str) -> None:
    """A search for cancelled jobs finds it."""
    policy = {"states": ALL_STATES, "on_conflict": strategy}
    existing = await hold(sql, "retryable", policy=policy)
    await ask(sql, policy)

    assert ("cancelled, ended", True) == await held(sql, existing)


async def test_the_worker_of_a_replaced_job_is_notified(sql: Session) -> None:
    """The mark in the row counts, as for `cancel_running`."""
    existing = await hold(sql, "active")
    await ask(sql, {"on_conflict": "replace"})

    assert await sql.value("select cancelled_at is not null from asyncq._jobs where id = $1", existing)


TIMES = {
    # strategy, state of the other -> whose time the new job has, when it gives one and when it gives none
    ("replace", "scheduled"): ("own", "now"),
    ("replace", "available"): ("own", "now"),
    ("replace_except_schedule", "scheduled"): ("old", "old"),
    ("replace_except_schedule", "available"): ("own", "now"),
    ("replace_except_schedule", "retryable"): ("own", "now"),
    ("replace_except_schedule", "active"): ("own", "now"),
    ("replace_except_schedule", "discarded"): ("own", "now"),
    ("replace_except_schedule", "completed"): ("own", "now"),
}


@pytest.mark.parametrize(("strategy", "state"), TIMES)
@pytest.mark.parametrize("is_given", [True, False])
async def test_replace_except_schedule_takes_over_the_time_of_a_scheduled_job(
    sql: Session, strategy: str, state: str, is_given: bool
) -> None:
    """Other states keep their time: nobody requested the time of a retry."""
    existing = await hold(sql, state)
    old = await sql.values("select run_at from asyncq._jobs where id = $1", existing)
    done = await ask(sql, {"states": ALL_STATES, "on_conflict": strategy}, **({"run_at": LATER} if is_given else {}))
    now = await sql.value("select now()")
    times = {"own": datetime.fromisoformat(LATER), "now": now, "old": next(iter(old), None)}

    assert times[TIMES[strategy, state][not is_given]] == await sql.value(
        "select run_at from asyncq._jobs where id = $1", done.id
    )


async def test_of_several_scheduled_jobs_the_newest_gives_its_time(sql: Session) -> None:
    """It is the one that was requested last."""
    times = []
    for age in ("3 days", "1 day", "2 days"):
        job = await hold(sql, "scheduled", age)
        await sql.rows("update asyncq._jobs set run_at = now() + $2::text::interval where id = $1", job, age)
        times.append(await sql.value("select run_at from asyncq._jobs where id = $1", job))
    await hold(sql, "available", "1 h")
    done = await ask(sql, {"on_conflict": "replace_except_schedule"})

    assert times[1] == await sql.value("select run_at from asyncq._jobs where id = $1", done.id)


# Several jobs


@pytest.mark.parametrize("strategy", ["reject", "ignore"])
async def test_of_several_jobs_the_newest_is_named(sql: Session, strategy: str) -> None:
    """The time of creation decides, then the id. Live and ended jobs count."""
    for ages, newest in ((("1 h", "2 h", "3 h"), 0), (("3 h", "1 h", "1 h"), 2), (("2 h", "1 h", "3 h"), 1)):
        jobs = [
            await hold(sql, state, age) for state, age in zip(("active", "completed", "discarded"), ages, strict=True)
        ]
        done = await ask(sql, {"states": ALL_STATES, "on_conflict": strategy})
        await sql.execute("delete from asyncq._jobs; delete from asyncq._ended_jobs")

        assert jobs[newest] == done.existing_id


async def test_all_of_several_jobs_are_replaced(sql: Session) -> None:
    """Afterwards the new job is the only one that conflicts with others."""
    policy = {"states": ALL_STATES, "on_conflict": "replace"}
    jobs = {await hold(sql, state): state for state in HELD for _ in range(2)}
    done = await ask(sql, policy)
    found = await left(sql)

    assert {done.id: ("available", True)} == {
        job: (state, has_key) for job, (state, has_key) in found.items() if has_key and found[job][0] != "cancelled"
    }
    assert {job: REPLACED[state] for job, state in jobs.items() if REPLACED[state]} == {
        job: row for job, row in found.items() if job in jobs
    }


async def test_jobs_that_do_not_conflict_are_not_replaced(sql: Session) -> None:
    """They have another state or another key, or their period is over."""
    jobs = [
        await hold(sql, "active"),
        await hold(sql, "scheduled", task="other"),
        await hold(sql, "available", "2 days"),
    ]
    before = await left(sql)
    done = await ask(sql, {"states": ["available", "scheduled"], "period": "P1DT1H", "on_conflict": "replace"})
    after = await left(sql)

    assert Done("added", done.id) == done
    assert before == {job: after[job] for job in jobs}


# States


@pytest.mark.parametrize("state", HELD)
async def test_by_default_jobs_conflict_with_others_until_they_end(sql: Session, state: str) -> None:
    """The states are the five of the spec. A running job that was cancelled counts as ended."""
    await hold(sql, state)
    done = await ask(sql, {})

    assert ("rejected" if state in ("scheduled", "available", "retryable", "active") else "added") == done.outcome


async def test_an_immediate_job_conflicts_with_a_scheduled_one(sql: Session) -> None:
    """The states are those of the other job, not of the new one."""
    existing = await hold(sql, "scheduled")
    policy = {"states": ["scheduled"]}

    assert Done("rejected", existing, existing, "scheduled") == await ask(sql, policy)


async def test_without_states_nothing_conflicts(sql: Session) -> None:
    """An empty list is a list."""
    for state in HELD:
        await hold(sql, state)

    assert "added" == (await ask(sql, {"states": []})).outcome


async def test_a_retry_that_returns_into_a_listed_state_is_not_checked(sql: Session) -> None:
    """The spec forbids it: two available jobs may then be there, and both are replaced by the next."""
    first = await hold(sql, "retryable")
    second = await ask(sql, {"states": ["available"]})
    await sql.rows("update asyncq._jobs set run_at = now() where id = $1", first)
    third = await ask(sql, {"states": ["available"], "on_conflict": "replace"})

    assert ["added", "added"] == [second.outcome, third.outcome]
    assert {third.id: ("available", True)} == await left(sql)


# Jobs that conflict


async def test_two_jobs_are_duplicates_by_the_keys_of_the_policy(sql: Session) -> None:
    """The keys are type, queue, payload and meta, each alone."""
    base: dict[str, Any] = {"task": "a", "queue": "q", "payload": {"x": 1, "y": 1}, "meta": {"m": 1, "n": 1}}
    others = {"task": "b", "queue": "r", "payload": {"x": 2, "y": 2}, "meta": {"m": 2, "n": 2}}
    policies: dict[str, dict[str, Any]] = {
        "": {},
        "queue": {"keys": ["type", "queue"]},
        "payload": {"keys": ["args"]},
        "meta": {"keys": ["meta"], "meta_keys": ["m"]},
    }
    seen = {}
    for name, policy in policies.items():
        await ask(sql, policy, **base)
        changed = [
            field for field in others if (await ask(sql, policy, **base | {field: others[field]})).outcome == "added"
        ]
        seen[name] = changed
        await sql.execute("delete from asyncq._jobs")

    assert {"": ["task"], "queue": ["task", "queue"], "payload": ["task", "payload"], "meta": ["task", "meta"]} == seen


async def test_no_queue_counts_as_the_queue_default(sql: Session) -> None:
    """No queue can have that name."""
    policy = {"keys": ["queue"]}
    first = await ask(sql, policy)

    assert first.id == (await ask(sql, policy)).existing_id
    assert "added" == (await ask(sql, policy, queue="q")).outcome


async def test_a_job_without_a_policy_conflicts_with_nothing(sql: Session) -> None:
    """It has no key, and ignores other keys."""
    await ask(sql)
    first = await ask(sql, {})
    await ask(sql)

    assert "added" == first.outcome
    assert 3 == await sql.value("select count(*) from asyncq._jobs")


# The period


async def test_the_period_counts_from_the_creation_of_the_other_job(sql: Session) -> None:
    """The period is that of the new call. Rejected calls do not extend it."""
    first = await hold(sql, "active", "59 minutes")
    inside = await ask(sql, {"period": "PT1H"})
    shorter = await ask(sql, {"period": "PT58M", "on_conflict": "reject"})
    await sql.execute("delete from asyncq._jobs where locked_by is null")
    again = await ask(sql, {"period": "PT1H"})

    assert [("rejected", first), ("added", None), ("rejected", first)] == [
        (done.outcome, done.existing_id) for done in (inside, shorter, again)
    ]


async def test_after_the_period_a_job_conflicts_with_nothing_whatever_its_state(sql: Session) -> None:
    """Two live jobs of a key are legal then."""
    for state in HELD:
        await hold(sql, state, "1 h")

    assert "added" == (await ask(sql, {"states": ALL_STATES, "period": "PT59M59S"})).outcome


async def test_the_clock_is_the_instant_and_not_the_start_of_the_transaction(sql: Session) -> None:
    """A caller's transaction may have begun hours ago."""
    await hold(sql, "active", "0 s")
    await sql.execute("""
        create or replace function asyncq.clock() returns timestamptz language sql volatile
        as $$ select pg_catalog.clock_timestamp() + interval '1 h' $$""")

    assert "added" == (await ask(sql, {"period": "PT59M"})).outcome
    assert "rejected" == (await ask(sql, {"period": "PT2H"})).outcome


@pytest.mark.parametrize(
    ("zone", "period", "created", "last_second"),
    [
        ("America/New_York", "P1D", "2026-11-01 04:00:00+00", "2026-11-02 03:59:59+00"),
        ("Pacific/Auckland", "P1M", "2026-01-31 12:00:00+00", "2026-02-28 11:59:59+00"),
        ("Pacific/Auckland", "P1M", "2026-03-30 12:00:00+00", "2026-04-30 11:59:59+00"),
    ],
)
async def test_a_day_and_a_month_are_those_of_utc_in_every_time_zone(
    sql: Session, zone: str, period: str, created: str, last_second: str
) -> None:
    """In New York that day has 25 hours. A month of UTC may end on 28 February; in Auckland 30 March is the 31st."""
    clock = f"""
        set local timezone = '{zone}';
        create or replace function asyncq.clock() returns timestamptz language sql volatile
        as $$ select timestamptz '{last_second}' + interval '{{0}} s' $$"""
    job = await hold(sql, "active")
    await sql.rows(f"update asyncq._jobs set created_at = '{created}' where id = $1", job)
    outcomes = []
    for seconds in (0, 1):
        await sql.execute(clock.format(seconds))
        outcomes.append((await ask(sql, {"period": period})).outcome)

    assert ["rejected", "added"] == outcomes


async def test_replacing_restarts_the_period(sql: Session) -> None:
    """The new job has a time of creation of its own."""
    await hold(sql, "active", "59 minutes")
    done = await ask(sql, {"period": "PT1H", "on_conflict": "replace"})

    assert await sql.value("select created_at = now() from asyncq._jobs where id = $1", done.id)
    assert done.id == (await ask(sql, {"period": "PT1H"})).existing_id


# Ended jobs


@pytest.mark.parametrize(
    ("policy", "states", "until"),
    [
        ({}, None, None),
        ({"period": "PT1H"}, None, None),
        ({"states": ["active", "completed"]}, ["completed"], "infinity"),
        ({"states": ["completed", "discarded"], "period": "PT1H"}, ["completed", "discarded"], "1 h"),
        ({"states": ALL_STATES, "period": "P1M"}, ["completed", "cancelled", "discarded"], "1 month"),
    ],
)
async def test_a_job_is_kept_for_as_long_as_its_policy_includes_ended_jobs(
    sql: Session, policy: dict[str, Any], states: list[str] | None, until: str | None
) -> None:
    """A row for each job for ever would be an endless table."""
    await ask(sql, policy)
    row = await sql.row(
        """
        select keep_states, keep_until is not distinct from case $1
          when 'infinity' then $1::timestamptz
          else (now() at time zone 'UTC' + $1::interval) at time zone 'UTC' end as fits
        from asyncq._jobs""".replace("$1", "$1::text"),
        until,
    )

    assert (states, True) == (row["keep_states"], row["fits"])


async def test_an_ended_job_that_was_kept_conflicts_with_others_until_its_time(sql: Session) -> None:
    """It counts until then even if it is not pruned, and not afterwards: the time of a cleanup must not matter."""
    policy = {"states": ["completed"], "period": "PT1H"}
    job = (await ask(sql, policy)).id
    await sql.rows("select asyncq._end_jobs(array[$1::bigint], 'completed')", job)
    inside = await ask(sql, policy)
    await sql.execute("update asyncq._ended_jobs set keep_until = now() - interval '1 s'")
    after = await ask(sql, policy | {"period": None})

    assert Done("rejected", job, job, "completed") == inside
    assert "added" == after.outcome
