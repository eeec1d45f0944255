"""A release is one thing: the same version everywhere, and a wheel that works beside nothing but what it asks for."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import yaml

import pwcf

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == version
    heading = re.search(r"^## \[(.+?)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    assert heading[1] == version
    assert re.fullmatch(r"Unreleased|\d{4}-\d{2}-\d{2}", heading[2])
    assert pwcf.__version__ == importlib.metadata.version("pwcf")  # and so says the command line


def test_the_citation_says_what_the_package_says() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    (paper,) = citation["references"]
    (identifier,) = paper["identifiers"]
    number = identifier["value"].removeprefix("arXiv:")
    assert PROJECT["urls"]["Paper"] == f"https://arxiv.org/abs/{number}"
    assert number in (ROOT / "README.md").read_text("utf-8")


def test_the_workflow_runs_what_runs_at_a_desk() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8").splitlines()


def test_every_extra_of_the_readme_is_there() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    named = {name for row in re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == set(PROJECT["optional-dependencies"]) - {"test", "docs", "dev"}


def needed(package: str, seen: set[str] | None = None) -> set[str]:
    """A package and all it asks for, by the names they are installed under; without extras."""
    from packaging.requirements import Requirement

    seen = set() if seen is None else seen
    if package not in seen:
        seen.add(package)
        for line in importlib.metadata.requires(package) or []:
            asked = Requirement(line)
            if asked.marker is None or asked.marker.evaluate({"extra": ""}):
                needed(asked.name, seen)
    return seen


def lend(packages: set[str], place: Path) -> None:
    """Link installed packages into another environment."""
    for package in packages:
        files = importlib.metadata.distribution(package).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = place / top
            if not link.exists():  # folders that packages share
                link.symlink_to(importlib.metadata.distribution(package).locate_file(top))


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """Only what pyproject.toml asks for is there; ``benchmarks/fresh_install.py`` does it with downloads."""
    for tool in ("hatchling", "packaging", "pip"):
        pytest.importorskip(tool)

    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*words: object) -> str:
        command = list(map(str, words))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=surroundings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    scripts = tmp_path / "empty" / "bin"
    (place,) = (tmp_path / "empty" / "lib").glob("python*/site-packages")
    lend(set.union(*(needed(re.split(r"[<>=]", line)[0]) for line in PROJECT["dependencies"])), place)
    run(sys.executable, "-m", "pip", "--python", scripts / "python", "install", "-q", "--no-deps", "--no-index", wheel)

    assert run(scripts / "pwcf", "--version").split() == ["pwcf", PROJECT["version"]]
    search = "run --model zoo:fashion-standard --data zoo:fashion-mnist --metric linf --limit 2 --budget 60 --out found"
    assert "2 of 2 attacked" in run(scripts / "pwcf", *search.split())
    run(scripts / "pwcf", "report", "found", "-o", "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert run(scripts / "python", "-c", "import pwcf; print(pwcf.__file__)").startswith(str(place))
