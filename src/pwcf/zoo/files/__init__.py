"""The zoo's files, read wherever the package is installed."""

from importlib.resources import files


def read(name: str) -> bytes:
    """The bytes of one of them."""
    return files(__name__).joinpath(name).read_bytes()
