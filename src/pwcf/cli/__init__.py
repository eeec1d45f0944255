"""The command ``pwcf``."""

from pwcf.cli.main import main

__all__ = ["main"]
