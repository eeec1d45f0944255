"""Every ``pwcf`` command in docs/runs.md works, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest

from pwcf.cli import main
from pwcf.data import list_kinds as kinds_of_data
from pwcf.models.loading import list_kinds as kinds_of_models

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text("utf-8")
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = 0
    for kind, content in BLOCK.findall(PAGE):
        if kind == "python":
            exec(content, {})
            continue
        for line in content.splitlines():
            words = shlex.split(line)
            assert words[0] == "pwcf"
            assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"
            commands += 1
    assert commands >= 15
    assert (tmp_path / "points.npz").exists()


def test_the_page_has_every_form_of_models_and_data() -> None:
    for form, what in (*kinds_of_models(), *kinds_of_data()):
        assert f"| `{form}` | {what} |" in PAGE
