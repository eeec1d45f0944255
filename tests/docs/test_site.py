"""The documentation builds without a warning, links to nothing that is not there and fetches nothing from elsewhere."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from browser import started

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for tool in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(tool, reason="needs pwcf[docs]")
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(out)]
    done = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def notebooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook", DOCS / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("") for path in [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]}
    assert pages <= {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?([^\">\s]+)", page.read_text("utf-8")
        )
        assert fetched
        assert not [address for address in fetched if re.match(r"(https?:)?//", address)], page


def test_pages_opened_from_the_disk_are_searched(site: Path) -> None:
    """Where browsers start no workers, and fetch no index."""
    asked: list[str] = []
    with started() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "reference" / "evaluate.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("coming from foolbox")  # the theme listens to keys
        page.wait_for_selector(".md-search-result__link", timeout=60_000)
        found = page.eval_on_selector_all(".md-search-result__link", "links => links.map((link) => link.href)")
    assert any(link.startswith((site / "howto" / "foolbox.html").as_uri()) for link in found)
    assert not [address for address in asked if not address.startswith(("file:", "data:"))]


def test_the_reference_is_made_from_docstrings(site: Path) -> None:
    page = re.sub(r"<[^>]+>", "", (site / "reference" / "evaluate.html").read_text("utf-8"))
    for part in (
        "Attack every sample with one or several attacks",
        "forward + backward passes per sample",
        "eight_bit",
    ):
        assert part in page


def test_the_tutorial_has_its_figures(site: Path) -> None:
    notebook = json.loads((DOCS / "tutorial.ipynb").read_text("utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    figures = sum("image/png" in output.get("data", {}) for output in outputs)
    assert figures >= 3
    assert len(list(site.glob("tutorial-*.png"))) == figures


def test_the_tutorial_shows_what_its_cells_do(notebooks: ModuleType, tmp_path: Path) -> None:
    stored = json.loads((DOCS / "tutorial.ipynb").read_text("utf-8"))
    now = json.loads(json.dumps(stored))
    notebooks.run(now, tmp_path)
    assert shown(now) == shown(stored), "run: make notebook"


def shown(notebook: dict) -> list[list[str]]:
    """What its cells show: texts but for times, and where there are figures."""
    cells = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[_shown(output) for output in outputs] for outputs in cells]


def _shown(output: dict) -> str:
    if "image/png" in output.get("data", {}):
        return "a figure"
    text = "".join(output["text"] if "text" in output else output["data"]["text/plain"])
    return re.sub(r"\d+\.\d+ s\b", "- s", text)


def test_a_notebook_shows_what_jupyter_shows(notebooks: ModuleType, tmp_path: Path) -> None:
    sources = ["x = 2\nprint(x)\nx + 1", "x;", "import pathlib\npathlib.Path('here').touch()"]
    notebook = {"cells": [{"cell_type": "code", "source": [source]} for source in sources]}
    notebooks.run(notebook, tmp_path)
    assert shown(notebook) == [["2\n", "3"], [], []]
    assert (tmp_path / "here").exists()


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(page: str) -> None:
    links = [link for link in LINK.findall((ROOT / page).read_text("utf-8")) if not re.match(r"https?:|#", link)]
    assert not [link for link in links if not (ROOT / link.partition("#")[0]).exists()]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 100
