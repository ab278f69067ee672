"""The object that is stored with a job: an add refuses one that a reader could not read."""

import math
import re
from typing import Any, NoReturn

import msgspec

from asyncq.domain.errors import InvalidJob
from asyncq.domain.payload import check_text

MAX_DEPTH = 500
META_CODE = "22023"

# Text that may be a number beyond 1.8e308: many digits, or an exponent.
_LONG = re.compile(r"[0-9]{309}|[0-9][eE]\+?[0-9]")
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]|[^\s,:"\[\]{}]+')
_read = msgspec.json.Decoder(dict[str, Any]).decode


def check_meta(text: str) -> None:
    """Check a meta that is already JSON text, as `_extra` in SQL does.

    InvalidJob: it is no JSON, no object, too large, nested more than 500 levels deep, or has a number beyond 1.8e308.
    """
    check_text(text, field="meta")
    if not text.lstrip().startswith("{"):
        _refuse(f"must be an object, got {text[:20]!r}")
    if text.count("[") + text.count("{") >= MAX_DEPTH or _LONG.search(text):
        _check_tokens(text)


def read_meta(text: str) -> dict[str, Any]:
    """Read a stored meta; `{"unreadable": why}` if it cannot be read."""
    try:
        return _read(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return {"unreadable": str(error)}


def _check_tokens(text: str) -> None:
    depth = 0
    for token in _TOKENS.findall(text):
        if token in "]}":
            depth -= 1
            continue
        if depth >= MAX_DEPTH:
            _refuse(f"is nested more than {MAX_DEPTH} levels deep")
        if token in "[{":
            depth += 1
        elif token[0] in "-0123456789" and math.isinf(float(token)):
            _refuse("holds a number beyond 1.8e308, which cannot be read")


def _refuse(fault: str) -> NoReturn:
    raise InvalidJob(f"meta {fault}", code=META_CODE, field="meta")
