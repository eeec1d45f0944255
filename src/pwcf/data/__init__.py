"""Inputs and labels from files, folders and named collections, read piece by piece and checked on the way."""

from pwcf.data.open import list_kinds, open_data
from pwcf.data.source import DataError, Source

__all__ = ["DataError", "Source", "list_kinds", "open_data"]
