"""``python -m pwcf.cli``."""

import sys

from pwcf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
