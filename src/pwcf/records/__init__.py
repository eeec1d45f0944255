"""What a benchmark leaves on disk: one file per cell, written whole or not at all."""

from pwcf.records.cell import Cell
from pwcf.records.files import read, read_folder, write, write_text
from pwcf.records.record import SCHEMA, Header, Made, Record, RecordError, check_asked, record_of

__all__ = [
    "SCHEMA",
    "Cell",
    "Header",
    "Made",
    "Record",
    "RecordError",
    "check_asked",
    "read",
    "read_folder",
    "record_of",
    "write",
    "write_text",
]
