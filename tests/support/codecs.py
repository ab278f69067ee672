"""Codecs of tests: their bytes show the key and the task, and can be read."""

import base64

from asyncq import Codec


class Backwards(Codec):
    """Writes the task and the text backwards; decodes with each key that it knows, for the same task alone."""

    def __init__(self, *keys: str, errors: bool = False) -> None:
        self.keys = keys
        self.key_id = keys[-1]
        self.errors = errors

    def encode(self, task: str, data: bytes) -> bytes:
        return f"{self.key_id} {task} ".encode() + data[::-1]

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        if key_id not in self.keys:
            raise KeyError(key_id)
        if not data.startswith(start := f"{key_id} {task} ".encode()):
            raise ValueError("these bytes are not of this task")
        return data.removeprefix(start)[::-1]


class Refusing(Backwards):
    """Cannot encode what holds the word bad."""

    def encode(self, task: str, data: bytes) -> bytes:
        if b"bad" in data:
            raise OSError("the key service is away")
        return super().encode(task, data)


def sealed(key_id: str, task: str, text: str) -> str:
    """The envelope of a text, as `Backwards` makes it."""
    return f"asyncq:1:{key_id}:{base64.b64encode(f'{key_id} {task} {text[::-1]}'.encode()).decode()}"
