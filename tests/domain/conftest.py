"""Tests of this folder use no database and no event loop. Hypothesis has no deadline, for busy machines."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("asyncq", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "asyncq"))
