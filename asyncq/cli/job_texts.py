"""Jobs as JSON, as a table, and in detail."""

from collections.abc import Sequence

import msgspec

from asyncq.domain.administration import EndedJob
from asyncq.domain.attempt import Attempt
from asyncq.domain.job import Job
from asyncq.domain.sentence import printable
from asyncq.domain.step import Step

MANY_LINES = ("payload", "result", "last error")


def document(job: Job, *, with_errors: bool = False) -> str:
    """All fields of the job as JSON; each number keeps every digit.

    Its failed attempts and steps only if they were read.
    """
    fields = {**msgspec.structs.asdict(job), "payload": msgspec.Raw(job.payload.encode())}
    if job.result is not None:
        fields["result"] = msgspec.Raw(job.result.encode())
    if not with_errors:
        del fields["errors"], fields["steps"]
    return msgspec.json.encode(fields).decode()


def errors_document(job_id: int, errors: Sequence[Attempt]) -> str:
    """The failed attempts of a job that has ended and is not kept, as JSON."""
    return msgspec.json.encode({"id": job_id, "state": None, "errors": errors}).decode()


def attempts(errors: Sequence[Attempt]) -> list[str]:
    """A line of headings, and one line for each failed attempt, with the first line of its error."""
    rows = [("", "number", "kind", "ended at", "after", "worker", "error")]
    rows += [
        (
            "",
            str(attempt.number),
            attempt.kind,
            attempt.ended_at.isoformat(" ", "seconds"),
            f"{(attempt.ended_at - attempt.started_at).total_seconds():.1f} s",
            str(attempt.worker_id),
            printable(attempt.error.partition("\n")[0]),
        )
        for attempt in errors
    ]
    return aligned(rows)


def steps(done: Sequence[Step]) -> list[str]:
    """A line of headings, and one line for each step."""
    rows = [("", "done at", "name")]
    rows += [("", step.at.isoformat(" ", "seconds"), printable(step.name)) for step in done]
    return aligned(rows)


def table(jobs: Sequence[Job]) -> list[str]:
    """A line of headings, and one line for each job; the column progress only if a job has reported any."""
    rows: list[tuple[str, ...]] = [("id", "state", "attempts", "run at", "queue", "task")]
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
    if any(job.progress for job in jobs):
        rows = [(*row, said) for row, said in zip(rows, ["progress", *map(_progress, jobs)], strict=True)]
    return aligned(rows)


def ended_table(jobs: Sequence[EndedJob]) -> list[str]:
    """A line of headings, and one line for each job that has ended."""
    rows: list[tuple[str, ...]] = [("id", "state", "attempts", "ended at", "took", "worker", "task", "error")]
    rows += [
        (
            str(job.id),
            job.state,
            str(job.attempts),
            job.ended_at.isoformat(" ", "seconds"),
            "" if job.started_at is None else f"{(job.ended_at - job.started_at).total_seconds():.1f} s",
            "" if job.worker_id is None else str(job.worker_id),
            printable(job.task),
            printable((job.error or "").partition("\n")[0]),
        )
        for job in jobs
    ]
    return aligned(rows)


def _progress(job: Job) -> str:
    """The progress of a job in one line, such as `30 of 120 (25%), page 3`; empty if there is none."""
    if (progress := job.progress) is None:
        return ""
    said = f"{progress.done:.15g}"
    if progress.total is not None:
        part = f" ({progress.done / progress.total:.0%})" if progress.total else ""
        said += f" of {progress.total:.15g}{part}"
    return printable(said + (f", {progress.note}" if progress.note else ""))


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align rows in columns, one line for each row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def details(job: Job) -> str:
    """All fields of a job that have a value, a line for each."""
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
        "expires at": job.expires_at and job.expires_at.isoformat(),
        "deadline": job.deadline_at and job.deadline_at.isoformat(),
        "timeout": job.timeout_s and f"{job.timeout_s:g} s",
        "soft limit": job.soft_s and f"{job.soft_s:g} s",
        "started at": job.started_at and job.started_at.isoformat(),
        "ended at": job.ended_at and job.ended_at.isoformat(),
        "ran on": job.worker_id and f"worker {job.worker_id}",
        "kept until": job.ended_at and (job.keep_until.isoformat() if job.keep_until else "for ever"),
        "claimed at": job.locked_at and job.locked_at.isoformat(),
        "claimed by": job.locked_by and f"worker {job.locked_by}",
        "progress": job.progress and f"{_progress(job)}, at {job.progress.at.isoformat()}",
        "payload": job.payload,
        "result": job.result,
        "meta": None if job.meta is None else msgspec.json.encode(job.meta).decode(),
        "last error": job.last_error,
    }
    shown = {name: str(value) for name, value in shown.items() if value is not None}
    texts = {name: _below(text) if name in MANY_LINES else printable(text) for name, text in shown.items()}
    return "\n".join(f"{name + ':':<12}{text}" for name, text in texts.items())


def _below(text: str) -> str:
    """Indent the further lines of a text, so that none can be mistaken for another field."""
    return printable(text, "\n\t").replace("\n", f"\n{'':<12}")


def print_lines(lines: Sequence[str]) -> None:
    """Print each line; nothing if there is none."""
    for line in lines:
        print(line)
