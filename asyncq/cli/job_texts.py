"""How jobs look on the command line: as JSON, as a table, in detail."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from asyncq.domain.job import Job

MANY_LINES = ("payload", "last error")


def document(job: Job) -> str:
    """All fields of the job in JSON; the payload as the JSON that it is, every digit kept."""
    return msgspec.json.encode({**msgspec.structs.asdict(job), "payload": msgspec.Raw(job.payload.encode())}).decode()


def table(jobs: Sequence[Job]) -> list[str]:
    """One line for each job, below a line of headings."""
    rows = [("id", "state", "attempts", "run at", "queue", "task")]
    rows += [
        (
            str(job.id),
            job.state,
            f"{job.attempts} of {job.max_attempts}",
            job.run_at.isoformat(" ", "seconds"),
            printable(job.queue or ""),
            printable(job.task),
        )
        for job in jobs
    ]
    return aligned(rows)


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """One line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def details(job: Job) -> str:
    """All that is known of a job, a line for each field."""
    shown = {
        "id": job.id,
        "task": job.task,
        "state": job.state,
        "queue": job.queue,
        "priority": job.priority,
        "run at": job.run_at.isoformat(),
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "flags": ", ".join(job.flags) or None,
        "created at": job.created_at.isoformat(),
        "updated at": job.updated_at.isoformat(),
        "claimed at": job.locked_at and job.locked_at.isoformat(),
        "claimed by": job.locked_by and f"worker {job.locked_by}",
        "payload": job.payload,
        "meta": None if job.meta is None else msgspec.json.encode(job.meta).decode(),
        "last error": job.last_error,
    }
    shown = {name: str(value) for name, value in shown.items() if value is not None}
    texts = {name: _below(text) if name in MANY_LINES else printable(text) for name, text in shown.items()}
    return "\n".join(f"{name + ':':<12}{text}" for name, text in texts.items())


def _below(text: str) -> str:
    """The text with all its lines, none of which can pass for another field: further ones begin with blanks."""
    return f"\n{'':<12}".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def print_lines(lines: Sequence[str]) -> None:
    """Print each on a line of its own; nothing when there is none."""
    for line in lines:
        print(line)


def printable(text: str) -> str:
    """The text in one line, without what a terminal would obey: names and errors may hold anything."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
