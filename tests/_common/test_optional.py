"""Optional libraries: what is missing is named, with what to install."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from pwcf._common.optional import import_optional, name_and_version


def test_a_module_is_imported() -> None:
    assert import_optional("xml.dom", "nothing") is sys.modules["xml.dom"]


@pytest.mark.parametrize(("extra", "install"), [("images", "'pwcf[images]'"), (None, "Pillow")])
def test_a_missing_library_is_named_as_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, extra: str | None, install: str
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError) as raised:
        import_optional("PIL.Image", "photos", extra)
    assert str(raised.value).startswith(f"photos: needs Pillow: pip install {install} (ModuleNotFoundError: ")


def test_a_broken_library_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries built for another torch raise RuntimeError when they are imported."""
    (tmp_path / "broken_here.py").write_text("raise RuntimeError('built for another torch\\nand more')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"^it\|broken_here\|'pwcf\[x\]'\|RuntimeError: built for another torch$"):
        import_optional("broken_here", "it", "x", error=ValueError, sentence="{needed_by}|{package}|{install}|{reason}")


def test_versions_are_those_installed() -> None:
    assert name_and_version("torch") == f"torch {version('torch')}"
    assert name_and_version("no-such-package") == "no-such-package"
