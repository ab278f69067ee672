"""The features of this backend, in the terms of the Open Job Spec."""

from collections.abc import Mapping
from types import MappingProxyType

# Source: the Open Job Spec, unique jobs, section 8.3.
CAPABILITIES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "unique_jobs": MappingProxyType(
            {
                "strength": "strong",
                "mechanism": "a lock row for each key, then row locks, then the check, in the transaction of the add",
            }
        )
    }
)
