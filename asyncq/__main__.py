"""`python -m asyncq`: the same as the command `asyncq`."""

import sys

from asyncq.cli import main

if __name__ == "__main__":
    sys.exit(main())
