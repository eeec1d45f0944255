"""``python -m pwcf.cli``."""

import sys

from pwcf.cli.main import main

sys.exit(main())
