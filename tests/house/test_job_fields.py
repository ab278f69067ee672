"""Each field of `JobSpec` is carried by the statements of a plain add, or keeps a job from being one.

A new field that is in none of these groups would be lost on the way, without an error.
"""

import re

import pytest

from asyncq.domain.job import JobSpec
from asyncq.store.statements import folder

# What these say concerns another field, which is not plain.
DEPENDENT = {"job_key_mode", "subject", "force", "rerun"}
# The names in SQL of fields that Python calls otherwise.
FIELDS = {"identifier": "task", "queue_name": "queue"}
NOT_OF_THE_JOB = {"checks_slots"}


def carried(name: str) -> set[str]:
    """The fields that a statement takes, by its first line."""
    (head, *_) = (folder() / "queries" / "add" / f"{name}.sql").read_text("utf-8").splitlines()
    (parameters,) = re.findall(rf"^-- {name}\(([^)]*)\)", head)
    names = [parameter.split()[0] for parameter in parameters.split(", ")]
    return {FIELDS.get(name, name) for name in names} - NOT_OF_THE_JOB


def special(predicate: str) -> set[str]:
    """The fields that alone make a predicate of a spec false; a spec does not look at the type of a value."""
    assert getattr(JobSpec(task="t"), predicate)
    fields = set(JobSpec.__struct_fields__) - {"task"}
    return {field for field in fields if not getattr(JobSpec(task="t", **{field: (1,)}), predicate)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("predicate", "statement"),
    [("is_plain", "insert_job"), ("is_plain", "fill_slot"), ("is_keyless", "add_keyless_job")],
)
def test_a_field_is_carried_by_the_statement_or_keeps_the_job_from_it(predicate: str, statement: str) -> None:
    """It is not both, and not neither."""
    fields = [*carried(statement), *special(predicate), *DEPENDENT]

    assert sorted(JobSpec.__struct_fields__) == sorted(fields)
