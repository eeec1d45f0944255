"""Objects from the user's own Python, and numbers as people write them."""

import math
from pathlib import Path

import pytest

from pwcf._common.text import parse_fraction
from pwcf._common.user_code import UserCodeError, is_named_code, kept_alive, load_named


def test_a_file_is_run_anew_and_finds_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_of_test.py").write_text("base = 40\n")
    path = tmp_path / "own.py"
    path.write_text("from beside_of_test import base\n\n\nclass A:\n    value = base + 1\n")
    assert load_named(f"{path}:A.value") == 41
    path.write_text(path.read_text().replace("+ 1", "+ 200"))
    assert load_named(f"{path}:A.value") == 240


def test_a_module_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module_of_test.py").write_text("answer = 42\n")
    assert load_named("module_of_test:answer") == 42
    assert load_named("math:pi") == math.pi


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("PLACE/nowhere.py:x", "expected a Python file, found none at"),
        ("PLACE/own.py:anwser", "expected 'anwser' in .*found none, which has answer; did you mean answer"),
        ("PLACE/broken.py:x", r"broken.py cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("no_such_module:x", "expected a module no_such_module, found none in the current folder"),
    ],
)
def test_what_is_not_there_is_told(tmp_path: Path, spec: str, complaint: str) -> None:
    (tmp_path / "own.py").write_text("answer = 42\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(UserCodeError, match=complaint):
        load_named(spec.replace("PLACE", str(tmp_path)))


def test_which_texts_name_code() -> None:
    assert all(map(is_named_code, ("a:b", "a.b:c", "/x/y.py:z", "C:/x/y.py:z")))
    assert not any(map(is_named_code, ("lmn", "l1.5", "a:", ":b", "")))


def test_fractions_are_numbers() -> None:
    assert parse_fraction("8/255") == 8 / 255
    assert parse_fraction(" 0.5 ") == parse_fraction(0.5) == 0.5
    assert all(math.isnan(parse_fraction(text)) for text in ("", "a", "1/0", "1/2/3", "8 of 255"))


def test_what_ends_a_program_is_an_error_of_the_user() -> None:
    class Panic(BaseException):
        """As libraries in Rust raise it."""

    with pytest.raises(UserCodeError, match=r"own code failed \(Panic: the lock is poisoned\)"), kept_alive():
        raise Panic("the lock is poisoned")
