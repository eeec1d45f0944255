"""``pwcf.evaluate`` against exact answers from outside: closed forms, MILP, verifiers, and its own two questions.

- linear: linear classifiers, n 10 to 3072, 2 to 100 classes, six l_p, box inactive and active, exact radius by dual
  norms and breakpoint search. Good: within 1 % of the exact radius. With two classes the problem is convex, and a
  row that says converged more than 2 % above it is a false claim.
- relu: small trained ReLU networks, l1 and linf, exact radius by MILP (HiGHS). Good: within 1 %.
- proven: VNN-COMP instances on real networks. Good: radius above eps where proved robust, at most eps where not.
- metrics: l1.5, l2 and l8 radii of real images. Good: ordered; max-loss at 0.8 of each radius finds nothing, at 1.2
  it does.

A radius *below* the exact one (by more than 1e-6 of it) or below a proved eps cannot be: it would be a bug::

    python benchmarks/exact_radius.py --out docs/benchmarks

What is measured replaces its lines in the CSV files, the others stay: ``--parts``, ``--n`` and the like measure some,
and ``--parts`` without any only writes the report again. Needs scipy; proven and metrics need a folder of real networks
(PWCF_REALDATA) and are skipped without it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from exact import linear, ordering, proven, relu
from exact.judge import KEY
from known_optima import heading, percent, table, write_csv

STEM = "exact_radius"
PARTS = {part.PART: part.measure for part in (linear, relu, proven, ordering)}
Row = dict[str, Any]


def total(lines: Sequence[Row], key: str) -> int:
    return sum(int(line[key]) for line in lines if line[key] != "")


def sums(lines: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Lines with the same values of ``by``, added up."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in by), []).append(line)
    result = []
    for values, group in groups.items():
        rows, good = total(group, "rows"), total(group, "good")
        two = [line for line in group if line["part"] == linear.PART and int(line["classes"]) == 2]
        result.append(
            dict(zip(by, values, strict=True))
            | {"rows": rows, "found": total(group, "found"), "good": good, "share": f"{100 * good / rows:.2f} %"}
            | {"below": total(group, "below"), "worst excess": worst(group)}
            | {"claims, two classes": percent(total(two, "claims"), total(two, "rows"))}
            | {"false of them": total(two, "false_claims") if two else "-"}
            | {"seconds": round(sum(float(line["seconds"] or 0) for line in group), 1)}
        )
    return result


def worst(lines: Sequence[Row]) -> str:
    values = [float(line["worst_excess"]) for line in lines if line["worst_excess"] != ""]
    return f"{100 * max(values):.3g} %" if values else "-"


def shown(lines: Sequence[Row]) -> list[Row]:
    """As cells: excesses in percent, no columns that are empty throughout."""
    result = []
    for line in lines:
        row = {key: value for key, value in line.items() if key != "part" and any(other[key] != "" for other in lines)}
        for key in ("median_excess", "worst_excess", "excess"):
            if row.get(key, "") != "":
                row[key] = f"{100 * float(row[key]):.4g} %"
        for key in ("value", "passes", "exact", "radius"):
            if row.get(key, "") != "":
                row[key] = f"{float(row[key]):.5g}"
        result.append(row)
    return result


def report(lines: Sequence[Row], missed: Sequence[Row], args: argparse.Namespace) -> str:
    settings = {"budget": args.budget, "seed": args.seed, "oracles": "closed forms, scipy HiGHS"}
    text = heading("Exact radii", **settings)
    text += [
        "Good: within 1 % of the exact radius (linear, relu), on the proved side (proven), found, ordered, or as "
        "max-loss should answer (metrics). Below: a radius that cannot be. Excess: radius / exact - 1. Claims: rows "
        "that say converged; false with two classes of a linear model, where the problem is convex, if more than 2 % "
        "above the exact radius.",
        "",
        "## Each part",
        "",
        *table(sums(lines, ["part"])),
        "",
    ]
    for part in PARTS:
        own = [line for line in lines if line["part"] == part]
        if not own:
            text += [f"## {part}", "", "Not measured.", ""]
            continue
        text += [f"## {part}", ""]
        if part == "linear":
            for by in (["metric", "case", "dtype"], ["n"], ["classes"]):
                text += [*table(sums(own, by)), ""]
        elif part == "proven":
            verdicts = [line | {"verdict": line["case"].split(", ")[1]} for line in own]
            text += [*table(sums(verdicts, ["verdict"])), ""]
        text += [*table(shown(own)), ""]
        lost = [row for row in missed if row["part"] == part]
        text += [
            f"Samples that miss: {len(lost)}" + (f", the first {args.show}:" if len(lost) > args.show else "."),
            "",
        ]
        text += [*table(shown(lost[: args.show])), ""] if lost else []
    return "\n".join(text)


def stored(path: Path) -> list[Row]:
    """Lines of earlier runs."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def without(rows: Sequence[Row], line: Row) -> list[Row]:
    return [row for row in rows if any(str(row[key]) != str(line[key]) for key in KEY)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--budget", type=int, default=2000, help="forward + backward passes per sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=20, help="linear: images per family")
    parser.add_argument("--n", type=int, nargs="+", default=[10, 100, 784, 3072], help="linear: dimensions")
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 10, 100], help="linear: numbers of classes")
    parser.add_argument("--dtypes", nargs="+", choices=("float32", "float64"), default=["float64"], help="linear")
    parser.add_argument("--samples", type=int, default=40, help="relu: points per network")
    parser.add_argument("--images", type=int, default=50, help="metrics: images per network")
    parser.add_argument("--show", type=int, default=40, help="samples that miss to list in the report, per part")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    paths = args.out / f"{STEM}.csv", args.out / f"{STEM}_missed.csv"
    lines, missed = (stored(path) for path in paths)
    for part in args.parts:
        for line in PARTS[part](args):
            lines = [*without(lines, line.row), line.row]
            missed = [*without(missed, line.row), *line.missed]
            words = [f"{line.part}, {line.case}, {line.metric}, n {line.n}, {line.classes} classes, {line.dtype}:"]
            words += [f"{line.good} of {line.rows} good, {line.below or 0} below, worst {worst([line.row])},"]
            words += [f"{line.claims or 0} claim, {line.false_claims or 0} falsely, {line.seconds or 0} s"]
            print(*words, flush=True)
            for path, rows in zip(paths, (lines, missed), strict=True):
                write_csv(path, rows)
    text = report(lines, missed, args)
    (args.out / f"{STEM}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
