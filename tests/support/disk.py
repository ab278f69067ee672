"""The place of the tests' servers' data."""

import os
import shutil
import tempfile

MEMORY_DISK = "/dev/shm"
ROOM = 2**30


def roomy_folder() -> str:
    """The memory disk if it has room, otherwise the usual folder for temporary files.

    A new server or schema creates a thousand files, which takes several times as long on a disk.
    """
    is_usable = os.access(MEMORY_DISK, os.W_OK | os.X_OK)
    return MEMORY_DISK if is_usable and shutil.disk_usage(MEMORY_DISK).free > ROOM else tempfile.gettempdir()
