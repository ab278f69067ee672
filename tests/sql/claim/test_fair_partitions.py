"""`fetch_partitions`: the keys of a fair limit take turns, by their weights."""

from collections import Counter

import pytest

from tests.support.jobs import add_many, complete, fetch
from tests.support.session import Session

FAIR = """
insert into asyncq._limits (id, name, fair) values (9, 'tenants', true);
update asyncq._tasks set limit_id = 9, by = '{tenant}';
"""


async def wait_of(sql: Session, jobs: dict[str, int]) -> None:
    """Let so many jobs of each tenant wait, the first tenant's since longer."""
    for tenant, count in jobs.items():
        job = f"""asyncq._new_job('t', '{{"tenant": "{tenant}"}}', null, null, null::jsonb)"""
        await sql.execute(f"select asyncq._insert_jobs(array(select {job} from generate_series(1, {count})))")


async def turns(sql: Session, fetches: int, most: int) -> list[Counter[str]]:
    """How many jobs of each tenant each fetch brings; they end at once."""
    brought: list[Counter[str]] = []
    for _ in range(fetches):
        claims = await fetch(sql, most)
        brought.append(Counter(claim["payload"].split('"')[3] for claim in claims))
        await complete(sql, claims)
    return brought


@pytest.fixture
async def fair(sql: Session) -> None:
    """A fair limit of the task, by tenant."""
    await add_many(sql, 1)
    await sql.execute(f"delete from asyncq._jobs; {FAIR}")


@pytest.mark.usefixtures("fair")
async def test_ten_jobs_do_not_wait_for_ten_thousand_of_another_tenant(sql: Session) -> None:
    """The second fetch at the latest brings some of them."""
    await wait_of(sql, {"large": 10_000, "small": 10})

    first, second = await turns(sql, 2, 100)

    assert (first + second)["small"] == 10


@pytest.mark.usefixtures("fair")
async def test_a_weight_of_three_gives_three_times_as_many(sql: Session) -> None:
    """As long as both have jobs."""
    await wait_of(sql, {"heavy": 400, "light": 400})
    await turns(sql, 1, 20)
    await sql.execute("update asyncq._partitions set weight = 3 where id = asyncq._partition(9::smallint, 'heavy')")

    total = sum(await turns(sql, 10, 40), Counter[str]())

    assert 2 <= total["heavy"] / total["light"] <= 4, total
