"""`@task`: names, defaults, and errors at import; the registry of a worker or a client."""

import copy
import functools
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from asyncq.domain.cron.slot import Slot, job_of
from asyncq.domain.errors import InvalidJob, TaskError, UnknownTask
from asyncq.domain.hints import ADDING
from asyncq.domain.job import JobSpec
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, LARGEST_PAYLOAD
from asyncq.domain.retry import ConstantRetry, DefaultRetry, FunctionRetry, TableRetry
from asyncq.domain.signature import Context
from asyncq.domain.task import Registry, Task, task
from asyncq.domain.unique import UniquePolicy
from tests.support.ids import written

NOON = datetime(2021, 1, 1, 12, tzinfo=UTC)


async def rollup(day: str, dry_run: bool = False) -> str:
    """Sum up a day."""
    return f"{day} {dry_run}"


async def send_email(to: str) -> None:
    """Another handler."""


class Sender:
    """An object that can be called."""

    async def __call__(self, to: str) -> None: ...


# Names


def test_a_task_is_named_after_its_function() -> None:
    """The decorator works with and without parentheses."""
    assert ["rollup", "rollup"] == [task(rollup).name, task(queue="q")(rollup).name]


def test_a_task_can_have_another_name() -> None:
    """The name in the database outlives the function's."""
    assert "reports/rollup" == task(name="reports/rollup")(rollup).name


def test_a_partial_is_named_after_its_function() -> None:
    """The class's name, `partial`, would be useless."""
    assert "rollup" == task(functools.partial(functools.partial(rollup), dry_run=True)).name


def test_an_object_is_named_after_its_class() -> None:
    """It has no name of its own."""
    assert "Sender" == task(Sender()).name


def test_a_lambda_needs_a_name() -> None:
    """All lambdas are called `<lambda>`."""
    with pytest.raises(TaskError, match=r"give it one, task\(name=...\)"):
        task(lambda day: None)

    assert "named" == task(name="named")(lambda day: None).name


def test_a_task_knows_whether_its_name_was_given() -> None:
    """A folder of tasks names the others after their files."""
    assert (False, True) == (task(rollup).is_named, task(name="rollup")(rollup).is_named)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 129, 5, "a\0"], ids=ascii)
def test_a_name_that_no_job_can_have_is_refused(name: Any) -> None:
    """It is refused at import, not at each add."""
    with pytest.raises(TaskError, match="identifier"):
        task(name=name)(rollup)


def test_a_renamed_task_is_a_copy_under_another_name() -> None:
    """Its jobs have the new name and the old defaults."""
    first = task(queue="q")(rollup)
    other = first.renamed("folder/rollup")

    assert ("rollup", "folder/rollup", True) == (first.name, other.name, other.is_named)
    assert JobSpec(task="folder/rollup", payload='{"day":"x"}', queue="q") == other.job("x")


def test_a_task_is_not_renamed_to_its_own_name() -> None:
    """It stays the same object, so that a registry does not find two."""
    first = task(rollup)

    assert first is first.renamed("rollup")


@pytest.mark.parametrize("name", ["", "x" * 129])
def test_a_task_is_not_renamed_to_an_invalid_name(name: str) -> None:
    """`name=` refuses such names too."""
    with pytest.raises(TaskError, match="identifier"):
        task(rollup).renamed(name)


# Transactional tasks


async def in_context(ctx: Context, day: str) -> None:
    """Take the context, which a transactional task needs."""


def test_a_transactional_task_has_a_level_of_isolation_and_others_have_none() -> None:
    """Read committed unless another is given."""
    levels = [
        task(in_context).isolation,
        task(transactional=True)(in_context).isolation,
        task(transactional=True, isolation="serializable")(in_context).isolation,
    ]

    assert [None, "read_committed", "serializable"] == levels


def test_only_jobs_of_tasks_that_complete_them_in_transactions_need_rows() -> None:
    """A handler that takes the context does not need a row for that."""
    needs = [task(**options)(in_context).needs_row for options in ({}, {"completes": True}, {"transactional": True})]

    assert [False, True, True] == needs


def in_thread(ctx: Context) -> None:
    """A thread cannot use the worker's connection."""


@pytest.mark.parametrize(
    ("handler", "options", "said"),
    [
        (in_context, {"transactional": 1}, "transactional must be True or False, got 1"),
        (in_context, {"isolation": "serializable"}, "it needs transactional=True"),
        (
            in_context,
            {"transactional": True, "isolation": "snapshot"},
            "isolation 'snapshot' is unknown, expected one of",
        ),
        (in_thread, {"transactional": True}, "a transactional handler is a coroutine function"),
        (rollup, {"transactional": True}, "a transactional handler needs a parameter for the context"),
        (in_context, {"completes": 1}, "completes must be True or False, got 1"),
        (in_context, {"completes": True, "transactional": True}, "it needs no completes=True"),
        (rollup, {"completes": True}, "they need a parameter for the context"),
    ],
)
def test_a_handler_that_cannot_complete_its_job_in_a_transaction_is_refused(
    handler: Any, options: dict[str, Any], said: str
) -> None:
    """It is refused at import."""
    with pytest.raises(TaskError, match=said):
        task(**options)(handler)


# Jobs and their defaults


def test_a_job_has_the_defaults_of_its_task() -> None:
    """Options that were not given are those of the database."""
    mail = task(queue="mail", max_attempts=5, priority=-1, flags=["b", "a"])(send_email)

    assert JobSpec(
        task="send_email", payload='{"to":"x"}', queue="mail", max_attempts=5, priority=-1, flags=("a", "b")
    ) == mail.job("x")
    assert JobSpec(task="rollup", payload='{"day":"x"}') == task(rollup).job("x")


def test_an_option_of_the_job_overrides_that_of_the_task() -> None:
    """Every one can be overridden per job; 0 is a priority."""
    job = task(queue="mail", priority=5)(send_email).job("x").with_options(priority=0)

    assert (0, "mail") == (job.priority, job.queue)


def test_a_job_has_the_policy_of_its_task() -> None:
    """The policy may be an object or a mapping; a renamed task keeps it."""
    policy = UniquePolicy(keys=["args"])
    unique = task(unique=policy)(rollup)

    assert policy == unique.job("x").unique == task(unique={"keys": ["args"]})(rollup).job("x").unique
    assert policy == unique.renamed("other").job("x").unique
    assert [True, False] == [task(singleton=value)(rollup).job("x").singleton for value in (True, False)]
    assert (None, False) == (task(rollup).job("x").unique, task(rollup).job("x").singleton)


def test_the_policy_of_a_job_takes_the_place_of_that_of_its_task() -> None:
    """It works in both directions."""
    policy = UniquePolicy()
    single, unique = task(singleton=True)(rollup).job("x"), task(unique=policy)(rollup).job("x")

    assert (policy, False) == (single.with_options(unique=policy).unique, single.with_options(unique=policy).singleton)
    assert (None, True) == (unique.with_options(singleton=True).unique, unique.with_options(singleton=True).singleton)


def test_a_priority_of_zero_is_a_default_too() -> None:
    """Zero is a value, None is not."""
    assert [0, None] == [task(priority=priority)(rollup).job("x").priority for priority in (0, None)]


def test_a_job_takes_the_parameters_of_the_handler() -> None:
    """They are checked against the signature."""
    with pytest.raises(InvalidJob, match=r"Expected `bool`, got `str` - at `\$.dry_run`"):
        task(rollup).job("x", dry_run="yes")  # type: ignore[arg-type]


def test_a_job_may_be_as_large_as_any_client_allows() -> None:
    """Which of them adds it, and with which limit, a spec does not know."""
    job = task(send_email).job("x" * DEFAULT_MAX_PAYLOAD)

    assert DEFAULT_MAX_PAYLOAD < len(job.payload)
    with pytest.raises(InvalidJob, match="at most 16777216 are allowed"):
        task(send_email).job("x" * LARGEST_PAYLOAD)


def test_a_task_is_called_like_its_function() -> None:
    """A test can call the handler without a queue."""
    assert "x 2" == task(name="t")(lambda day, n: f"{day} {n}")("x", n=2)


def test_a_task_shows_its_name_and_the_docstring_of_its_function() -> None:
    """Debuggers and `help()` show them."""
    assert ("<Task rollup>", "Sum up a day.", __name__) == (
        repr(task(rollup)),
        task(rollup).__doc__,
        task(rollup).__module__,
    )


# Options


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (None, DefaultRetry()),
        (ConstantRetry(5), ConstantRetry(5)),
        ([1, 10], TableRetry((1, 10))),
        (abs, FunctionRetry(abs)),
    ],
    ids=["none", "policy", "list", "function"],
)
def test_retry_becomes_a_policy(retry: Any, expected: Any) -> None:
    """The policy is made once, with the task."""
    assert expected == task(retry=retry)(rollup).retry


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "default"}, "queue 'default' is reserved"),
        ({"queue": "q" * 129}, "queue is 129 characters long"),
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"max_attempts": "5"}, "max_attempts must be an int"),
        ({"priority": 40000}, "priority is 40000"),
        ({"flags": "slow"}, "flags must be a list of str"),
        ({"flags": [1]}, "flags must be a str"),
        ({"unique": {"keys": ["argz"]}}, "unique.keys holds 'argz'"),
        ({"unique": True}, "unique must be an object, got True"),
        ({"unique": {}, "singleton": True}, "unique goes without singleton"),
        ({"singleton": "x"}, "singleton must be True or False"),
        ({"retry": 5}, "retry must be a policy"),
        ({"retry": ConstantRetry}, "retry must be a policy"),
        ({"retry": []}, "a retry table needs at least one delay"),
        ({"on_discarded": "log"}, "on_discarded must be a function"),
    ],
    ids=str,
)
def test_an_option_that_breaks_a_rule_is_refused_with_the_name_of_the_task(options: dict[str, Any], said: str) -> None:
    """It is refused at import."""
    with pytest.raises(TaskError, match=f"task 'rollup': {said}"):
        task(**options)(rollup)


def test_an_option_that_does_not_exist_is_a_type_error() -> None:
    """The error suggests a known option. It is raised before the function is decorated."""
    for option, said in {
        "max_retries": "@task has no option 'max_retries'; max_attempts= counts all attempts",
        "time_limit": "no option 'time_limit'; timeout= limits the time of one attempt",
        "rate_limit": "no option 'rate_limit'; rate= limits how many start in a time",
        "retry_backoff": "no option 'retry_backoff'; retry= has the waits",
        "transactionl": r"no option 'transactionl'; did you mean 'transactional'\?$",
        "xyz": "@task has no option 'xyz'$",
    }.items():
        with pytest.raises(TypeError, match=said):
            task(**{option: 5})  # type: ignore[call-overload]


@pytest.mark.parametrize("name", sorted(ADDING))
def test_the_methods_of_other_libraries_for_an_add_suggest_ours(name: str) -> None:
    """Users of other queues try `delay`, `send` and so on first."""
    with pytest.raises(AttributeError, match=f"no attribute '{name}': .*`await client.add_job") as caught:
        getattr(task(rollup), name)

    assert (name, "rollup") == (caught.value.name, caught.value.obj.name)


def test_an_unknown_name_is_no_attribute_of_a_task_as_of_any_object() -> None:
    """Probing, copies, pickle and mocks rely on it."""
    made = task(rollup)

    assert [False] * 4 == [hasattr(made, name) for name in ("delay", "nothing", "__await__", "__setstate__")]
    assert (made.name, made.handler) == (copy.copy(made).name, copy.copy(made).handler)
    assert not hasattr(mock.create_autospec(made), "nothing")
    with pytest.raises(AttributeError, match=r"a Task has no attribute 'handler'$"):
        _ = Task.__new__(Task).handler


@pytest.mark.parametrize("tasks", [None, 5, "app.tasks", rollup])
def test_tasks_that_are_no_list_are_refused_in_a_sentence(tasks: Any) -> None:
    """A module's name would be read as a list of letters."""
    with pytest.raises(TaskError, match="tasks must be a list of functions decorated with @task, got"):
        Registry(tasks)


# Recurring


def test_a_task_brings_its_recurring_jobs_along() -> None:
    """They are declared beside its handler, and have its defaults."""
    made = task(queue="q", cron="0 8 * * * ?fill=1d {day: 'today'}")(rollup)

    [item] = made.cron_items
    assert ("rollup", timedelta(days=1), "q") == (item.identifier, item.fill_period, item.template.queue)
    assert () == task(rollup).cron_items


def test_a_task_may_recur_in_several_ways() -> None:
    """All but one need an `id`. Any collection is accepted, even one that can be read once."""
    recurrences = ["0 8 * * * {day: 'x'}", "0 9 * * * ?id=nine {day: 'x'}"]

    assert ["rollup", "nine"] == [item.identifier for item in task(cron=iter(recurrences))(rollup).cron_items]


def test_a_renamed_task_recurs_under_its_new_name() -> None:
    """The task of a file is called as its path says, and so are its jobs; an `id` stays."""
    made = task(cron=iter(["0 8 * * * {day: 'x'}", "0 9 * * * ?id=nine {day: 'x'}"]))(rollup).renamed("reports/rollup")

    found = [(item.identifier, job_of(Slot(item, NOON)).task) for item in made.cron_items]
    assert [("reports/rollup", "reports/rollup"), ("nine", "reports/rollup")] == found


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("60 8 * * * {day: 'x'}", "task 'rollup': .*minute is 60, expected 0 to 59"),
        ("0 8 * * *", "task 'rollup': .*missing required field `day`"),
        (5, "(?s)task 'rollup': .*match must be a cron expression or a plain function, got 5"),
        (["0 8 * * * {day: 'x'}"] * 2, "task 'rollup': .*have this identifier"),
    ],
    ids=["expression", "payload", "no-recurrence", "twice"],
)
def test_a_recurrence_that_cannot_be_used_is_refused_at_import(cron: Any, said: str) -> None:
    """Otherwise it would fail at its first slot."""
    with pytest.raises(TaskError, match=said):
        task(cron=cron)(rollup)


# Flags


def test_flags_are_any_collection_of_str() -> None:
    """A generator is read once."""
    assert [("a", "b")] * 3 == [
        task(flags=flags)(rollup).job("x").flags for flags in (["b", "a"], {"a", "b"}, (flag for flag in "ba"))
    ]


def test_a_handler_that_cannot_be_served_is_refused() -> None:
    """`test_signature_handlers.py` tests the messages."""
    with pytest.raises(TaskError, match="task 'unserved': "):

        @task
        async def unserved(*days: str) -> None: ...


def test_a_task_is_no_handler() -> None:
    """`@task` twice is a slip."""
    with pytest.raises(TaskError, match="is already a task"):
        task(task(rollup))


# The registry


def test_a_registry_finds_tasks_by_name() -> None:
    """They have the order in which they were given."""
    first, second = task(rollup), task(send_email)
    registry = Registry([first, second])

    assert (["rollup", "send_email"], 2, first, second) == (
        list(registry),
        len(registry),
        registry["rollup"],
        registry.find("send_email"),
    )


def test_two_tasks_of_one_name_are_refused_with_both_places() -> None:
    """One of them would never run."""

    @task
    async def rollup(day: int) -> None: ...

    places = rf"{__name__}\.send_email and {__name__}\.test_two_tasks.*<locals>\.rollup; give one of them a name="
    with pytest.raises(TaskError, match=f"two tasks are called 'rollup': {places}"):
        Registry([task(name="rollup")(send_email), rollup])


def test_one_task_may_be_given_twice() -> None:
    """Two lists of tasks may share one."""
    first = task(rollup)

    assert ["rollup"] == list(Registry([first, first]))


@pytest.mark.parametrize("item", [rollup, "rollup", None, Task], ids=written)
def test_an_object_that_is_no_task_is_refused(item: Any) -> None:
    """The decorator is missing."""
    with pytest.raises(TaskError, match="tasks must be decorated with @task, got "):
        Registry([item])


def test_a_single_task_is_no_list() -> None:
    """`tasks=rollup` is a typo for `tasks=[rollup]`."""
    with pytest.raises(TaskError, match="tasks must be a list"):
        Registry(task(rollup))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "nearest"), [("send_emial", "send_email"), ("rolup", "rollup"), ("x", None)])
def test_the_error_for_an_unknown_name_suggests_the_nearest_one(name: str, nearest: str | None) -> None:
    """An unknown name is nearly always a typo."""
    with pytest.raises(UnknownTask) as caught:
        Registry([task(rollup), task(send_email)]).find(name)

    assert (name, nearest) == (caught.value.name, caught.value.nearest)


def test_an_async_static_method_is_a_coroutine_function() -> None:
    """Decorated before its class is made, it is an object around the function."""

    class Reports:
        @task(transactional=True)
        @staticmethod
        async def build(ctx: Context) -> None:
            """Build one."""

    assert Reports.build.signature.is_async
