"""A benchmark's report: bench.md, a CSV file per table, plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pwcf.records import Record, write_text
from pwcf.report import tables
from pwcf.report.groups import Group, groups_of
from pwcf.report.plots import write_plots

COUNTING = (
    "A budget is forward + backward passes per sample, everything included; no sample was given more. Radii are those "
    "of verified points. Mean, median and standard deviation are over the samples that are classified correctly and "
    "for which a point was found: `found` of `of`. xi is AttackBench's local optimality, 1 = as good as all attacks of "
    "this benchmark together at the largest budget; in it samples without a point count in full. A small budget's xi "
    "is against the best of the largest budget. Lists are ordered by the mean with missing points counted as the "
    "largest radius that any attack found."
)


def write_report(records: Sequence[Record], folder: Path, command: str) -> list[str]:
    """Tables and plots of records into ``folder``; in sentences what was written and what was left out."""
    groups = groups_of(records)
    drawn, sentence = write_plots(groups, folder / "plots")
    contents = {
        "radii": tables.radius_table(groups),
        "accuracy": tables.accuracy_table(groups),
        "comparison": tables.comparison_table(groups),
        "wins": tables.wins_table(groups),
    }
    for name, table in contents.items():
        path = folder / "tables" / f"{name}.csv"
        if table.rows:
            write_text(path, table.csv())
        else:
            path.unlink(missing_ok=True)  # of an earlier report
    text = [*_head(records, command), *_headline(groups)]
    for name, title, note in (
        ("radii", "Radii", ""),
        (
            "accuracy",
            "Robust accuracy",
            "Over all samples, those that are wrong as they are count as broken. `by its radii`: what the attack's "
            "min-radius run at the same budget says of this eps.",
        ),
        (
            "comparison",
            "Statistical comparison of the minimal radius",
            "At the largest budget, over the samples for which both have a point. Differences are sample by sample, "
            "ours minus the other: below zero ours is better.",
        ),
    ):
        if contents[name].rows:
            text += [f"## {title}", "", *([note, ""] if note else []), *contents[name].markdown(), ""]
    text += _wins(groups)
    for path in drawn:
        text += [f"![{path.stem}](plots/{path.name})", ""]
    write_text(folder / "bench.md", "\n".join(text))
    kinds = "tables and plots" if drawn else "tables"
    written = f"{kinds} of {len(records)} cells are in {folder}: bench.md, tables/" + (", plots/" if drawn else "")
    return [written, *([sentence] if sentence else [])]


def _head(records: Sequence[Record], command: str) -> list[str]:
    first = records[0].header
    lines = ["# Benchmark", "", f"Made by `{command}`.", ""]
    versions = {
        f"pwcf {r.header.made.pwcf}, torch {r.header.made.torch}, Python {r.header.made.python}, "
        f"{r.header.made.threads} thread(s)"
        for r in records
    }
    lines += [f"{first.images} images of each net, seed {first.seed}; {'; '.join(sorted(versions))}."]
    if len(versions) > 1:
        lines[-1] += " **Cells were made by different versions or settings: compare times and answers with care.**"
    lines += ["", COUNTING, "", "Attacks:", ""]
    about: dict[str, set[str]] = {}
    for record in records:
        about.setdefault(record.cell.attack, set()).add(record.header.made.about)
    lines += [f"- {name}: {'; or '.join(sorted(filter(None, texts))) or '–'}" for name, texts in sorted(about.items())]
    remarks: dict[str, set[str]] = {}
    for record in records:
        for remark in record.header.made.warnings:
            remarks.setdefault(remark, set()).add(f"{record.cell.net} ({record.cell.attack})")
    if remarks:
        lines += ["", "Warnings of the evaluations:", ""]
        lines += [f"- {remark} — {', '.join(sorted(where))}" for remark, where in remarks.items()]
    return [*lines, ""]


def _headline(groups: Sequence[Group]) -> list[str]:
    table, sentence = tables.headline(groups)
    return ["## In short", "", *table.markdown(), "", sentence, ""] if table.rows else []


def _wins(groups: Sequence[Group]) -> list[str]:
    lines: list[str] = []
    for norm in dict.fromkeys(group.norm for group in groups):
        names, share = tables.pooled_wins(groups, norm)
        if len(names) > 1:
            lines += [f"### {norm}", "", *tables.wins_matrix(names, share).markdown(), ""]
    note = (
        "Share of samples, of all nets together, on which the row's radius is smaller than the column's by more than "
        "1 %; at the largest budget. Per net: tables/wins.csv."
    )
    return ["## Pairwise wins", "", note, "", *lines] if lines else []
