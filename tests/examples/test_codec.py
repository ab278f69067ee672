"""examples/codec: payloads that are encrypted with AES-GCM, and the change of the key."""

import base64
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from examples.codec.aes_gcm import AesGcm, codec_of
from tests.support.example_program import fresh_database, program

OLD = f"2026={base64.b64encode(bytes(32)).decode()}"
NEW = f"2027={base64.b64encode(bytes(range(32))).decode()}"


async def test_jobs_of_both_keys_run_after_a_change(dsn: str, tmp_path: Path) -> None:
    """The steps of its README; the worker has both keys."""
    said: list[str] = []
    async with fresh_database(dsn) as database:
        commands = [
            (("asyncq", "migrate"), OLD),
            (("examples.codec.producer", "Ada"), OLD),
            (("examples.codec.producer", "Bob"), f"{NEW},{OLD}"),
            (("asyncq", "worker", "--tasks", "examples.codec.tasks", "--once", "-j", "1"), f"{NEW}, {OLD}"),
        ]
        for number, (command, keys) in enumerate(commands):
            with program(tmp_path / str(number), *command, DATABASE_URL=database, JOB_KEYS=keys) as running:
                assert 0 == await running.end(), running.log.read_text()
            said.append(running.log.read_text())

    assert said[1].startswith('{"name":"Ada","address":"12 Analytical Row"}\n"asyncq:1:2026:')
    assert said[2].startswith('{"name":"Bob","address":"12 Analytical Row"}\n"asyncq:1:2027:')
    assert "a letter for Ada, 12 Analytical Row\n" in said[3]
    assert "a letter for Bob, 12 Analytical Row\n" in said[3]


def test_changed_bytes_and_bytes_of_another_task_are_refused() -> None:
    """A program that writes to the table can neither change a payload nor give it to another task."""
    codec = codec_of(OLD)
    data = codec.encode("send_letter", b"{}")

    assert b"{}" == codec.decode("send_letter", data, "2026")
    for task, changed in (("send_letter", data[:-1] + bytes([data[-1] ^ 1])), ("other", data)):
        with pytest.raises(InvalidTag):
            codec.decode(task, changed, "2026")
    with pytest.raises(KeyError):
        codec.decode("send_letter", data, "2025")


def test_two_encodings_of_a_payload_differ() -> None:
    """Equal payloads must not be recognised by their bytes."""
    codec = codec_of(OLD)

    assert codec.encode("send_letter", b"{}") != codec.encode("send_letter", b"{}")


def test_the_key_that_encrypts_has_to_exist() -> None:
    """A wrong setting is found when the program starts."""
    with pytest.raises(ValueError, match="there is no key '2028'"):
        AesGcm({"2026": bytes(32)}, "2028")
