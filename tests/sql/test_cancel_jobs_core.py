"""`_cancel_jobs`: what Python is told of jobs that were cancelled."""

import json

from tests.sql.jobs import add, fetch
from tests.sql.session import Session


async def test_the_documents_are_those_of_the_jobs_as_they_were(sql: Session) -> None:
    """With their payloads, which are gone with what waited; those that run have a worker."""
    running, waiting = await add(sql), await add(sql)
    await fetch(sql, 1, worker=7)
    rows = await sql.run("cancel_jobs", [waiting, running, 0])
    documents = [json.loads(row["document"]) for row in rows]

    assert [(running, "{}", "active", "7"), (waiting, "{}", "available", None)] == [
        tuple(document[name] for name in ("id", "payload", "state", "locked_by")) for document in documents
    ]
