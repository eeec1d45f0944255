"""``python -m pwcf``: the command, where a shell does not know ``pwcf``."""

import sys

from pwcf.cli import main

if __name__ == "__main__":
    sys.exit(main())
