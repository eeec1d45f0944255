"""Inputs and labels from files, folders and named collections, read piece by piece and checked on the way."""

from pwcf.data.balanced import BalancedSource, lies_by_class
from pwcf.data.open import list_kinds, open_data
from pwcf.data.source import DataError, Source

__all__ = ["BalancedSource", "DataError", "Source", "lies_by_class", "list_kinds", "open_data"]
