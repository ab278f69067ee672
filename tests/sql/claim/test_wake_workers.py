"""`_wake_workers`, and when an add calls it: workers hear of due jobs at commit, once a transaction."""

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
# As the client calls it: what nobody asked for is null as a whole.
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
async def test_an_add_of_a_job_that_is_due_soon_is_heard(own: Session, ear: Ear, add: str) -> None:
    """Idle workers start it within a millisecond; they look for later ones by themselves."""
    await own.execute(add)

    assert [(f"{own.schema}:jobs", "")] == await ear.heard()


@pytest.mark.parametrize(
    "add",
    [
        "select asyncq.add_job('t', run_at := now() + interval '61 s')",
        f"select asyncq.add_jobs(array[{LATER_SPEC}])",
        BARE.format(run_ats="array[now() + interval '1 day', now() + interval '61 s']"),
        "select asyncq.add_jobs('{}')",
    ],
)
async def test_an_add_of_a_job_that_is_due_later_is_not_heard(own: Session, ear: Ear, add: str) -> None:
    """A notification takes a lock of the whole server at commit; a worker looks at least once a minute anyway."""
    await own.execute(add)

    assert [] == await ear.heard()


HELD = {
    # what holds the key, what is added -> whether it is heard
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
async def test_a_keyed_add_is_heard_if_the_job_that_stands_for_it_is_due(own: Session, ear: Ear, case: str) -> None:
    """Also one that was there already: while the add held its row, workers passed it by, and went to sleep."""
    state, specs, is_heard = HELD[case]
    if state:
        await hold(own, state.removesuffix(" now"))
        await own.execute(f"""
            update asyncq._jobs set run_at = now() - interval '1 s'
              where {state.endswith(" now")} or locked_by is not null or attempts = max_attempts""")
    await ear.forget()
    await add_all(own, specs if isinstance(specs, list) else [specs])
    heard = await ear.heard()
    await own.execute("delete from asyncq._jobs")

    assert ([(f"{own.schema}:jobs", "")] if is_heard else []) == heard


# What an administrator does to a job in some state -> whether it is heard.
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
async def test_what_an_administrator_makes_due_is_heard(own: Session, ear: Ear, case: str) -> None:
    """It starts at once, and not at the next poll; also a job that workers passed by while its row was locked."""
    state, call, is_heard = ADMINISTERED[case]
    job = await hold(own, state)
    await ear.forget()
    await own.rows(call, [job["id"]])
    heard = await ear.heard()
    await own.execute("delete from asyncq._jobs")

    assert ([(f"{own.schema}:jobs", "")] if is_heard else []) == heard


async def test_a_hundred_adds_in_one_transaction_are_heard_once(own: Session, ear: Ear) -> None:
    """The text is constant, and the server folds equal notifications, of sub-transactions too."""
    async with own.connection.transaction():
        for _ in range(50):
            await own.execute("select asyncq.add_job('t')")
        async with own.connection.transaction():
            await own.execute("select asyncq.add_job('t') from generate_series(1, 50)")

    assert ONCE == len(await ear.heard())


async def test_an_add_is_heard_at_commit(own: Session, ear: Ear) -> None:
    """Before it, a worker would look, see nothing, and sleep."""
    async with own.connection.transaction():
        await own.execute("select asyncq.add_job('t')")
        before = len(await ear.heard())

    assert (0, ONCE) == (before, len(await ear.heard()))


async def test_a_worker_that_begins_to_rest_while_an_add_asks_for_one_is_told(dsn: str, own: Session) -> None:
    """The add found nobody on call and has left no trace yet: the worker sees none, and would sleep over it."""
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

        assert (True, True, [(f"{own.schema}:jobs", "")]) == (is_mine, adds_settled, await ear.heard())


async def test_an_add_that_is_rolled_back_is_not_heard(own: Session, ear: Ear) -> None:
    """There is nothing to run."""
    transaction = own.connection.transaction()
    await transaction.start()
    await own.execute("select asyncq.add_job('t')")
    await transaction.rollback()

    assert [] == await ear.heard()


async def test_a_savepoint_that_is_rolled_back_is_not_heard(own: Session, ear: Ear) -> None:
    """The same, for a part of a transaction."""
    async with own.connection.transaction():
        await own.refusal("select asyncq.add_job('t'), 1 / 0")

    assert [] == await ear.heard()


async def test_the_instant_decides_and_not_the_start_of_a_long_transaction(own: Session, ear: Ear) -> None:
    """In a transaction of ten minutes, a time in 30 seconds is more than a minute after its start."""
    await own.execute("""
        create or replace function asyncq.now() returns timestamptz language sql stable
        as $$ select pg_catalog.now() - interval '10 min' $$;
        select asyncq.add_job('t', run_at := clock_timestamp() + interval '30 s');""")

    assert ONCE == len(await ear.heard())


async def test_two_schemas_never_hear_each_other(dsn: str, own: Session, ear: Ear) -> None:
    """Several applications share a database; neither may cost the others."""
    async with temporary_schema(dsn) as other, session(dsn, other) as stranger:
        await stranger.execute("select asyncq.add_job('t')")

        assert [] == await ear.heard()
