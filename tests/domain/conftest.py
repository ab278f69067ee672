"""No database and no event loop in this folder; and how long an example takes says nothing on a busy machine."""

from hypothesis import settings

settings.register_profile("asyncq", deadline=None)
settings.load_profile("asyncq")
