"""How far is each point from being misclassified? In two dimensions every answer can be checked by brute force.

    python examples/spirals.py

1. A ReLU network learns three spirals in the unit square (fixed seed, two seconds).
2. ``pwcf.evaluate`` finds the nearest misclassified point of 150 fresh points, in four metrics, and verifies it.
3. Every radius is compared with a brute-force search of the whole square.
4. ``pwcf.minimize`` solves eight problems with known answers, five starts each.

It writes out/spirals/report.html (one file, nothing external) and out/spirals/spirals.png.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import math
import platform
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

import pwcf
from pwcf import testproblems

matplotlib.use("Agg")  # draw to files, no window
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Polygon

METRICS = {"l1": 1.0, "l1.5": 1.5, "l2": 2.0, "linf": math.inf}
TEX = {"l1": r"$\ell_1$", "l1.5": r"$\ell_{1.5}$", "l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
INK = {"l1": "#b4245d", "l1.5": "#c8790a", "l2": "#1b5fc1", "linf": "#17766b"}
REGIONS = ["#cfe0f5", "#fbdcc4", "#d3ead0"]
POINTS = ["#2f5f9e", "#c05a1b", "#3d8a3a"]
BUDGET = 1000
PROBLEMS = (
    ("maxq", {"n": 20}), ("chained_lq", {"n": 20}), ("max_eigenvalue", {}), ("lasso_box", {}),
    ("mad1", {}), ("granso_rosenbrock", {}), ("hs71", {}), ("classifier_linf", {"n": 20}),
)  # fmt: skip


# ---- data and model ---------------------------------------------------------------------------------


def spirals(per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three noisy spiral arms in the unit square: points (3 per_class, 2) and labels."""
    generator = torch.Generator().manual_seed(seed)
    t = torch.linspace(0.15, 1, per_class, dtype=torch.float64)
    points = []
    for k in range(3):
        noise = torch.randn(per_class, generator=generator, dtype=torch.float64)
        angle = 3.3 * t + 2 * math.pi / 3 * k + 0.16 * noise
        points.append(0.5 + 0.46 * torch.stack([t * angle.cos(), t * angle.sin()], -1))
    return torch.cat(points).clamp(0, 1), torch.arange(3).repeat_interleave(per_class)


def train(points: Tensor, labels: Tensor, steps: int) -> torch.nn.Module:
    """A 2-48-48-3 ReLU network in float64, its weights frozen after training."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 48),
        torch.nn.ReLU(),
        torch.nn.Linear(48, 48),
        torch.nn.ReLU(),
        torch.nn.Linear(48, 3),
    ).double()
    with torch.no_grad():  # see inputs of [0, 1] as [-2, 2]
        net[0].bias -= 2 * net[0].weight.sum(1)
        net[0].weight *= 4
    adam = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(steps):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(net(points), labels).backward()
        adam.step()
    return net.requires_grad_(False).eval()


# ---- robustness radii -------------------------------------------------------------------------------


def distance(a: Tensor, b: Tensor, p: float) -> Tensor:
    return torch.linalg.vector_norm(a - b, p, dim=-1)


@dataclass(frozen=True)
class Radii:
    """Answers for one metric, beside those of the brute-force search."""

    metric: str
    run: pwcf.Run
    searched: Tensor

    @property
    def radius(self) -> Tensor:
        return self.run.radius

    @property
    def x(self) -> Tensor:
        return self.run.x_adv

    @property
    def ratio(self) -> Tensor:
        return self.radius / self.searched


def search(model: torch.nn.Module, points: Tensor, labels: Tensor, side: int = 1001) -> Callable[[float], Tensor]:
    """Brute force, for comparison: classify a dense grid, take the nearest wrong point, zoom in on it.

    Of the grid only points beside another class can be nearest. A zoom is a 21 x 21 patch around the best
    point so far; it moves until the best is not at its rim, then shrinks to a third.
    """
    line = torch.linspace(0, 1, side, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)
    classes = torch.cat([model(part).argmax(1) for part in grid.split(100_000)]).reshape(side, side)
    edge = torch.zeros(side, side, dtype=torch.bool)
    for axis in (0, 1):
        a, b = classes.narrow(axis, 0, side - 1), classes.narrow(axis, 1, side - 1)
        edge.narrow(axis, 0, side - 1).logical_or_(a != b)
        edge.narrow(axis, 1, side - 1).logical_or_(a != b)
    candidates, theirs = grid[edge.flatten()], classes[edge]
    tick = torch.linspace(-1, 1, 21, dtype=torch.float64)
    patch = torch.cartesian_prod(tick, tick)
    rim = patch.abs().amax(1) == 1

    def nearest(p: float) -> Tensor:
        table = distance(points[:, None], candidates, p)
        best, index = table.masked_fill(theirs == labels[:, None], torch.inf).min(1)
        centre, width = candidates[index], torch.full_like(best, 2 / (side - 1))
        for _ in range(14):
            cloud = (centre[:, None] + width[:, None, None] * patch).clamp(0, 1)
            wrong = model(cloud.reshape(-1, 2)).argmax(1).reshape(cloud.shape[:2]) != labels[:, None]
            value, index = distance(cloud, points[:, None], p).masked_fill(~wrong, torch.inf).min(1)
            better = value < best
            best = torch.where(better, value, best)
            picked = cloud.gather(1, index[:, None, None].expand(-1, 1, 2)).squeeze(1)
            centre = torch.where(better[:, None], picked, centre)
            width = torch.where(better & rim[index], width, width / 3)
        return best

    return nearest


# ---- known problems ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """One test problem from five starts; ``excess`` is (f - f*) / max(1, |f*|) of every start."""

    problem: testproblems.TestProblem
    solution: pwcf.Solution
    excess: Tensor


def known_problems() -> list[Known]:
    results = []
    for name, sizes in PROBLEMS:
        problem = testproblems.get(name, **sizes)
        starts = problem.starts(5, seed=0)
        solution = pwcf.minimize(problem.objective, starts, problem.constraints, bounds=problem.bounds)
        excess = (solution.objective - problem.optimum) / max(1.0, abs(problem.optimum))
        results.append(Known(problem, solution, excess))
    return results


# ---- pictures ---------------------------------------------------------------------------------------


def ball(centre: Tensor, radius: float, p: float) -> Tensor:
    """The outline of an l_p ball, (m, 2)."""
    angle = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)[:-1]
    way = torch.stack([angle.cos(), angle.sin()], -1)
    return centre + radius * way / torch.linalg.vector_norm(way, p, dim=1, keepdim=True)


def regions(axes: plt.Axes, model: torch.nn.Module, low: Tensor, high: Tensor, side: int = 500) -> None:
    """Decision regions of the model as soft areas with a dark border."""
    xs, ys = (torch.linspace(float(low[i]), float(high[i]), side, dtype=torch.float64) for i in (0, 1))
    grid = torch.cartesian_prod(xs, ys)
    logits = torch.cat([model(part) for part in grid.split(100_000)])
    classes = logits.argmax(1).reshape(side, side).T
    extent = (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
    axes.imshow(
        classes, origin="lower", extent=extent, cmap=ListedColormap(REGIONS), vmin=0, vmax=2,
        interpolation="nearest",
    )  # fmt: skip
    for k in range(3):
        others = logits.clone()
        others[:, k] = -torch.inf
        level = (logits[:, k] - others.amax(1)).reshape(side, side).T
        axes.contour(xs, ys, level, levels=[0], colors="#40474f", linewidths=0.9)
    axes.set(xlim=extent[:2], ylim=extent[2:], aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color("#9aa2ab")


def chosen_point(points: Tensor, results: list[Radii]) -> int:
    """A sample whose four nearest wrong points lie well apart, far from the rim of the square."""
    found = torch.stack([r.x for r in results])
    apart = torch.stack([(a - b).norm(dim=1) for a in found for b in found if a is not b]).amin(0)
    size = torch.stack([r.radius for r in results]).amax(0)
    inner = ((points - size[:, None] > 0.02) & (points + size[:, None] < 0.98)).all(1)
    return int((apart / size * inner).argmax())


def picture(model: torch.nn.Module, points: Tensor, labels: Tensor, results: list[Radii]) -> plt.Figure:
    """Left: every fourth point with its l2 ball. Right: one point with the balls of all four metrics."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.4, 6.5), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.08)
    zero, one = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    regions(left, model, zero, one, side=700)
    l2 = next(r for r in results if r.metric == "l2")
    for k in range(3):
        for i in (labels == k).nonzero().squeeze(1).tolist()[::4]:
            outline = ball(points[i], float(l2.radius[i]), 2.0)
            left.add_patch(Polygon(outline, facecolor=POINTS[k], alpha=0.08, edgecolor="none"))
            left.add_patch(Polygon(outline, fill=False, edgecolor=POINTS[k], linewidth=1.1, alpha=0.9))
            left.plot(*points[i], "o", color=POINTS[k], markersize=4.2, markeredgewidth=0)
            left.plot(*l2.x[i], "o", color="#20262c", markersize=3, markeredgewidth=0)
    left.set_title(rf"{TEX['l2']} radius of every fourth point: circles that touch the decision boundary", fontsize=11)

    i = chosen_point(points, results)
    width = 1.3 * max(float(r.radius[i]) for r in results)
    regions(right, model, points[i] - width, points[i] + width, side=500)
    for r in results:
        outline = ball(points[i], float(r.radius[i]), METRICS[r.metric])
        ink = INK[r.metric]
        right.add_patch(Polygon(outline, facecolor=ink, alpha=0.06, edgecolor="none"))
        right.add_patch(Polygon(outline, fill=False, edgecolor=ink, linewidth=2))
        right.plot(
            *r.x[i], "o", color=ink, markersize=9, markeredgecolor="white", markeredgewidth=1.4, zorder=5,
            label=f"{TEX[r.metric]}  radius {float(r.radius[i]):.4f}",
        )  # fmt: skip
    right.plot(*points[i], "o", color=POINTS[int(labels[i])], markersize=8, markeredgecolor="white", zorder=5)
    right.legend(loc="upper left", fontsize=10, framealpha=0.92, edgecolor="#d5dae0")
    right.set_title("one point, four metrics: its largest ball without a misclassified point", fontsize=11)
    return figure


def curves(results: list[Radii]) -> plt.Figure:
    """Left: accuracy left at each radius. Right: how the answers compare with the search of the square."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.4, 4), layout="constrained")
    for r in results:
        ordered = r.radius[r.radius.isfinite()].sort().values
        share = 1 - torch.arange(len(ordered)) / len(r.radius)
        left.step(ordered, share, where="pre", color=INK[r.metric], linewidth=2, label=TEX[r.metric])
        excess = (r.ratio[r.ratio.isfinite()] - 1).abs().clamp(min=1e-9).sort().values
        right.plot(
            torch.linspace(0, 1, len(excess)), excess, color=INK[r.metric], linewidth=2, label=TEX[r.metric]
        )  # fmt: skip
    left.set(xlabel="distance", ylabel="share of points still classified right", xlim=(0, None), ylim=(0, 1.02))
    right.set(
        xlabel="share of points", ylabel="|radius / searched radius − 1|", yscale="log", xlim=(0, 1)
    )  # fmt: skip
    left.set_title("Robust accuracy by distance", fontsize=11)
    right.set_title("Distance to the brute-force answer (the steep end: other local minima)", fontsize=11)
    for axes in (left, right):
        axes.grid(color="#e3e7ec", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    return figure


def png(figure: plt.Figure, dpi: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()


# ---- report -----------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5b6570; --paper: #fbfbfa; --card: #fff;
  --line: #e1e5ea; --accent: #1b5fc1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa5b1; --paper: #15191d;
  --card: #1d2329; --line: #323a43; --accent: #7fb0f5; } }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 64rem; background: var(--paper);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; }
.soft, figcaption { color: var(--soft); font-size: .92rem; }
figure { margin: 1.25rem 0; }
img { width: 100%; border-radius: 8px; border: 1px solid var(--line); background: #fff; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .5rem .7rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
th { border-top: 0; color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
td:first-child { font-weight: 600; }
code { font-size: .92em; color: var(--accent); }
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f"<th scope='col'>{html.escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"


def image(data: bytes, caption: str) -> str:
    text = html.escape(caption, quote=True)
    source = base64.b64encode(data).decode()
    picture = f"<img alt='{text}' src='data:image/png;base64,{source}'>"
    return f"<figure>{picture}<figcaption>{text}</figcaption></figure>"


def counts(statuses: list[pwcf.Status]) -> str:
    tally = Counter(status.value for status in statuses)
    return ", ".join(f"{number} {name}" for name, number in tally.most_common())


def radius_rows(results: list[Radii]) -> list[list[str]]:
    rows = []
    for r in results:
        verified = r.run.adversarial
        ratio = r.ratio[verified]
        rows.append([
            r.metric, counts(r.run.status), f"{int(verified.sum())} of {len(verified)}",
            f"{r.radius[verified].mean():.4f}", f"{ratio.median():.6f}", f"{ratio.max():.3f}",
            str(int((ratio > 1.01).sum())), f"{r.run.passes.total.double().mean():.0f}", f"{r.run.seconds:.1f}",
        ])  # fmt: skip
    return rows


RADIUS_HEAD = [
    "metric", "ended", "verified", "mean radius", "median ratio", "worst ratio", "over 1 % above",
    "passes", "seconds",
]  # fmt: skip
KNOWN_HEAD = ["problem", "n", "optimum", "best error", "worst error", "violation", "ended", "evaluations"]


def known_rows(known: list[Known]) -> list[list[str]]:
    return [
        [
            k.problem.name + ("" if k.problem.convex else " †"), str(k.problem.n),
            f"{k.problem.optimum:.6g}", f"{k.excess.min():.1e}", f"{k.excess.max():.1e}",
            f"{k.solution.evidence.violation.max():.0e}", counts(k.solution.status),
            f"{k.solution.evaluations.double().mean():.0f}",
        ]
        for k in known
    ]  # fmt: skip


def report(facts: dict[str, str], results: list[Radii], known: list[Known], pictures: list[bytes]) -> str:
    e = html.escape
    count = len(results[0].radius)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>pwcf: three spirals</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>{STYLE}</style></head><body>
<h1>How far is each point from being misclassified?</h1>
<p>{e(facts["model"])} For {count} fresh points that it classifies right,
<code>pwcf.evaluate</code> looks for the nearest misclassified point in the unit square, in four metrics.
{e(facts["solved"])}</p>
{image(pictures[0], "Decision regions of the network, points, and the balls up to the nearest point found.")}
<h2>Radii</h2>
{table(RADIUS_HEAD, radius_rows(results))}
<p class="soft">Verified: the point lies in the square, the model called on it alone misclassifies it, and the
distance was computed anew. Ratio: verified radius over that of a brute-force search (a dense grid, then zooms),
possible here because the input has two dimensions. The problem is not convex: &ldquo;converged&rdquo; speaks of the
surroundings of the answer, and a ratio well above 1 is another, farther local minimum. Passes: forward and backward
passes for each point, everything included.</p>
{image(pictures[1], "Left: share of points whose radius is larger. Right: comparison with the search.")}
<h2>Problems with known answers</h2>
{table(KNOWN_HEAD, known_rows(known))}
<p class="soft">Five random starts each; † not convex. Error: (f &minus; f*) / max(1, |f*|); a small negative
number is a point within the feasibility tolerance. &ldquo;Stalled&rdquo; says that the evidence
does not reach the tolerance, whatever the error.</p>
<h2>This run</h2>
<p class="soft">{e(facts["run"])}</p>
</body></html>
"""


def say(head: list[str], rows: list[list[str]]) -> None:
    """An aligned table on the terminal."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  " + "  ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description="How far is each point from being misclassified?")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "out" / "spirals")
    parser.add_argument("--per-class", type=int, default=50, help="test points of each of the three classes")
    args = parser.parse_args()
    torch.set_num_threads(1)  # tiny matrices: threads would only wait for each other
    begin = time.perf_counter()

    train_x, train_y = spirals(400, seed=3)
    model = train(train_x, train_y, steps=500)
    points, labels = spirals(args.per_class, seed=4)
    right = model(points).argmax(1) == labels
    accuracy = float(right.double().mean())
    points, labels = points[right], labels[right]
    facts = {
        "model": "A ReLU network (2-48-48-3) was trained on three spirals; "
        f"it classifies {accuracy:.1%} of the fresh points right."
    }
    print(facts["model"])

    nearest = search(model, points, labels)
    results = []
    for metric, p in METRICS.items():
        run = pwcf.evaluate(model, points, labels, pwcf.MinRadius(metric), budget=BUDGET)
        results.append(Radii(metric, run, nearest(p)))
    facts["solved"] = (
        f"{len(points)} points, at most {BUDGET} passes each: {sum(r.run.seconds for r in results):.0f} seconds."
    )
    print("\nNearest misclassified point,", facts["solved"])
    say(RADIUS_HEAD, radius_rows(results))

    known = known_problems()
    print("\nProblems with known answers, five starts each († not convex):")
    say(KNOWN_HEAD, known_rows(known))

    args.out.mkdir(parents=True, exist_ok=True)
    pictures = [png(picture(model, points, labels, results), dpi=85), png(curves(results), dpi=100)]
    (args.out / "spirals.png").write_bytes(pictures[0])
    took = time.perf_counter() - begin
    facts["run"] = (
        f"pwcf {pwcf.__version__}, torch {torch.__version__}, Python {platform.python_version()}, float64, "
        f"one thread; {took:.0f} seconds in all. The numbers depend on the fixed seeds only, times excepted."
    )
    (args.out / "report.html").write_text(report(facts, results, known, pictures), "utf-8")
    print(f"\n{took:.0f} seconds in all.")


if __name__ == "__main__":
    main()
