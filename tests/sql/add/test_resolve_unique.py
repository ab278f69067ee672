"""`_resolve_unique`: many adds in one call that share no key; each question with its own answer."""

from typing import Any

from tests.support.keyed import Done, stored
from tests.support.session import Session
from tests.support.unique import DEFAULT_STATES, ask, ask_all, hold, left, spec


async def test_a_call_mixes_all_cases_and_answers_in_the_order_of_its_specs(sql: Session) -> None:
    """Each as if it were alone."""
    held = {task: await hold(sql, "available", task=task) for task in ("reject", "ignore", "replace")}
    held["rerun"] = await hold(sql, "active", task="rerun")
    held["request"] = (await ask(sql, task="request", idempotency_key="r")).id
    held["key"] = (await ask(sql, task="key", job_key="k")).id
    specs = [
        spec(task="plain"),
        *(spec({"on_conflict": strategy}, task=strategy) for strategy in ("reject", "ignore", "replace")),
        spec({"on_conflict": "replace"}, task="free"),
        spec(task="rerun", singleton=True, rerun=True),
        spec(task="request", idempotency_key="r"),
        spec(task="key", job_key="k"),
        spec(task="key", job_key="new"),
        spec(task="plain"),
    ]
    done = await ask_all(sql, specs)
    plain, replacing, free, keyed, last = (done[place].id for place in (0, 3, 4, 8, 9))

    assert [
        Done("added", plain),
        Done("rejected", held["reject"], held["reject"], "available"),
        Done("deduplicated", held["ignore"], held["ignore"], "available"),
        Done("added", replacing, held["replace"], "available"),
        Done("added", free),
        Done("updated", held["rerun"], held["rerun"], "active"),
        Done("deduplicated", held["request"], held["request"], "available"),
        Done("updated", held["key"], held["key"], "available"),
        Done("added", keyed),
        Done("added", last),
    ] == done
    assert max(held.values()) < plain < replacing < free < keyed < last


async def test_every_field_of_an_added_job_is_stored(sql: Session) -> None:
    """The call also has dropped jobs, so that jobs and outcomes could be joined wrongly."""
    await hold(sql, "available", policy={"keys": ["args"]}, payload={"n": 1})
    specs = [
        spec({"keys": ["args"], "on_conflict": "ignore"}, task="t", payload={"n": n}, queue=f"q{n}",
            run_at=f"2040-01-01T00:00:0{n}Z", meta={"m": n})
        for n in range(4)
    ]  # fmt: skip
    done = await ask_all(sql, specs)
    rows = await stored(sql)

    assert ["added", "deduplicated", "added", "added"] == [one.outcome for one in done]
    for n in (0, 2, 3):
        row = rows[done[n].id]
        assert (f'{{"n": {n}}}', f"q{n}", n, f'{{"m": {n}}}') == (
            *(row["payload"], row["queue"], row["run_at"].second, row["meta"]),
        )


async def test_the_task_of_a_dropped_job_is_not_stored(sql: Session) -> None:
    """It would be the name of a job that never was."""
    await ask(sql, {}, task="caf\u00e9")
    await ask_all(sql, [spec({}, task="cafe\u0301"), spec(task="u")])

    assert ["caf\u00e9", "u"] == await sql.values("select identifier from asyncq._tasks order by id")


# Rerun


async def test_a_rerun_is_remembered_while_the_job_runs(sql: Session) -> None:
    """The last payload counts; the rest of the job stays."""
    job = await hold(sql, "active", policy={}, queue="q")
    before = dict(await sql.row("select * from asyncq._jobs"))
    for n in range(2):
        done = await ask(sql, singleton=True, rerun=True, payload={"n": n}, queue="other", meta={"m": 1})

        assert Done("updated", job, job, "active") == done
    after = dict(await sql.row("select * from asyncq._jobs"))

    assert before | {"rerun": '{"n": 1}', "updated_at": await sql.value("select now()")} == after


async def test_a_rerun_without_a_payload_has_the_empty_object(sql: Session) -> None:
    """Null would mean that no rerun was requested."""
    await hold(sql, "active")
    await sql.rows("""select asyncq.add_job('t', options := '{"singleton": true, "rerun": true}')""")

    assert "{}" == await sql.value("select rerun::text from asyncq._jobs")


async def test_a_waiting_job_counts_as_the_requested_rerun(sql: Session) -> None:
    """It will run after the request, so it counts as the rerun.

    This includes a retry, and a job beside a running one.
    """
    for state in ("scheduled", "available", "retryable"):
        waiting = await hold(sql, state, "2 days")
        await hold(sql, "active", "1 day")
        done = await ask(sql, singleton=True, rerun=True)
        reruns = await sql.values("select rerun from asyncq._jobs")
        await sql.execute("delete from asyncq._jobs")

        assert (Done("deduplicated", waiting, waiting, state), [None, None]) == (done, reruns)


async def test_of_several_running_jobs_the_newest_is_run_again(sql: Session) -> None:
    """Forced ones may run side by side. An ended one cannot run again."""
    jobs = [await hold(sql, "active", age) for age in ("2 days", "1 day", "3 days")]
    await hold(sql, "completed", "1 h")
    done = await ask(sql, {"states": ["active", "completed"]}, rerun=True)

    assert Done("updated", jobs[1], jobs[1], "active") == done
    assert [jobs[1]] == await sql.values("select id from asyncq._jobs where rerun is not null")


async def test_a_rerun_of_a_cancelled_job_is_a_new_job(sql: Session) -> None:
    """It still runs, but its end will have no effect."""
    await hold(sql, "cancelled, running")

    assert "added" == (await ask(sql, singleton=True, rerun=True)).outcome


async def test_a_rerun_that_finds_nothing_running_is_as_without(sql: Session) -> None:
    """Its policy decides."""
    job = await hold(sql, "completed")

    assert "added" == (await ask(sql, singleton=True, rerun=True)).outcome
    assert Done("rejected", job, job, "completed") == await ask(sql, {"states": ["completed"]}, rerun=True)


# Singletons


async def test_a_singleton_is_one_for_each_type_or_subject(sql: Session) -> None:
    """Payload, queue and time do not matter."""
    cases: list[dict[str, Any]] = [
        {"task": "t"},
        {"task": "t", "subject": "a"},
        {"task": "t", "subject": "b"},
        {"task": "u", "subject": "a"},
    ]
    first = [await ask(sql, singleton=True, **case) for case in cases]
    again = [await ask(sql, singleton=True, payload=[1], queue="q", **case) for case in cases]

    assert ["added"] * 4 == [done.outcome for done in first]
    assert [Done("deduplicated", done.id, done.id, "available") for done in first] == again


async def test_a_singleton_that_waits_can_be_replaced(sql: Session) -> None:
    """One mechanism: without a subject its key is that of the default policy."""
    old = await ask(sql, singleton=True)
    done = await ask(sql, {"on_conflict": "replace"}, payload={"fresh": True})

    assert Done("added", done.id, old.id, "available") == done
    assert {done.id: ("available", True)} == await left(sql)


async def test_a_forced_singleton_is_added_beside_another_and_conflicts_with_later_ones(sql: Session) -> None:
    """The next add finds two jobs with the key."""
    first = await ask(sql, singleton=True)
    forced = await ask(sql, singleton=True, force=True)
    third = await ask(sql, singleton=True)

    assert ["added", "added"] == [first.outcome, forced.outcome]
    assert Done("deduplicated", forced.id, forced.id, "available") == third
    assert [True, True] == [has_key for _, has_key in (await left(sql)).values()]


async def test_a_forced_job_may_have_a_job_key(sql: Session) -> None:
    """Only the job with the job key is checked. A replaced job gets the unique key."""
    plain = await ask(sql, job_key="k")
    forced = await ask(sql, singleton=True, force=True, job_key="k")
    keys = await sql.values("select unique_key is not null from asyncq._jobs")
    again = await ask(sql, singleton=True)
    await ask(sql, job_key="k")

    assert Done("updated", plain.id, plain.id, "available") == forced
    assert ([True], "deduplicated") == (keys, again.outcome)
    assert "added" == (await ask(sql, singleton=True)).outcome


async def test_the_default_states_are_those_that_have_yet_to_end(sql: Session) -> None:
    """A discarded singleton can be added again."""
    await hold(sql, "discarded")

    assert ("available", "active", "scheduled", "retryable", "pending") == DEFAULT_STATES
    assert "added" == (await ask(sql, singleton=True)).outcome


# Kept rows


async def test_a_job_that_a_job_key_replaces_stays_subject_to_earlier_requests_to_keep_it(sql: Session) -> None:
    """An earlier request with an idempotency key may be repeated, and must find its job."""
    await ask(sql, job_key="k", idempotency_key="r")
    await ask(sql, job_key="k")
    await ask(sql, {"states": ["completed"]}, force=True, job_key="k")
    await ask(sql, {"states": ["discarded"], "period": "PT1H"}, force=True, job_key="k")
    row = await sql.row("select keep_states, keep_until = 'infinity' as for_ever from asyncq._jobs")

    assert (["completed", "cancelled", "discarded"], True) == (row["keep_states"], row["for_ever"])


async def test_states_to_keep_accumulate_over_policies(sql: Session) -> None:
    """Each state is stored once."""
    for states in (["completed"], ["discarded"], ["completed"], ["discarded", "completed"]):
        await ask(sql, {"states": states}, force=True, job_key="k")

    assert ["completed", "discarded"] == await sql.value("select keep_states from asyncq._jobs")
