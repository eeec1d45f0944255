"""A first look at a file, for what people really have in its place."""

from __future__ import annotations

from pathlib import Path

from pwcf.data.source import DataError
from pwcf.data.wording import one_line


def check_file(path: Path) -> None:
    """Raise where it is not there, empty, or what a failed download leaves behind."""
    try:
        with path.open("rb") as file:
            head = file.read(256)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the name") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {one_line(error.strerror or error)}; check the file") from error
    if not head:
        raise DataError(f"{path}: expected {path.suffix} data, found an empty file; copy or download it again")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise DataError(f"{path}: expected {path.suffix} data, found a web page (HTML); download the file itself")
    if text.startswith(b"version https://git-lfs"):
        raise DataError(f"{path}: expected {path.suffix} data, found a Git LFS pointer; fetch it with: git lfs pull")
