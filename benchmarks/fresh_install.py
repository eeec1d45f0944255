"""From nothing to a report, as a new user types it: how long does it take?

    python benchmarks/fresh_install.py --out docs/benchmarks

Builds the wheel, makes an empty environment, installs the wheel with everything it asks for (packages are downloaded,
in the versions of constraints.txt), runs the example of README.md, then docs/quickstart.md: a shipped network, one's
own, reports. Output must be what the pages say.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$(?:\n\n?```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for fresh_install.md; default: print only")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder))
    total, cpu = (sum(times) for times in zip(*(row[1:] for row in rows), strict=True))
    lines = [
        "# From nothing to a report",
        "",
        "As a new user types it, in an empty environment: the wheel with all it asks for, the example of the README,",
        "the quickstart with one's own network and two reports. Made by `python benchmarks/fresh_install.py`; Python",
        f"{platform.python_version()}, {os.cpu_count()} cores, of which others left about {cpu / total:.1f}.",
        "",
        "| step | seconds | CPU seconds |",
        "| --- | --- | --- |",
        *(f"| `{what}` | {seconds:.1f} | {cpu:.1f} |" for what, seconds, cpu in rows),
        f"| **together** | **{total / 60:.1f} minutes** | **{cpu / 60:.1f} minutes** |",
    ]
    print("\n".join(lines))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "fresh_install.md").write_text("\n".join(lines) + "\n", "utf-8")


def spent() -> float:
    """CPU seconds of the commands until now."""
    times = os.times()
    return times.children_user + times.children_system


def measure(place: Path) -> list[tuple[str, float, float]]:
    """(what, seconds, CPU seconds) of every step."""
    rows: list[tuple[str, float, float]] = []
    # A new user has no folder of this repository on the path.
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    scripts = place / "robust" / "bin"

    def step(shown: str, command: list[str | Path]) -> str:
        began, cpu = time.perf_counter(), spent()
        done = subprocess.run(list(map(str, command)), cwd=place, capture_output=True, text=True, env=surroundings)
        if done.returncode:
            raise SystemExit(f"{shown}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        rows.append((shown, time.perf_counter() - began, spent() - cpu))
        print(f"{rows[-1][1]:8.1f} s {rows[-1][2]:8.1f} CPU s  {shown}", file=sys.stderr, flush=True)
        return done.stdout

    def code(page: str, content: str, output: str) -> None:
        (place / "example.py").write_text(content, "utf-8")
        printed = step(f"python: the example of {page}", [scripts / "python", "example.py"])
        if output and printed != output:
            raise SystemExit(f"{page}: expected\n{output}found\n{printed}")

    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    step("python -m venv robust", [sys.executable, "-m", "venv", "robust"])
    step(f"pip install {wheel.name}", [scripts / "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel])
    step("pwcf doctor", [scripts / "pwcf", "doctor"])
    for page in ("README.md", "docs/quickstart.md"):
        for kind, content, output in BLOCK.findall((ROOT / page).read_text("utf-8")):
            if kind == "python":
                code(page, content, output)
                continue
            for line in content.splitlines():
                step(line, [scripts / "pwcf", *shlex.split(line)[1:]])
    return rows


if __name__ == "__main__":
    main()
