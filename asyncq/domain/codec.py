"""Codecs: payloads, results and errors are stored encoded, in envelopes.

payload, result     the JSON text "asyncq:1:<key_id>:<base64>"
error               the same without the quotes
"""

import base64
import binascii
import re
from contextlib import suppress
from typing import Any, NoReturn, Protocol, TypeVar

import msgspec

from asyncq.domain.attempt import Attempt
from asyncq.domain.envelope import MARK, PREFIX
from asyncq.domain.errors import CodecFailed, ConfigurationError, InvalidJob
from asyncq.domain.job import Claim, Job, JobKeyMode, JobSpec
from asyncq.domain.outcome import clean_error, error_line
from asyncq.domain.payload import DEFAULT_MAX_PAYLOAD, LARGEST_PAYLOAD
from asyncq.domain.unique import UniquePolicy

# The error of an attempt is stored twice, once of at most this length.
MAX_CLEAR_ERROR = 4000

Text = TypeVar("Text", str, str | None)

# Not errors of the codec: a signal may raise them. A CancelledError is one, since the codec is called without await.
_OF_SIGNALS = (KeyboardInterrupt, SystemExit)
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class Codec(Protocol):
    """Encodes what clients and workers store, and decodes it: for encryption, or for compression.

    The methods are called in the event loop. They must not wait.

    Attributes:
        key_id: The name of the key with which `encode` encodes now: 1 to 64 letters, digits, dots, underscores and
            hyphens. It is stored beside the bytes.
        errors: Whether workers encode the errors of failed attempts too. It may be missing, which means False.
    """

    key_id: str
    errors: bool = False

    def encode(self, task: str, data: bytes) -> bytes:
        """Encode a payload or result, which is JSON, or an error, with the key `key_id`.

        Args:
            task: The name of the task.
            data: The text, in UTF-8.

        Returns:
            The bytes to store.
        """
        ...

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        """Decode what `encode` returned for a job of the same task.

        Args:
            task: The name of the task.
            data: The stored bytes.
            key_id: The name of the key at that time.

        Returns:
            The text, in UTF-8.

        Raises:
            Exception: There is no such key, or the bytes were changed. A worker records a failed attempt.
        """
        ...


class KnownKey(UniquePolicy, frozen=True, kw_only=True):
    """A policy whose key was computed from the clear payload, before that was encoded."""

    known: str

    def key(self, **_: Any) -> str:
        return self.known


def check_clear(spec: JobSpec) -> None:
    """Refuse a payload of a client without a codec that workers would take for an envelope; InvalidJob (GWBPL)."""
    if spec.payload.startswith(MARK):
        _refuse(f"payload of task {spec.task!r} is a text that begins with {PREFIX}, as only encoded payloads do")


class Envelopes:
    """Puts texts in envelopes, and opens them, with the codec of a program; a payload has at most `limit` bytes.

    ConfigurationError if the codec lacks a method.
    """

    def __init__(self, codec: Codec, limit: int = DEFAULT_MAX_PAYLOAD) -> None:
        given: Any = codec
        if isinstance(given, type):
            name = given.__name__
            raise ConfigurationError(f"codec must be an object, got the class {name}: write {name}()")
        for name in ("encode", "decode"):
            if not callable(getattr(given, name, None)):
                raise ConfigurationError(f"codec must have the methods encode and decode, got {given!r} without {name}")
        try:
            _check_key_id(given.key_id)
        except (AttributeError, ValueError) as error:
            raise ConfigurationError(f"codec has no valid key_id: {error}") from error
        self._codec = codec
        self._limit = limit
        self.has_errors = bool(getattr(codec, "errors", False))

    def sealed(self, spec: JobSpec) -> JobSpec:
        """A checked job with an encoded payload. Its unique key is that of the clear one.

        InvalidJob if the encoded payload is too large, or if the database would have to see the clear payload.
        CodecFailed if the codec raises.
        """
        clear, unique = spec.payload, spec.unique
        may_merge = spec.job_key is not None and spec.job_key_mode != JobKeyMode.UNSAFE_DEDUPE
        if may_merge and clear.lstrip().startswith("["):
            said = "an add with its job_key would merge the arrays, which the database cannot do with encoded ones"
            _refuse(f"payload of task {spec.task!r} is an array: {said}; use an object, or another key for each job")
        if unique is not None and ("args" in unique.keys or unique.args_keys):
            key = unique.key(type=spec.task, queue=spec.queue, args=clear, meta=spec.meta)
            unique = KnownKey(**msgspec.structs.asdict(unique), known=key)
        return msgspec.structs.replace(spec, payload=self.seal_payload(spec.task, clear), unique=unique)

    def seal_payload(self, task: str, clear: str) -> str:
        """A payload as it is stored; raises as `sealed`."""
        return self._limited(task, clear, "payload", self._limit)

    def seal_rest(self, task: str, clear: str) -> str:
        """The items of a payload that are left, as they are stored. The limit of the client that added it is unknown.

        CodecFailed if the codec raises.
        """
        return self._limited(task, clear, "payload", LARGEST_PAYLOAD)

    def seal_result(self, task: str, clear: str, limit: int) -> str:
        """A result as it is stored, in at most `limit` bytes; raises as `sealed`."""
        return self._limited(task, clear, "result", limit)

    def seal_step(self, task: str, clear: str) -> str:
        """What a step returned, as it is stored; CodecFailed if the codec raises."""
        return self._limited(task, clear, "step", LARGEST_PAYLOAD)

    def _limited(self, task: str, clear: str, what: str, limit: int) -> str:
        text = f'"{self._seal(task, clear, what)}"'
        if len(text) > limit:
            said = f"{what} is {len(text)} bytes once it is encoded, at most {limit} are allowed (option max_{what})"
            raise InvalidJob(said, code="GWBPL", field=what, limit=limit, length=len(text))
        return text

    def seal_error(self, task: str, error: str) -> str:
        """The error as it is stored. It never raises: the end of a run has to be written, but no clear error."""
        if not self.has_errors:
            return error
        try:
            return self._seal(task, clean_error(error, MAX_CLEAR_ERROR), "error")
        except CodecFailed as failed:
            return f"the error of the run is not stored: {clean_error(str(failed), MAX_CLEAR_ERROR // 4)}"

    def _seal(self, task: str, clear: str, what: str) -> str:
        try:
            key_id = _check_key_id(self._codec.key_id)
            data = base64.b64encode(self._codec.encode(task, clear.encode()))
        except _OF_SIGNALS:
            raise
        except BaseException as error:
            said = f"the {what} of a job of task {task!r} cannot be encoded: the codec raised {error_line(error)}"
            raise CodecFailed(said) from error
        return f"{PREFIX}{key_id}:{data.decode()}"

    def open(self, task: str, envelope: str, what: str) -> str:
        """The text in an envelope; CodecFailed names the key if the codec cannot decode it."""
        key_id, _, data = envelope.removeprefix(PREFIX).partition(":")
        try:
            stored = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CodecFailed(f"the {what} is no valid envelope {PREFIX}<key_id>:<base64>") from error
        try:
            return self._codec.decode(task, stored, key_id).decode()
        except _OF_SIGNALS:
            raise
        except BaseException as error:
            said = f"the {what} was encoded with key {key_id!r}, and cannot be decoded: the codec raised"
            raise CodecFailed(f"{said} {error_line(error)}") from error

    def open_or_keep(self, task: str, text: Text) -> Text:
        """A stored payload or error as clear text; one that is clear, or cannot be opened, is returned as it is."""
        if text is not None and text.startswith((MARK, PREFIX)):
            with suppress(CodecFailed):
                return self.open(task, text.strip('"'), "text")
        return text

    def opened(self, job: Job) -> Job:
        """A job as it was read, with clear texts; an envelope that cannot be opened is kept."""
        return msgspec.structs.replace(
            job,
            payload=self.open_or_keep(job.task, job.payload),
            last_error=self.open_or_keep(job.task, job.last_error),
            result=self.open_or_keep(job.task, job.result),
            errors=self.opened_errors(job.task, job.errors),
        )

    def opened_errors(self, task: str, attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
        """The failed attempts of a job, with clear errors."""
        return tuple(
            msgspec.structs.replace(attempt, error=self.open_or_keep(task, attempt.error)) for attempt in attempts
        )


def open_claim(envelopes: Envelopes | None, task: str, claim: Claim) -> tuple[Claim, CodecFailed | None]:
    """The claim with a clear payload and error; and why the payload cannot be opened, if so."""
    fault: CodecFailed | None = None
    payload, error = claim.payload, claim.last_error
    if envelopes is not None:
        error = envelopes.open_or_keep(task, error)
    if payload.startswith(MARK):
        envelope = payload.strip('"')
        try:
            if envelopes is None:
                key_id = envelope.removeprefix(PREFIX).partition(":")[0]
                said = f"the payload is encoded with key {key_id!r}, and this worker has no codec"
                raise CodecFailed(f"{said}: give it the one of the client, Worker(..., codec=...)")
            payload = envelopes.open(task, envelope, "payload")
        except CodecFailed as failed:
            fault = failed
    if payload is claim.payload and error is claim.last_error:
        return claim, fault
    return msgspec.structs.replace(claim, payload=payload, last_error=error), fault


def _check_key_id(key_id: Any) -> str:
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise ValueError(f"{key_id!r} is no key_id: 1 to 64 letters, digits, dots, underscores and hyphens")
    return key_id


def _refuse(message: str) -> NoReturn:
    raise InvalidJob(message, code="GWBPL", field="payload")
