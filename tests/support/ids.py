"""Names for the cases of a parametrized test."""

import re


def written(value: object) -> str:
    """A value as it is written in Python, without memory addresses: a case has one name in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", ascii(value))
