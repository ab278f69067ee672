"""`_wake_workers` and its callers: adds of due jobs notify workers at commit, once a transaction."""

import anyio
import pytest

from asyncq.testing import temporary_schema
from tests.store.test_isolation import waits
from tests.support.ear import Ear
from tests.support.keyed import Spec, add_all, hold
from tests.support.session import Session, session
from tests.support.waiting import wait_until

LATER = "2040-01-01 00:00:00+00"


ONCE = 1
SOON_SPEC = "('t', null, null, null, null, null, null, null, null, null)::asyncq.job_spec"
# The client calls it like this: options that no job has are null as a whole.
BARE = """
select asyncq._add_jobs(array(
  select asyncq._new_job('t', null, null, ({run_ats}::timestamptz[])[place], null) from generate_series(1, 2) as place))
"""
LATER_SPEC = "('t', null, null, now() + interval '1 day', null, null, null, null, null, null)::asyncq.job_spec"


@pytest.mark.parametrize(
    "add",
    [
        "select asyncq.add_job('t')",
        "select asyncq.add_job('t', run_at := now() - interval '1 year')",
        "select asyncq.add_job('t', run_at := now() + interval '59 s')",
        f"select asyncq.add_jobs(array[{SOON_SPEC}])",
        f"select asyncq.add_jobs(array[{LATER_SPEC}, {SOON_SPEC}])",
        BARE.format(run_ats="null"),
        BARE.format(run_ats="array[now() + interval '1 day', null]"),
        BARE.format(run_ats="array[now() + interval '1 day', now() + interval '59 s']"),
        "select asyncq._wake_workers()",
    ],
)
async def test_an_add_of_a_job_that_is_due_soon_notifies(own: Session, ear: Ear, add: str) -> None:
    """Idle workers start it within a millisecond. They find later jobs by themselves."""
    await own.execute(add)

    assert [(f"{own.schema}:jobs", "")] == await ear.received()


@pytest.mark.parametrize(
    "add",
    [
        "select asyncq.add_job('t', run_at := now() + interval '61 s')",
        f"select asyncq.add_jobs(array[{LATER_SPEC}])",
        BARE.format(run_ats="array[now() + interval '1 day', now() + interval '61 s']"),
        "select asyncq.add_jobs('{}')",
    ],
)
async def test_an_add_of_a_job_that_is_due_later_does_not_notify(own: Session, ear: Ear, add: str) -> None:
    """A notification takes a lock of the whole server at commit. A worker fetches once a minute anyway."""
    await own.execute(add)

    assert [] == await ear.received()


HELD = {
    # the job that has the key, the added job -> whether it notifies
    "updated to be due now": ("scheduled", Spec(), True),
    "updated to be due later": ("available", Spec(run_at=LATER), False),
    "updated, and its later time kept": ("scheduled", Spec(mode="preserve_run_at"), False),
    "updated, and its earlier time kept": ("available", Spec(run_at=LATER, mode="preserve_run_at"), True),
    "refused by one that is due": ("available", Spec(run_at=LATER, mode="unsafe_dedupe"), True),
    "refused by one that is due after its failure": ("retryable now", Spec(mode="unsafe_dedupe"), True),
    "refused by one that is due later": ("scheduled", Spec(mode="unsafe_dedupe"), False),
    "refused by one that runs": ("active", Spec(mode="unsafe_dedupe"), False),
    "refused by one that is discarded": ("discarded", Spec(mode="unsafe_dedupe"), False),
    "new beside one that runs": ("active", Spec(), True),
    "new beside one that runs, and due later": ("active", Spec(run_at=LATER), False),
    "new beside one that is discarded, and due later": ("discarded", Spec(run_at=LATER), False),
    "new": (None, Spec(), True),
    "new, and due later": (None, Spec(run_at=LATER), False),
    "refused by a job of the same call that is due": (None, [Spec(), Spec(run_at=LATER, mode="unsafe_dedupe")], True),
    "updated by the same call to be due later": (None, [Spec(), Spec(run_at=LATER)], False),
    "due later, beside a job without a key": ("scheduled", [Spec(run_at=LATER), Spec(key=None)], True),
    "due later, beside a later job without a key": (
        "scheduled",
        [Spec(run_at=LATER), Spec(key=None, run_at=LATER)],
        False,
    ),
}


@pytest.mark.parametrize("case", HELD)
async def test_a_keyed_add_notifies_if_the_job_that_has_the_key_is_due(own: Session, ear: Ear, case: str) -> None:
    """It may be an older job: while the add locked its row, workers skipped it, and went to sleep."""
    state, specs, is_heard = HELD[case]
    if state:
        await hold(own, state.removesuffix(" now"))
        await own.execute(f"""
            update asyncq._jobs set run_at = now() - interval '1 s'
              where {state.endswith(" now")} or locked_by is not null or attempts = max_attempts""")
    await ear.forget()
    await add_all(own, specs if isinstance(specs, list) else [specs])
    heard = await ear.received()
    await own.execute("delete from asyncq._jobs")

    assert ([(f"{own.schema}:jobs", "")] if is_heard else []) == heard


# An administrative call for a job in some state -> whether it notifies.
ADMINISTERED = {
    "a retry": ("discarded", "select asyncq.retry_jobs($1)", True),
    "a retry of a job that has never failed": ("available", "select asyncq.retry_jobs($1)", True),
    "a retry of a job that runs": ("active", "select asyncq.retry_jobs($1)", False),
    "a reschedule to now": ("scheduled", "select asyncq.reschedule_jobs($1, now())", True),
    "a reschedule to a minute from now": (
        "scheduled",
        "select asyncq.reschedule_jobs($1, clock_timestamp() + interval '59 s')",
        True,
    ),
    "a reschedule to later": ("available", "select asyncq.reschedule_jobs($1, now() + interval '1 h')", False),
    "a revival": ("discarded", "select asyncq.reschedule_jobs($1, now(), attempts := 0)", True),
    "a reschedule of a job that stays dead": ("discarded", "select asyncq.reschedule_jobs($1, now())", False),
    "a completion": ("available", "select asyncq.complete_jobs($1)", False),
    "a failure": ("available", "select asyncq.permanently_fail_jobs($1)", False),
    "a forced unlock": ("active", "select asyncq.force_unlock_workers('{9}'), $1::bigint[]", True),
    "a forced unlock of nobody": ("active", "select asyncq.force_unlock_workers('{8}'), $1::bigint[]", False),
}


@pytest.mark.parametrize("case", ADMINISTERED)
async def test_a_call_that_makes_a_job_due_notifies(own: Session, ear: Ear, case: str) -> None:
    """The job starts before the next poll. Workers may have skipped it while its row was locked."""
    state, call, is_heard = ADMINISTERED[case]
    job = await hold(own, state)
    await ear.forget()
    await own.rows(call, [job["id"]])
    heard = await ear.received()
    await own.execute("delete from asyncq._jobs")

    assert ([(f"{own.schema}:jobs", "")] if is_heard else []) == heard


async def test_a_hundred_adds_in_one_transaction_notify_once(own: Session, ear: Ear) -> None:
    """The payload is constant, and the server merges equal notifications, also of subtransactions."""
    async with own.connection.transaction():
        for _ in range(50):
            await own.execute("select asyncq.add_job('t')")
        async with own.connection.transaction():
            await own.execute("select asyncq.add_job('t') from generate_series(1, 50)")

    assert ONCE == len(await ear.received())


async def test_an_add_notifies_at_commit(own: Session, ear: Ear) -> None:
    """A worker that is notified earlier would find no job, and sleep."""
    async with own.connection.transaction():
        await own.execute("select asyncq.add_job('t')")
        before = len(await ear.received())

    assert (0, ONCE) == (before, len(await ear.received()))


async def test_a_worker_that_goes_on_call_while_an_add_checks_is_notified(dsn: str, own: Session) -> None:
    """The add found nobody on call and holds no lock yet: the worker would not notice it, and would sleep."""
    await own.execute("""
        alter function asyncq._has_on_call() rename to _has_one;
        create function asyncq._has_on_call() returns boolean language plpgsql volatile as $$
        declare
          answer constant boolean := asyncq._has_one();
        begin
          perform pg_advisory_xact_lock_shared(77);
          return answer;
        end $$""")
    async with session(dsn, own.schema) as idle, session(dsn, own.schema) as producer:
        await own.rows("select pg_advisory_lock(77)")
        async with anyio.create_task_group() as group:
            group.start_soon(producer.rows, "select asyncq.add_job('t')")
            await wait_until(lambda: waits(own, producer.connection.get_server_pid()), description="the add to ask")
            ear = Ear(idle)
            await ear.listen()
            ((is_mine, adds_settled, _),) = await idle.run("go_on_call", False)  # noqa: FBT003
            await own.rows("select pg_advisory_unlock(77)")

        assert (True, True, [(f"{own.schema}:jobs", "")]) == (is_mine, adds_settled, await ear.received())


async def test_an_add_that_is_rolled_back_does_not_notify(own: Session, ear: Ear) -> None:
    """There is nothing to run."""
    transaction = own.connection.transaction()
    await transaction.start()
    await own.execute("select asyncq.add_job('t')")
    await transaction.rollback()

    assert [] == await ear.received()


async def test_a_savepoint_that_is_rolled_back_does_not_notify(own: Session, ear: Ear) -> None:
    """A part of a transaction behaves like a whole one."""
    async with own.connection.transaction():
        await own.refusal("select asyncq.add_job('t'), 1 / 0")

    assert [] == await ear.received()


async def test_the_current_time_decides_and_not_the_start_of_a_long_transaction(own: Session, ear: Ear) -> None:
    """In a transaction of ten minutes, a time in 30 seconds is more than a minute after its start."""
    await own.execute("""
        create or replace function asyncq.now() returns timestamptz language sql stable
        as $$ select pg_catalog.now() - interval '10 min' $$;
        select asyncq.add_job('t', run_at := clock_timestamp() + interval '30 s');""")

    assert ONCE == len(await ear.received())


async def test_two_schemas_never_hear_each_other(dsn: str, own: Session, ear: Ear) -> None:
    """Several applications share a database; neither may cost the others."""
    async with temporary_schema(dsn) as other, session(dsn, other) as stranger:
        await stranger.execute("select asyncq.add_job('t')")

        assert [] == await ear.received()
