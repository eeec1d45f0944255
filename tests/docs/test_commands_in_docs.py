"""Every ``pwcf`` command in the guides works, in the order of its page."""

import re
import shlex
from pathlib import Path

import pytest

from pwcf.cli import main
from pwcf.data import list_kinds as kinds_of_data
from pwcf.models.loading import list_kinds as kinds_of_models

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Pages and how many commands they have at least; those of report.md and analyses.md are run beside what they are about.
PAGES = {"runs": 15, "quickstart": 7, "howto/model": 1, "howto/data": 1, "howto/metric": 1, "howto/attack": 1,
         "howto/cluster": 2, "howto/paper": 4}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = 0
    for kind, content in BLOCK.findall((DOCS / f"{page}.md").read_text("utf-8")):
        if kind == "python":
            exec(content, {})
            continue
        for line in content.splitlines():
            words = shlex.split(line)
            assert words[0] == "pwcf"
            assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"
            commands += 1
    assert commands >= PAGES[page]


def test_every_page_with_commands_is_run() -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text("utf-8") for path in DOCS.rglob("*.md")}
    with_commands = {page for page, text in pages.items() if any(kind == "sh" for kind, _ in BLOCK.findall(text))}
    assert with_commands - {"report", "analyses"} == set(PAGES)


def test_the_page_has_every_form_of_models_and_data() -> None:
    page = (DOCS / "runs.md").read_text("utf-8")
    for form, what in (*kinds_of_models(), *kinds_of_data()):
        assert f"| `{form}` | {what} |" in page
