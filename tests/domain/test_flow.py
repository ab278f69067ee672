"""Workflows: the jobs that are made of them, and what is refused before any round trip."""

from collections.abc import Callable
from typing import Any

import pytest

from asyncq import InvalidJob, JobContext, TaskError, chain, group, task
from asyncq.domain import flow
from asyncq.domain.flow import jobs_of


@task
async def first() -> list[int]:
    """Start."""
    return []


@task
async def whole(numbers: list[int]) -> list[int]:
    """Take the whole payload."""
    return numbers


@task
async def named(day: Any, dry: bool = False) -> str:
    """Take a member of the payload."""
    return day


@task
async def scalar(number: int) -> int:
    """Take a member of the payload."""
    return number


@task
async def two(number: int, other: int) -> None:
    """Take two arguments."""


@task
async def nothing(ctx: JobContext) -> None:
    """Take no argument."""


def test_each_job_names_those_before_it_by_their_places() -> None:
    """A workflow that is part of two others is added once."""
    shared = chain(scalar.job(1))
    jobs = jobs_of(group([shared, shared.then(scalar), scalar.job(2)]).then(whole, if_failed="run"))

    assert [None, (-1,), None, (-1, -2, -3)] == [job.after for job in jobs]
    assert [None, "result", None, "results"] == [job.takes for job in jobs]
    assert [None, "number", None, None] == [job.takes_as for job in jobs]
    assert [None, None, None, "run"] == [job.if_failed for job in jobs]


def test_a_chain_may_have_thousands_of_links() -> None:
    """Nothing recurses."""
    long = chain(scalar.job(1))
    for _ in range(5000):
        long = long.then(scalar)

    assert (5001, (-5000,)) == (len(jobs_of(long)), jobs_of(long)[-1].after)


def test_a_group_of_none_is_an_empty_list() -> None:
    """In the form that the task takes it."""
    payloads = [jobs_of(group(list[Any]()).then(task, if_failed="run"))[0].payload for task in (whole, named)]

    assert ["[]", '{"day":[]}'] == payloads


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: chain(first), "a chain has jobs, made with task.job"),  # type: ignore[call-overload]
    (lambda: group([scalar]), "a group has jobs, made with task.job"),  # type: ignore[list-item]
    (lambda: chain(first.job(), whole.job([1])), "a job has its payload already"),  # type: ignore[call-overload]
    (lambda: chain(first.job()).then(whole, after=[1]), "after goes without then"),
    (lambda: chain(first.job()).then(whole, singleton=True), "goes without job_key"),
    (lambda: chain(first.job()).then(whole, if_failed="stop"), "if_failed must be"),  # type: ignore[arg-type]
    (lambda: group([one := chain(scalar.job(1)), one]).then(whole), "the same workflow twice"),
    (lambda: jobs_of(group([scalar.job(1)])), "a group needs a job that follows"),
    (lambda: jobs_of(scalar.job(1)), "a workflow is made with chain"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_a_bad_workflow_is_refused(make: Callable[[], Any], said: str) -> None:
    """With a sentence that says how."""
    with pytest.raises(InvalidJob, match=said) as raised:
        make()

    assert "GWBAF" == raised.value.code


@pytest.mark.parametrize(("bad", "said"), [(two, "needs 'other' too"), (nothing, "has no parameter")])
def test_a_task_that_cannot_take_one_result_is_refused(bad: Any, said: str) -> None:
    """At the place where the workflow is made."""
    with pytest.raises(TaskError, match=said):
        chain(scalar.job(1), bad)


def test_too_many_jobs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a group, and in all."""
    monkeypatch.setattr(flow, "MOST_AFTER", 2)
    with pytest.raises(InvalidJob, match="a group has 3 jobs, at most 2 are allowed"):
        group(scalar.job(number) for number in range(3))
    with pytest.raises(InvalidJob, match="a workflow has 3 jobs, at most 2 are allowed"):
        jobs_of(chain(scalar.job(1), scalar, scalar))
