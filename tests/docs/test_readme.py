"""The code printed in README.md and docs is run, and prints what the page says it prints.

A ```python block is executed in a fresh namespace; its output must equal the ```text block that
directly follows it, or be empty where none does.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r"(?:\n\n?```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
PYTHON_FENCE = re.compile(r"^[ \t>]*(?:```+|~~~+)[ \t]*\{?\.?py", re.MULTILINE | re.IGNORECASE)


class Block(NamedTuple):
    page: str
    line: int
    code: str
    output: str


def blocks(text: str, page: str) -> list[Block]:
    """Every python block of a page; ValueError if one is fenced so that it would go unnoticed."""
    found = [
        Block(page, text.count("\n", 0, m.start("code")) + 1, m["code"], m["output"] or "")
        for m in BLOCK.finditer(text)
    ]
    fences = len(PYTHON_FENCE.findall(text))
    if fences != len(found):
        raise ValueError(
            f"{page}: {fences} Python fences but {len(found)} testable blocks. "
            "Write each as ```python ... ```, not indented, with nothing after the word python."
        )
    return found


def run(block: Block) -> None:
    """Execute a block; what it prints goes to stdout, tracebacks name the page and its line."""
    padded = "\n" * (block.line - 1) + block.code
    exec(compile(padded, block.page, "exec", dont_inherit=True), {"__name__": "__main__"})


ALL = [block for page in PAGES for block in blocks(page.read_text("utf-8"), str(page.relative_to(ROOT)))]


@pytest.mark.parametrize("block", ALL, ids=[f"{b.page}:{b.line}" for b in ALL])
def test_block_prints_what_the_page_shows(block, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example that writes files leaves nothing in the repository
    run(block)
    assert capsys.readouterr().out == block.output, f"{block.page}, line {block.line}"


def test_readme_has_an_example_that_is_run():
    assert [b for b in ALL if b.page == "README.md"], "README.md: no python block is run"


def test_blocks_are_read_with_their_output():
    page = (
        "a\n```python\nprint(1)\n```\n\n```text\n1\n```\n```python\nx = 2\n```\nprose\n```text\nnot its output\n```\n"
    )
    first, second = blocks(page, "p")
    assert first == Block("p", 3, "print(1)\n", "1\n")
    assert second == Block("p", 10, "x = 2\n", "")


@pytest.mark.parametrize("fence", ["    ```python", "```py", "```python title='x'", "~~~python", "```Python"])
def test_a_block_that_would_go_untested_is_an_error(fence):
    with pytest.raises(ValueError, match="1 Python fences but 0 testable"):
        blocks(f"{fence}\nprint(1)\n```\n", "p")


def test_blocks_share_no_names(capsys):
    run(Block("p", 1, "x = 1\nprint(x)\n", ""))
    assert capsys.readouterr().out == "1\n"
    with pytest.raises(NameError):
        run(Block("p", 1, "print(x)\n", ""))
