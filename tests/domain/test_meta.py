"""The limits of a job's meta, and how a stored meta that breaks them is read."""

import pytest

from asyncq.domain.errors import InvalidJob
from asyncq.domain.meta import check_meta, read_meta


def nested(depth: int, inner: str = "") -> str:
    """An object whose list is nested so deep; an item is one level deeper."""
    return '{"a": ' + "[" * depth + inner + "]" * depth + "}"


@pytest.mark.parametrize(
    "text",
    [
        nested(499),
        nested(498, "1"),
        '{"a": [' + ",".join(["[]"] * 600) + "]}",
        '{"a": "' + "[" * 600 + '\\""}',
        '{"a": "' + "9" * 400 + '", "b": "1e5000", "c": 1e300, "d": -1.7976931348623157e308}',
        '{"' + "9" * 400 + '": 1}',
        '{"a": 0.' + "1" * 400 + "}",
    ],
    ids=["deep", "filled", "wide", "text", "numbers", "key", "digits"],
)
def test_readable_meta_passes(text: str) -> None:
    """Brackets in texts do not count as depth, nor long texts as numbers."""
    assert check_meta(text) is None
    assert "unreadable" not in read_meta(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (nested(500), "meta is nested more than 500 levels deep"),
        (nested(499, "1"), "meta is nested more than 500 levels deep"),
        ('{"a": 1e309}', "meta holds a number beyond 1.8e308, which cannot be read"),
        ('{"a": 1e5000}', "meta holds a number beyond 1.8e308, which cannot be read"),
        ('{"a": -' + "9" * 309 + "}", "meta holds a number beyond 1.8e308, which cannot be read"),
        ("[]", "meta must be an object, got '[]'"),
    ],
    ids=["deep", "filled", "309", "5000", "digits", "list"],
)
def test_meta_that_a_reader_may_refuse_is_refused_early(text: str, said: str) -> None:
    """Readers with other JSON parsers must be able to read it later."""
    with pytest.raises(InvalidJob) as caught:
        check_meta(text)

    assert (said, "22023", "meta") == (str(caught.value), caught.value.code, caught.value.field)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (nested(100_000), "maximum recursion depth exceeded"),  # Python 3.13 reads lists that are 3,000 deep.
        ('{"n": 1' + "0" * 5000 + "}", "out of range"),
        ("[]", "Expected `object`"),
    ],
    ids=["deep", "large", "list"],
)
def test_a_stored_meta_that_cannot_be_read_has_an_error(text: str, said: str) -> None:
    """Its job is read all the same."""
    assert said in read_meta(text)["unreadable"]
