"""Each field of `JobSpec` reaches the database in each way of an add.

A new field that none of them carries would be lost without an error.
"""

import re
from datetime import timedelta

import msgspec
import pytest

from asyncq.domain.deduplication import Record, extra, options
from asyncq.domain.job import JobSpec
from asyncq.domain.result import Returns
from asyncq.domain.time_limit import Timeout
from asyncq.domain.unique import UniquePolicy
from asyncq.store.statements import folder

# These say something about another field, and are nothing without it.
DEPENDENT = {
    "subject": {"singleton": True},
    "force": {"singleton": True},
    "rerun": {"singleton": True},
    "if_failed": {"after": (1,)},
    "takes": {"after": (1,)},
    "takes_as": {"after": (1,), "takes": "result"},
}
# The names in SQL of fields that Python calls otherwise.
FIELDS = {"identifier": "task", "queue_name": "queue"}
NOT_OF_THE_JOB = {"checks_slots"}
ARGUMENTS = ("task", "payload", "queue", "run_at")
VALUES = {
    "max_attempts": 3,
    "priority": 0,
    "flags": ("f",),
    "job_key": "k",
    "job_key_mode": "replace",
    "meta": "{}",
    "unique": UniquePolicy(),
    "singleton": True,
    "subject": "s",
    "force": True,
    "rerun": True,
    "idempotency_key": "k",
    "timeout": Timeout(hard=30),
    "expires": timedelta(seconds=60),
    "deadline": timedelta(seconds=60),
    "keep": 0.0,
    "after": (1,),
    "if_failed": "run",
    "takes": "results",
    "takes_as": "parts",
    "returns": Returns(watcher="channel"),
}
# Only a client that reads ends sets it, and a role that may only call enqueue reads none.
NOT_IN_SQL = {"returns"}


def carried(name: str) -> set[str]:
    """The fields that a statement takes, by its first line."""
    (head, *_) = (folder() / "queries" / "add" / f"{name}.sql").read_text("utf-8").splitlines()
    (parameters,) = re.findall(rf"^-- {name}\(([^)]*)\)", head)
    names = [parameter.split()[0] for parameter in parameters.split(", ")]
    return {FIELDS.get(name, name) for name in names} - NOT_OF_THE_JOB


def special() -> set[str]:
    """The fields that alone make a spec not plain; the spec does not check the type of a value."""
    assert JobSpec(task="t").is_plain
    fields = set(JobSpec.__struct_fields__) - {"task"}
    return {field for field in fields if not JobSpec(task="t", **{field: (1,)}).is_plain}  # type: ignore[arg-type]


@pytest.mark.parametrize("statement", ["insert_job", "fill_slot"])
def test_a_field_is_carried_by_the_statement_of_plain_jobs_or_keeps_the_job_from_it(statement: str) -> None:
    """Each field is in exactly one of the two lists."""
    assert sorted(JobSpec.__struct_fields__) == sorted([*carried(statement), *special()])


@pytest.mark.parametrize("statement", ["add_jobs", "add_keyless_job"])
def test_the_other_statements_take_a_record_of_all_options(statement: str) -> None:
    """A new option is a new member of that record."""
    singular = {name.removesuffix("s") for name in carried(statement)}

    assert {"payload", "run_at", "extra"} == singular - {"identifier", "task", "queue_name", "queue"}


@pytest.mark.parametrize("field", sorted({*JobSpec.__struct_fields__} - {*ARGUMENTS}))
def test_an_option_changes_the_record(field: str) -> None:
    """Otherwise SQL would never see it."""
    base = JobSpec(task="t", **DEPENDENT.get(field, {}))

    assert extra(base) != extra(msgspec.structs.replace(base, **{field: VALUES[field]}))


@pytest.mark.parametrize(
    "field", sorted({*JobSpec.__struct_fields__} - {*ARGUMENTS} - {*Record.__struct_fields__} - NOT_IN_SQL)
)
def test_an_option_without_an_argument_of_its_own_is_an_option_of_sql(field: str) -> None:
    """Roles that may only call enqueue need it."""
    base = JobSpec(task="t", **DEPENDENT.get(field, {}))

    assert options(base) != options(msgspec.structs.replace(base, **{field: VALUES[field]}))
