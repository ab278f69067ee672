"""The names of steps, and what a step returned, as it is stored."""

from typing import Any

import msgspec

from asyncq.domain.codec import Envelopes
from asyncq.domain.envelope import MARK, PREFIX
from asyncq.domain.errors import CodecFailed, TaskError
from asyncq.domain.result import ResultType, UnwritableResult

MOST_STEPS = 1000
MAX_NAME = 200
MAX_STEP = 1024 * 1024

_ANY = ResultType(Any)


def check_name(name: Any) -> None:
    """Refuse what cannot be the name of a step; TaskError."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise TaskError(f"the name of a step must be a str of 1 to {MAX_NAME} characters, got {name!r:.300}")
    if not name.isprintable():
        raise TaskError(f"the name of a step must have printable characters only, got {name!r}")


def write_step(envelopes: Envelopes | None, task: str, name: str, value: Any) -> tuple[Any, str]:
    """What a step returned, as it is read from its JSON, and as it is stored.

    TaskError if it cannot be written as JSON, or has more than 1 MiB. CodecFailed if the codec raises.
    """
    try:
        text = _ANY.write(value, MAX_STEP)
    except UnwritableResult as error:
        raise TaskError(f"what step {name!r} returned cannot be stored: {error}") from error
    if envelopes is not None:
        return msgspec.json.decode(text), envelopes.seal_step(task, text)
    if text.startswith(MARK):
        said = f"it is a text that begins with {PREFIX}, as only encoded ones do"
        raise TaskError(f"what step {name!r} returned cannot be stored: {said}")
    return msgspec.json.decode(text), text


def read_step(envelopes: Envelopes | None, task: str, name: str, stored: str) -> Any:
    """What a step returned, from the text that is stored; CodecFailed if it is encoded, and cannot be decoded."""
    if stored.startswith(MARK):
        envelope = stored.strip('"')
        if envelopes is None:
            key_id = envelope.removeprefix(PREFIX).partition(":")[0]
            said = f"what step {name!r} returned is encoded with key {key_id!r}, and this worker has no codec"
            raise CodecFailed(f"{said}: give it the one of the worker before, Worker(..., codec=...)")
        stored = envelopes.open(task, envelope, "result of a step")
    return msgspec.json.decode(stored)
