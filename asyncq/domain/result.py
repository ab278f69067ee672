"""The results of jobs: the return values of their handlers, as they are stored."""

from typing import Any

from asyncq.domain.base_types import write_json


def encode_result(value: Any) -> str | None:
    """Encode the return value of a handler as JSON text; None stands for no value."""
    return None if value is None else write_json(value).decode()
