"""Two tables of the paper on our nets, from the cells of a benchmark.

    python benchmarks/realdata_grid.py --images 50 --out out/realdata
    pwcf bench --grid out/realdata/grid.toml --question max-loss --budget 1000 --limit 20 --out out/accuracy \\
        --attacks lmn,apgd-ce,apgd-margin,pwcf-ce,pwcf-margin,square
    pwcf bench --grid out/realdata/grid.toml --question min-radius --budget 2000 --limit 50 --out out/radius \\
        --attacks lmn,fab
    python benchmarks/paper_tables.py --accuracy out/accuracy 1000 --radius out/radius 2000 --out docs/benchmarks

The first is "Comparison between PWCF and other numerical algorithms in solving max-loss form": robust accuracy in
percent. PWCF is the paper's own formulation ("pwcf") with either loss; "lmn", which knows no loss, stands
beside it. CE+M and A&P combine points sample by sample. The second is the "Statistical comparison of the minimal
radius", FAB against "lmn".
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from pwcf.analysis import Spread, attacked_in, compare, robust_accuracy
from pwcf.runs import RecordedRun, find_runs, load_run
from pwcf.runs.folder import GRID, read_json

STEM = "paper_tables"
APGD = ("apgd-ce", "apgd-margin")
PWCF = ("pwcf-ce", "pwcf-margin")
# Columns of the first table, each the samples that any of these attacks has broken.
COLUMNS: dict[str, tuple[str, ...]] = {
    "APGD CE": APGD[:1],
    "APGD M": APGD[1:],
    "APGD CE+M": APGD,
    "PWCF CE": PWCF[:1],
    "PWCF M": PWCF[1:],
    "PWCF CE+M": PWCF,
    "Square": ("square",),
    "A&P": (*APGD, *PWCF),
    "lmn": ("lmn",),
    "A&P with lmn": (*APGD, *PWCF, "lmn"),
}
SINGLE = ("APGD CE", "APGD M", "PWCF CE", "PWCF M", "Square", "lmn")
Cells = dict[tuple[str, str, str | None], dict[str, RecordedRun]]


def cells_of(folder: Path, budget: int) -> Cells:
    """Runs of this budget by net, norm and eps as it was asked, and then by attack."""
    told = read_json(folder / GRID)["cells"]
    found: Cells = {}
    for path in find_runs(folder):
        cell = told[path.relative_to(folder).as_posix()]
        if cell["budget"] == budget:
            run = load_run(path, tensors=False)
            found.setdefault((cell["net"], cell["metric"], cell["eps"]), {})[cell["attack"]] = run
    return dict(sorted(found.items(), key=_order))


def max_loss(cells: Cells) -> list[str]:
    lines = [
        "| net | metric (eps) | clean | " + " | ".join(COLUMNS) + " |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    lowest = lowest_ours = counted = 0
    for (net, norm, eps), by_attack in cells.items():
        if eps is None or not all(name in by_attack for names in COLUMNS.values() for name in names):
            continue
        right = attacked_in(by_attack["lmn"])
        accuracy = {
            column: robust_accuracy(_any(by_attack[name].adversarial for name in names), right)
            for column, names in COLUMNS.items()
        }
        counted += 1
        lowest += accuracy["A&P"] <= min(accuracy[column] for column in ("APGD CE+M", "PWCF CE+M", "Square"))
        lowest_ours += accuracy["lmn"] <= accuracy["A&P"]
        least, least_single = min(accuracy.values()), min(accuracy[column] for column in SINGLE)
        shown = []
        for column, value in accuracy.items():
            text = f"{100 * value:.1f}"
            text = f"<u>{text}</u>" if column in SINGLE and value == least_single else text
            shown.append(f"**{text}**" if value == least else text)
        clean = 100 * float(right.double().mean())
        lines.append(f"| {net} | {norm} ({eps}) | {clean:.1f} | " + " | ".join(shown) + " |")
    lines += [
        "",
        "Lowest in bold, lowest of single ones underlined. A&P is lowest or equal among the paper's columns on "
        f'{lowest} of {counted}; "lmn" alone is as low as A&P or lower on {lowest_ours} of {counted}.',
    ]
    return lines


def min_radius(cells: Cells, first: str, second: str) -> list[str]:
    """Over the samples for which both have a point; the difference is ``first`` minus ``second``."""
    names = (second, first, f"{first} - {second}")
    columns = [f"{name}: {what}" for name in names for what in ("mean", "median", "STD")]
    lines = [
        "| net | metric | both found | " + " | ".join(columns) + " |",
        "|---" * (3 + len(columns)) + "|",
    ]
    better = counted = 0
    for (net, norm, eps), by_attack in cells.items():
        if eps is not None or first not in by_attack or second not in by_attack:
            continue
        right = attacked_in(by_attack[first])
        both = compare(by_attack[first].radius, by_attack[second].radius, right)
        counted += 1
        better += both.difference.mean <= 0
        shown = [text for side in (both.second, both.first, both.difference) for text in _numbers(side)]
        lines.append(
            f"| {net} | {norm} | {both.first.found} of {both.first.clean_correct} | " + " | ".join(shown) + " |"
        )
    lines += ["", f"The mean of {first} is no larger on {better} of {counted}."]
    return lines


def _numbers(side: Spread) -> tuple[str, str, str]:
    return f"{side.mean:.4g}", f"{side.median_found:.4g}", f"{side.std:.4g}"


def _any(flags: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(flags)).any(0)


def _order(item: tuple[tuple[str, str, str | None], object]) -> tuple[str, int, str]:
    net, norm, eps = item[0]
    return net, ("l1", "l2", "linf").index(norm), eps or ""


def _read(source: Sequence[str]) -> tuple[Cells, str]:
    """The cells of a folder and budget, and in words what they are of."""
    folder, budget = Path(source[0]), int(source[1])
    cells = cells_of(folder, budget)
    images = {len(run.status) for by_attack in cells.values() for run in by_attack.values()}
    return cells, (
        f"First {', '.join(map(str, sorted(images)))} correctly classified images of each net, {budget} forward + "
        "backward passes a sample for each attack, verified points only."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accuracy", nargs=2, required=True, metavar=("DIR", "BUDGET"), help="max-loss cells")
    parser.add_argument("--radius", nargs=2, required=True, metavar=("DIR", "BUDGET"), help="min-radius cells")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    accuracy, about_accuracy = _read(args.accuracy)
    radius, about_radius = _read(args.radius)
    lines = [
        "# The paper's tables on our nets",
        "",
        "Made by `python benchmarks/paper_tables.py`, which says how.",
        "",
        "## Max-loss form: robust accuracy (%)",
        "",
        about_accuracy,
        "",
        *max_loss(accuracy),
        "",
        "## Minimal radius: lmn and FAB",
        "",
        about_radius,
        "",
        *min_radius(radius, "lmn", "fab"),
        "",
    ]
    print("\n".join(lines))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{STEM}.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
