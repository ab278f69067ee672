"""Makes one checked spec of the arguments of `add_job`: a task, a name or a spec, with a payload and options."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

from asyncq.domain.errors import DuplicateJob, InvalidJob
from asyncq.domain.hints import JOB_OPTIONS, hint
from asyncq.domain.job import OPTIONS, Added, JobSpec, check
from asyncq.domain.payload import check_text, encode
from asyncq.domain.task import Registry, Task

NOTHING: Any = object()


def make_spec(
    what: Any, payload: Any, options: Mapping[str, Any], *, registry: Registry | None, strict: bool, max_payload: int
) -> JobSpec:
    """Make and check the spec of one add; with `strict`, names that the registry lacks raise UnknownTask."""
    if isinstance(what, Task) and options and (unknown := options.keys() - OPTIONS):
        name = min(unknown)
        raise TypeError(
            f"add_job has no option {name!r}{hint(name, OPTIONS, JOB_OPTIONS)}; if it is a parameter of task "
            f"{what.name!r}, it belongs in the spec: add_job({what.name}.job({name}=...))"
        )
    spec = _spec(what, payload, registry, strict, max_payload)
    # The options of a task were checked when it was made.
    return spec if isinstance(what, Task) and not options else spec.with_options(**options)


def make_specs(given: Iterable[Any], *, registry: Registry | None, strict: bool, max_payload: int) -> list[JobSpec]:
    """Make the specs of a bulk add, nearly always of specs, faster than `make_spec`; raises for the first bad job."""
    if isinstance(given, JobSpec | Task | str):
        raise TypeError("add_jobs takes a list of jobs; add_job adds one")
    specs: list[JobSpec] = []
    for what in given:
        spec = _spec(what, NOTHING, registry, strict, max_payload)
        check(spec)
        specs.append(spec)
    return specs


def accepted(added: Added) -> Added:
    """Return the result of an add; raises DuplicateJob if the unique policy rejected the job."""
    if added.outcome == "rejected" and added.existing_id is not None and added.existing_state is not None:
        raise DuplicateJob(added.existing_id, added.existing_state)
    return added


def _spec(what: Any, payload: Any, registry: Registry | None, strict: bool, max_payload: int) -> JobSpec:
    if isinstance(what, JobSpec):
        spec = cast("JobSpec[Any]", what)
        if payload is not NOTHING:
            raise TypeError("a spec already has its payload: make it with task.job(...)")
        known = _known(spec.task, registry, strict)
        check_text(spec.payload, limit=max_payload)
        if known is not None:
            known.signature.check_fields(spec.payload)
        return spec
    if isinstance(what, Task):
        return _spec_of(cast("Task[..., Any]", what), payload, registry, strict, max_payload)
    if not isinstance(what, str):
        raise InvalidJob(
            f"a job is added by task, name or spec, got {what!r}; {_guessed(what)}", code="GWBID", field="identifier"
        )
    known = _known(what, registry, strict)
    value: Any = {} if payload is NOTHING or payload is None else payload
    if known is not None:
        return known.spec(known.signature.encode_payload(value, max_payload, is_strict=True))
    return JobSpec(task=what, payload=encode(value, limit=max_payload))


def _known(name: str, registry: Registry | None, strict: bool) -> Task[...] | None:
    """The task with this name, or None if it is unknown; a strict registry raises instead."""
    if registry is None:
        return None
    return registry.find(name) if strict else registry.get(name)


def _spec_of(task: Task[...], payload: Any, registry: Registry | None, strict: bool, max_payload: int) -> JobSpec:
    if strict and registry is not None:
        registry.find(task.name)
    if task.signature.names_arguments(payload):
        said = f"these are arguments by name: pass them to the task, as in add_job({task.name}.job({min(payload)}="
        raise InvalidJob(f"payload of task {task.name!r}: {said}...))", code="GWBPL", field="payload")
    args: tuple[Any, ...] = () if payload is NOTHING else (payload,)
    return task.spec(task.signature.encode_call(args, {}, max_payload))


def _guessed(what: Any) -> str:
    """Guess the intention behind an argument that is not a job."""
    if inspect.iscoroutine(what):
        what.close()  # otherwise Python would also warn that it was never awaited
        return "calling a task does not add a job: write add_job(task.job(...))"
    return "is the function decorated with @task?"
