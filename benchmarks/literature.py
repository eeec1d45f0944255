"""``pwcf.minimize`` with default settings on problems of the literature: solved rows, and claims that are false.

The problems are those of ``pwcf.testproblems`` that ``known_optima.py`` does not run: Hock-Schittkowski, minimax
and other nonsmooth problems, complementarity. Each is solved from its standard start and 16 perturbed ones in one
batch, in float64, and by SLSQP (scipy) from the same starts where it is smooth, or a maximum of smooth pieces::

    python benchmarks/literature.py --out docs/benchmarks

A row is *solved* if (f - f*) / max(1, |f*|) is at most 1e-4 and its total violation, with nothing folded, at most
1e-6. A claim, a row that says converged, is *false* if one trust-region step of the problem linearised there
(1 %) really lowers the objective by more than 3e-4; ``literature_probes.py`` takes the step. ``--probe random``
adds random directions, as a check of that check. Objective and violation are computed here, from the points
returned. Needs scipy (``pip install pwcf[test]``).
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from known_optima import KNOWN, columns, endings, heading, percent, table, write_csv
from literature_probes import FEASIBLE, GAIN, ROUNDING, SOLVED, Unfolded, judged, linearised_gain, random_gain
from literature_slsqp import measure_slsqp, stored_slsqp

import pwcf

STEM = "literature"
FAR = 1e-2
TOL = 1e-4
KINDS = ("smooth", "complementarity", "nonsmooth")

Line = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know."""

    rows: int
    seed: int
    random: bool
    rival: bool
    stored: dict[str, Line]
    """The SLSQP columns of an earlier run, by problem."""


def kind_of(name: str) -> str:
    """What a problem counts as, by the module that defines it."""
    folders = getattr(pwcf.testproblems, name).__module__.split(".")
    if "hock_schittkowski" in folders:
        return "smooth"
    return "complementarity" if "complementarity" in folders else "nonsmooth"


def collection(which: str) -> list[str]:
    """The names of the problems of a collection."""
    if which == "known":
        return list(KNOWN)
    return [name for name in pwcf.testproblems.names() if name not in KNOWN]


# ---- one problem ----------------------------------------------------------------------------------


def measure(name: str, settings: Settings) -> tuple[Line, list[Line]]:
    """The line of a problem, and one for each of its rows."""
    torch.set_num_threads(1)
    problem, kind = pwcf.testproblems.get(name), kind_of(name)
    unfolded = Unfolded.of(problem)
    starts = unfolded.starts(settings.rows, settings.seed)
    line: Line = {
        "problem": name,
        "kind": kind,
        "n": problem.n,
        "constraints": columns(problem, starts),
        "rows": settings.rows,
        "seed": settings.seed,
        "solved": 0,
        "claims": 0,
        "claims_solved": 0,
        "false_claims": 0,
        "false_by_random": 0 if settings.random else "",
        "infeasible_claims": 0,
        "far_claims": 0,
        "lowest_error": math.nan,
        "median_error": math.nan,
        "evaluations": math.nan,
        "seconds": math.nan,
        "endings": "",
    }
    if settings.rival:
        line |= settings.stored.get(name) or measure_slsqp(unfolded, kind, starts)
    began = time.perf_counter()
    try:
        solution = pwcf.minimize(problem.objective, starts, problem.constraints, bounds=problem.bounds, tol=TOL)
    except Exception as error:  # a failure is a result too
        return line | {"endings": f"raised {type(error).__name__}", "seconds": time.perf_counter() - began}, []
    line["seconds"] = time.perf_counter() - began
    objective, error, violation, solved = judged(unfolded, solution.x)
    claims = solution.converged
    rows: list[Line] = []
    for i in range(settings.rows):
        row: Line = {
            "problem": name,
            "row": i,
            "status": solution.status[i].value,
            "solved": bool(solved[i]),
            "objective": float(objective[i]),
            "optimum": problem.optimum,
            "error": float(error[i]),
            "violation": float(violation[i]),
            "stationarity": float(solution.evidence.stationarity[i]),
            "evaluations": int(solution.evaluations[i]),
            "gain": "",
            "random_gain": "",
        }
        if bool(claims[i]):
            row["gain"] = linearised_gain(problem, solution.x[i])
            row["random_gain"] = random_gain(problem, solution.x[i]) if settings.random else ""
        rows.append(row)
    claimed = [row for row in rows if row["gain"] != ""]
    feasible = violation <= FEASIBLE * ROUNDING
    line |= {
        "solved": int(solved.sum()),
        "claims": len(claimed),
        "claims_solved": int((claims & solved).sum()),
        "false_claims": sum(row["gain"] > GAIN for row in claimed),
        # not <=, so that NaN counts
        "infeasible_claims": int((claims & ~feasible).sum()),
        "far_claims": int((claims & ~(error <= FAR)).sum()),
        "evaluations": float(solution.evaluations.double().mean()),
        "endings": endings(solution),
    }
    if settings.random:
        line["false_by_random"] = sum(row["random_gain"] > GAIN for row in claimed)
    if bool(feasible.any()):
        line |= {"lowest_error": float(error[feasible].min()), "median_error": float(error[feasible].median())}
    return line, rows


# ---- the report -----------------------------------------------------------------------------------


def total(lines: list[Line], key: str) -> int:
    return sum(line[key] for line in lines if line[key] != "")


def of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "none"


def named(lines: list[Line], key: str) -> str:
    """The problems where ``key`` is above 0, with the number."""
    return ", ".join(f"{line['problem']} ({line[key]})" for line in lines if line[key]) or "none"


def summary(lines: list[Line], settings: Settings) -> list[str]:
    """The figures that the benchmark is for."""
    rows, claims, solved = (total(lines, key) for key in ("rows", "claims", "solved"))
    text = [f"- {len(lines)} problems, {rows} rows; {of(solved, rows)} solved."]
    for kind in KINDS:
        part = [line for line in lines if line["kind"] == kind]
        if not part:
            continue
        sentence = (
            f"- {kind.capitalize()}, {len(part)} problems: {of(total(part, 'solved'), total(part, 'rows'))} solved"
        )
        both = [line for line in part if line.get("slsqp_form")]
        if both:
            where = (
                "" if len(both) == len(part) else f" on {len(both)} of them, where pwcf solves {total(both, 'solved')}"
            )
            form = " (epigraph form)" if kind == "nonsmooth" else ""
            sentence += f"; SLSQP{form} {of(total(both, 'slsqp_solved'), total(both, 'rows'))}{where}"
        text.append(sentence + ".")
    smooth = [line for line in lines if line["kind"] != "nonsmooth" and line.get("slsqp_form")]
    if smooth:
        text.append(
            f"- Smooth and complementarity together: pwcf {of(total(smooth, 'solved'), total(smooth, 'rows'))}, "
            f"SLSQP {of(total(smooth, 'slsqp_solved'), total(smooth, 'rows'))}."
        )
    text += [
        f"- Claims among solved rows: {of(total(lines, 'claims_solved'), solved)}.",
        f"- False claims: {of(total(lines, 'false_claims'), claims)} of the claims; {named(lines, 'false_claims')}.",
    ]
    if settings.random:
        text.append(f"- False by random directions: {named(lines, 'false_by_random')}.")
    text += [
        f"- Claims with a violation above {FEASIBLE:g}: {named(lines, 'infeasible_claims')}.",
        f"- Claims more than 1 % above the optimum, other local minima among them: {total(lines, 'far_claims')}; "
        f"{named(lines, 'far_claims')}.",
        f"- Time of all problems: pwcf {sum(line['seconds'] for line in lines):.0f} s"
        + (f", SLSQP {sum(line['slsqp_seconds'] or 0 for line in lines):.0f} s." if settings.rival else "."),
    ]
    return text


def losses(lines: list[Line]) -> list[str]:
    """Where pwcf solves fewer rows than SLSQP, or less than all."""
    worse = [line for line in lines if line.get("slsqp_form") and line["solved"] < line["slsqp_solved"]]
    worse.sort(key=lambda line: line["solved"] - line["slsqp_solved"])
    behind = ", ".join(f"{line['problem']} ({line['solved']} against {line['slsqp_solved']})" for line in worse)
    nothing = [line["problem"] for line in lines if not line["solved"]]
    some = [f"{line['problem']} ({line['solved']})" for line in lines if 0 < line["solved"] < line["rows"]]
    return [
        f"- SLSQP solves more rows: {behind or 'none'}.",
        f"- No row solved: {', '.join(nothing) or 'none'}.",
        f"- Some rows not solved (solved): {', '.join(some) or 'none'}.",
    ]


def report(lines: list[Line], rows: list[Line], wanted: int, args: argparse.Namespace, settings: Settings) -> str:
    text = heading(
        "`pwcf.minimize` on problems of the literature", collection=args.collection, rows=settings.rows,
        seed=settings.seed, dtype="float64", tol=TOL, processes=args.jobs, LP="scipy HiGHS",
    )  # fmt: skip
    if len(lines) < wanted:
        text += [f"**Not complete:** {len(lines)} of {wanted} problems.", ""]
    kept = sum(line["problem"] in settings.stored for line in lines)
    if kept:
        text += [f"**Not one run:** the SLSQP columns of {kept} problems were kept from an earlier run.", ""]
    text += [
        f"Row 0 is the standard start, the others are perturbed. Solved: (f - f*) / max(1, |f*|) <= {SOLVED:g} and "
        f"total violation, nothing folded, at most {FEASIBLE:g}. Claim: the row says converged. False: a step of the "
        f"linearised problem within 1 % lowers f by more than {GAIN:g} max(1, |f|), at a point no less feasible (up "
        f"to {FEASIBLE:g}). Far: error above {FAR:g}. Lowest and median error: over feasible rows. Evaluations: mean "
        "of a row. SLSQP: the same starts, one by one.",
        "",
        *summary(lines, settings),
        "",
        "## Losses",
        "",
        *losses(lines),
        "",
    ]
    false = [row for row in rows if row["gain"] != "" and row["gain"] > GAIN]
    if false:
        keys = ("problem", "row", "objective", "optimum", "violation", "stationarity", "gain", "evaluations")
        text += ["## False claims", "", *table([{key: row[key] for key in keys} for row in false]), ""]
    shown = []
    for line in lines:
        first = {"problem": line["problem"], "kind": line["kind"], "n": line["n"], "constraints": line["constraints"]}
        first["solved"] = percent(line["solved"], line["rows"])
        if settings.rival:
            first["SLSQP solved"] = percent(line["slsqp_solved"], line["rows"]) if line["slsqp_form"] else ""
        others = {key: value for key, value in line.items() if key not in (*first, "rows", "seed", "slsqp_solved")}
        shown.append(first | {key.replace("slsqp", "SLSQP"): value for key, value in others.items()})
    return "\n".join([*text, "## Each problem", "", *table(shown)]) + "\n"


def results(names: list[str], settings: Settings, jobs: int) -> Iterator[tuple[Line, list[Line]]]:
    """Measure the problems, as they finish. Every problem has its own seeds, so ``jobs`` changes no answer."""
    if jobs == 1:
        for name in names:
            yield measure(name, settings)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        waiting = [pool.apply_async(measure, (name, settings)) for name in names]
        while waiting:
            ready = [result for result in waiting if result.ready()]
            waiting = [result for result in waiting if result not in ready]
            for result in ready:
                yield result.get()
            time.sleep(0.01)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--collection", choices=("literature", "known"), default="literature")
    parser.add_argument("--problems", default=None, help="names with commas between them; default: the collection")
    parser.add_argument("--rows", type=int, default=17, help="the standard start and rows - 1 perturbed ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--probe", choices=("linearised", "random"), default="linearised", help="random: both")
    parser.add_argument("--no-slsqp", action="store_true")
    parser.add_argument("--slsqp-from", type=Path, metavar="CSV", help="keep the SLSQP columns of an earlier run")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    names = args.problems.split(",") if args.problems else collection(args.collection)
    unknown = sorted(set(names) - set(pwcf.testproblems.names()))
    if unknown:
        parser.error(f"--problems: no test problem named {', '.join(unknown)}")
    stored = stored_slsqp(args.slsqp_from, args.rows, args.seed) if args.slsqp_from else {}
    settings = Settings(args.rows, args.seed, args.probe == "random", not args.no_slsqp, stored)
    args.out.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    rows: list[Line] = []
    text = report(lines, rows, len(names), args, settings)
    for line, its_rows in results(names, settings, args.jobs):
        lines.append(line)
        rows += its_rows
        lines.sort(key=lambda each: names.index(each["problem"]))
        rows.sort(key=lambda each: (names.index(each["problem"]), each["row"]))
        against = f" (SLSQP {line['slsqp_solved']})" if line.get("slsqp_form") else ""
        print(
            f"{line['problem']}: {line['solved']}{against} of {line['rows']} solved, {line['claims_solved']} claimed, "
            f"{line['false_claims']} false, {line['far_claims']} far, {line['seconds']:.1f} s, {line['endings']}",
            flush=True,
        )
        write_csv(args.out / f"{STEM}.csv", lines)
        write_csv(args.out / f"{STEM}_rows.csv", rows)
        text = report(lines, rows, len(names), args, settings)
        (args.out / f"{STEM}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
