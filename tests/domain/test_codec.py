"""Codecs: which objects are codecs, and what can be put in an envelope, and read from one."""

from asyncio import CancelledError
from typing import Any

import msgspec
import pytest

from asyncq import CodecFailed, ConfigurationError, InvalidJob, JobSpec, UniquePolicy
from asyncq.domain.codec import MAX_CLEAR_ERROR, Envelopes
from asyncq.domain.deduplication import extra
from tests.support.codecs import Backwards, Refusing, sealed


def test_a_payload_is_stored_as_a_json_text_with_the_key_id() -> None:
    """So the column keeps its type, and each reader sees which key is needed."""
    spec = Envelopes(Backwards("k1", "k2")).sealed(JobSpec(task="greet", payload='{"name":"Ada"}'))

    assert f'"{sealed("k2", "greet", spec.payload and """{"name":"Ada"}""")}"' == spec.payload


class Nothing:
    """Has no method."""


class Keyless(Backwards):
    """Lacks a usable name of its key."""

    def __init__(self, key_id: Any) -> None:
        super().__init__("k")
        self.key_id = key_id


@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        (Nothing(), "methods encode and decode, .*Nothing object.* without encode"),
        (Backwards, r"got the class Backwards: write Backwards\(\)"),
        (Keyless("a:b"), "no valid key_id: 'a:b' is no key_id: 1 to 64 letters"),
        (Keyless(None), "no valid key_id: None is no key_id"),
        ("zlib", "methods encode and decode, got 'zlib' without"),
    ],
    ids=["object", "class", "colon", "none", "text"],
)
def test_what_is_no_codec_is_refused(codec: Any, expected: str) -> None:
    """A mistake is found when the program starts, and not by the first job."""
    with pytest.raises(ConfigurationError, match=expected):
        Envelopes(codec)


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        (sealed("k3", "greet", "{}"), r"the payload was encoded with key 'k3', .* the codec raised KeyError: 'k3'"),
        (sealed("k1", "other", "{}"), "key 'k1', and cannot be decoded: the codec raised ValueError: these bytes are"),
        ("asyncq:1:k1", "no valid envelope asyncq:1:<key_id>:<base64>|was encoded with key 'k1'"),
        ("asyncq:1:k1:a*b", "the payload is no valid envelope asyncq:1:<key_id>:<base64>"),
    ],
    ids=["unknown key", "other task", "short", "not base64"],
)
def test_an_envelope_that_cannot_be_opened_is_explained(envelope: str, expected: str) -> None:
    """The name of the key says which one to bring back."""
    with pytest.raises(CodecFailed, match=expected):
        Envelopes(Backwards("k1")).open("greet", envelope, "payload")


class Broken(Backwards):
    """Returns what is no text in UTF-8, or not bytes."""

    def __init__(self, answer: Any) -> None:
        super().__init__("k")
        self.answer = answer

    def encode(self, task: str, data: bytes) -> bytes:
        return self.answer

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        return self.answer


class Cancelling(Backwards):
    """Waits for something that was cancelled."""

    def encode(self, task: str, data: bytes) -> bytes:
        raise CancelledError

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        raise CancelledError


def test_a_cancellation_from_a_codec_is_an_error_of_the_codec() -> None:
    """The codec is called without await. Else the error would end the job loop, and each worker that takes the job."""
    envelopes = Envelopes(Cancelling("k", errors=True))

    with pytest.raises(CodecFailed, match="the codec raised CancelledError"):
        envelopes.open("greet", "asyncq:1:k:AAAA", "payload")
    with pytest.raises(CodecFailed, match="the codec raised CancelledError"):
        envelopes.seal_payload("greet", "{}")
    assert "is not stored" in envelopes.seal_error("greet", "ValueError")


@pytest.mark.parametrize("answer", [None, "text", b"\xff"], ids=["none", "text", "bytes"])
def test_a_wrong_answer_of_the_codec_is_an_error_of_the_codec(answer: Any) -> None:
    """It must not surface as a strange payload in a handler."""
    envelopes = Envelopes(Broken(answer))

    with pytest.raises(CodecFailed, match="cannot be decoded"):
        envelopes.open("greet", "asyncq:1:k:AAAA", "payload")
    if answer != b"\xff":
        with pytest.raises(CodecFailed, match="the payload of a job of task 'greet' cannot be encoded"):
            envelopes.sealed(JobSpec(task="greet"))


def test_the_limit_is_that_of_the_encoded_payload() -> None:
    """Its size is what every fetch costs."""
    spec = JobSpec(task="greet", payload=f'"{"x" * 100}"')

    assert len(Envelopes(Backwards("k"), 200).sealed(spec).payload) < 200
    with pytest.raises(InvalidJob, match="once it is encoded, at most 150 are allowed") as caught:
        Envelopes(Backwards("k"), 150).sealed(spec)
    assert ("GWBPL", "payload", 150) == (caught.value.code, caught.value.field, caught.value.limit)


@pytest.mark.parametrize(
    "policy",
    [UniquePolicy(keys=["args"]), UniquePolicy(args_keys=["a"]), UniquePolicy(keys=["queue"]), UniquePolicy()],
    ids=["args", "named", "queue", "type"],
)
def test_unique_keys_are_those_of_the_clear_payload(policy: UniquePolicy) -> None:
    """Clients with a codec and without it exclude each other while the codec is introduced."""
    clear = JobSpec(task="greet", payload='{"a":1}', unique=policy)
    encoded = Envelopes(Backwards("k")).sealed(clear)
    keys = [msgspec.json.decode(extra(spec) or "")["unique_key"] for spec in (clear, encoded)]

    assert keys[0] == keys[1]


@pytest.mark.parametrize("mode", [None, "replace", "preserve_run_at"])
def test_an_array_under_a_job_key_is_refused(mode: str | None) -> None:
    """Two adds would merge their arrays, which the database cannot read."""
    with pytest.raises(InvalidJob, match="payload of task 'mail' is an array: an add with its job_key would merge"):
        Envelopes(Backwards("k")).sealed(JobSpec(task="mail", payload=" [1]", job_key="a", job_key_mode=mode))


def test_an_array_without_a_merge_is_encoded() -> None:
    """Without a key, or with a mode that drops the second add, nothing is merged."""
    envelopes = Envelopes(Backwards("k"))
    plain = envelopes.sealed(JobSpec(task="mail", payload="[1]"))
    dropped = envelopes.sealed(JobSpec(task="mail", payload="[1]", job_key="a", job_key_mode="unsafe_dedupe"))

    assert plain.payload == dropped.payload == f'"{sealed("k", "mail", "[1]")}"'


def test_errors_are_encoded_on_request() -> None:
    """An error may hold what a payload holds; most programs want to read it in the database."""
    assert "OSError: 42" == Envelopes(Backwards("k")).seal_error("greet", "OSError: 42")
    assert sealed("k", "greet", "OSError: 42") == Envelopes(Backwards("k", errors=True)).seal_error(
        "greet", "OSError: 42"
    )


def test_a_long_error_is_cut_before_it_is_encoded() -> None:
    """The database cuts errors too, and an envelope that was cut cannot be opened."""
    envelopes = Envelopes(Backwards("k", errors=True))
    error = envelopes.open("greet", envelopes.seal_error("greet", "x" * 20_000), "error")

    assert len(error) <= MAX_CLEAR_ERROR
    assert "characters left out" in error


def test_no_clear_error_is_stored_if_the_codec_fails() -> None:
    """The end of the run has to be written all the same."""
    said = Envelopes(Refusing("k", errors=True)).seal_error("greet", "ValueError: bad 42")

    assert said.startswith("the error of the run is not stored: the error of a job of task 'greet' cannot be encoded")
    assert "42" not in said
