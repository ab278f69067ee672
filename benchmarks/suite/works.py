"""All work that is measured, by name, in the order in which a rotation does it."""

from __future__ import annotations

from benchmarks.suite.cliffs import CLIFFS
from benchmarks.suite.limits import LIMITS
from benchmarks.suite.loads import LOADS
from benchmarks.suite.shared import SHARED
from benchmarks.suite.stage import Work

WORKS: dict[str, Work] = {**SHARED, **CLIFFS, **LIMITS, **LOADS}
