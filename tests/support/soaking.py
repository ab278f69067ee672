"""How much more is tried under `make soak` than in CI."""

import os

TIMES = 25 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 1
