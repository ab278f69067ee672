"""Shared by the tests of upgrades: the fleet's tasks from a client's view, and waiting for jobs."""

from asyncq import JobSpec, task
from tests.support.session import Session
from tests.support.waiting import wait_until

PLACES = "select place from asyncq.runs where job_id = $1 and what <> 'ended' order by id"


@task
async def step() -> None:
    """Run elsewhere."""


@task
async def hold() -> None:
    """Run until the test releases it."""


def steps(count: int) -> list[JobSpec]:
    """Make so many jobs."""
    return [step.job() for _ in range(count)]


async def add(sql: Session, count: int, task: str = "step") -> list[int]:
    """Add jobs by SQL, which works on any schema; a client of this release does not open on an older one."""
    return await sql.values("select (asyncq.add_job($1)).id from generate_series(1, $2)", task, count)


async def wait_for_runs(sql: Session, count: int, what: str = "ran") -> None:
    """Wait until the table has so many rows of a kind."""

    async def are_there() -> bool:
        return count <= await sql.value("select count(*) from asyncq.runs where what = $1", what)

    await wait_until(are_there, description=f"{count} x {what}")


async def wait_until_settled(sql: Session) -> None:
    """Wait until no job is left, neither waiting nor failed."""

    async def none_left() -> bool:
        return not await sql.value("select count(*) from asyncq.jobs")

    await wait_until(none_left, description="all jobs to be settled")


async def wait_for_place(sql: Session, job_id: int, count: int) -> str:
    """Wait until a job has begun so often; returns whose code began it last."""

    async def has_begun() -> bool:
        return count <= len(await sql.values(PLACES, job_id))

    await wait_until(has_begun, description=f"run {count} of job {job_id}")
    return (await sql.values(PLACES, job_id))[-1]
