"""Where the servers of the tests keep their data."""

import os
import shutil
import tempfile

MEMORY_DISK = "/dev/shm"
ROOM = 2**30


def roomy_folder() -> str:
    """The memory disk if there is one with room, else the usual folder for temporary files.

    To make a server or a schema is to make a thousand files, which takes several times as long on a disk.
    """
    is_usable = os.access(MEMORY_DISK, os.W_OK | os.X_OK)
    return MEMORY_DISK if is_usable and shutil.disk_usage(MEMORY_DISK).free > ROOM else tempfile.gettempdir()
