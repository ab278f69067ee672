"""`_claimed`: a claim in a row as workers receive it; test_fetched_claims.py compares it with a claim in a batch."""

from asyncq.domain.job import Claim
from asyncq.domain.moment import read_moment
from tests.support.jobs import add, fetch
from tests.support.session import Session

FIELDS = {
    "lock_token": "token",
    "run_at": "due",
    "created_at": "created",
    "updated_at": "updated",
    "expires_s": "expires_at",
    "deadline_s": "deadline_at",
}
MOMENTS = ("run_at", "created_at", "updated_at")
DISTANCES = {"expires_s": "expires_at", "deadline_s": "deadline_at"}


async def test_its_columns_are_the_fields_of_a_claim(sql: Session) -> None:
    """The client reads them by position."""
    row = await sql.row("select (asyncq._claimed(null)).*")

    names = [*row.keys()]

    assert [*Claim.__struct_fields__] == [*(FIELDS.get(name, name) for name in names), "is_packed", "start_by"]


async def test_each_column_has_the_value_of_the_job(sql: Session) -> None:
    """No other test would notice two exchanged columns of one type."""
    await add(sql, queue="q", priority=3, flags=["f"], max_attempts=7)
    await fetch(sql)
    await sql.execute("""
        update asyncq._jobs set key = 'k', meta = '{"m": 1}', extras = '{"soft_s": 2}', last_error = 'e', attempts = 1,
          interruptions = 2, revision = 4, run_at = '2026-01-01', created_at = '2026-01-02',
          updated_at = '2026-01-03', expires_at = asyncq.now() + interval '1.5 s',
          deadline_at = asyncq.now() - interval '2.5 s'""")
    claimed = dict(await sql.row("select (asyncq._claimed(job)).* from asyncq._jobs as job"))
    moments = ", ".join(f"pg_catalog.timestamptz_send({name}) as {name}" for name in MOMENTS)
    others = ", ".join(claimed.keys() - {*MOMENTS} - DISTANCES.keys())
    distances = ", ".join(
        f"extract(epoch from {at} - asyncq.now())::float8 as {name}" for name, at in DISTANCES.items()
    )
    stored = dict(await sql.row(f"select {moments}, {others}, {distances} from asyncq._jobs"))

    assert stored == claimed
    assert (1.5, -2.5) == (claimed["expires_s"], claimed["deadline_s"])
    assert 3 == len({read_moment(claimed[name]) for name in MOMENTS})
