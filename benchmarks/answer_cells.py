"""The cells of ``answers.py``: which runs are recorded, and what is kept of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from answer_differences import Content, name_of
from torch import Tensor

import pwcf

SEED = 0
IMAGES = (0, 1, 2, 3, 12)  # both networks are wrong about the last one
# Enough for all phases of a short search, and for all members of a preset. Long: for restarts, too.
BUDGET, PRESET_BUDGET, LONG_BUDGET = 150, 360, 600
PRESETS = ("standard", "paper")
# Between the radii of the images: some attacks succeed, some do not.
EPS: dict[str, dict[str, float]] = {
    "fashion-standard": {
        "l1": 4.0, "l2": 0.7, "linf": 0.05, "l1.5": 1.5, "smooth_l1": 4.0, "pd-self": 0.25, "ssim": 0.006, "l0": 20.0,
    },
    "fashion-l2": {
        "l1": 20.0, "l2": 2.5, "linf": 0.15, "l1.5": 5.0, "smooth_l1": 15.0, "pd-self": 0.3, "ssim": 0.04, "l0": 60.0,
    },
}  # fmt: skip
METRICS = ("l1", "l2", "linf", "l1.5", "smooth_l1")
QUESTIONS = ("min-radius", "max-loss")
# For the cases that are too many for every attack: one of each kind, by the names of before and after a renaming.
MAIN = ("lmn", "pwcf", "pwcf-folded", "apgd", "apgd-t", "fab", "square", "lpa", "alma")
# Smooth, kinked, folded, with equalities, with bounds, with a slack; float64 and every row from its own start.
PROBLEMS = (
    "maxq", "mxhilb", "chained_cb3_ii", "chained_crescent_i", "rosen_suzuki", "granso_rosenbrock", "chained_lq_folded",
    "chained_lq_equal", "active_faces_l1_sphere", "mad4", "projection_l1_ball", "classifier_l2",
    "classifier_linf_slack", "hs26", "hs71", "hs113", "spectral_norm", "lasso_box",
)  # fmt: skip
ITERATIONS = 60


def smooth_l1(reference: Tensor, candidate: Tensor) -> Tensor:
    """A general metric: smooth, and none that the package knows."""
    difference = (candidate - reference).flatten(1)
    return (torch.sqrt(difference.square() + 1e-4) - 1e-2).sum(1)


# ---- what is recorded ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One run: its place in the record, and the function that makes its content."""

    section: str
    attack: str
    """"" where there is none"""
    case: str
    make: Callable[[], Content]

    @property
    def name(self) -> str:
        return name_of(self.section, self.attack, self.case)


def cells() -> dict[str, Cell]:
    """All cells by name, in the order in which they are recorded."""
    every = [*_minimize(), *_training(), *_special(), *_attacks(), *_presets(), *_long()]
    return {cell.name: cell for cell in every}


def _main() -> list[str]:
    return [name for name in MAIN if name in pwcf.attacks.ATTACKS]


def _attacks() -> Iterator[Cell]:
    """Every attack on both questions in every metric."""
    for net in EPS:
        for name in pwcf.attacks.ATTACKS:
            for metric in METRICS:
                yield from _both("attacks", name, metric, net, budget=BUDGET)
    for name in pwcf.attacks.ATTACKS:
        for metric in ("pd-self", "l0"):
            yield from _both("attacks", name, metric, "fashion-standard", budget=BUDGET)


def _presets() -> Iterator[Cell]:
    for name in PRESETS:
        for metric in METRICS:
            yield from _both("presets", name, metric, "fashion-standard", budget=PRESET_BUDGET)
        yield from _both("presets", name, "l2", "fashion-l2", budget=PRESET_BUDGET)
        yield from _both("presets", name, "pd-self", "fashion-standard", budget=PRESET_BUDGET, images=2)


def _long() -> Iterator[Cell]:
    """Budgets with room for restarts and for a radius search."""
    for name in _main():
        for metric in ("l1", "l2", "linf"):
            yield from _both("long", name, metric, "fashion-l2", budget=LONG_BUDGET, images=2)


def _special() -> Iterator[Cell]:
    """One argument of ``evaluate`` at a time, by the attacks of each kind."""
    variants: dict[str, dict[str, Any]] = {
        "targeted": {"targeted": True},
        "masked": {"masked": True},
        "8-bit": {"eight_bit": True},
        "float64": {"dtype": torch.float64, "images": 2},
    }
    of_radii: dict[str, dict[str, Any]] = {
        "two rows a call": {"batch": 2, "images": 3},
        "another seed": {"seed": 1, "images": 3},
        "pixels up to 255, normalised": {"scale": 255.0, "images": 3},
    }
    for name in _main():
        for variant, settings in variants.items():
            yield from _both("special", name, "l2", "fashion-standard", variant, budget=BUDGET, **settings)
        for variant, settings in of_radii.items():
            yield _evaluation(
                "special", name, "min-radius", "l2", "fashion-standard", variant, budget=BUDGET, **settings
            )
        for variant, settings in (
            ("eps per sample", {"spread": True}),
            ("cross-entropy", {"loss": "ce"}),
            ("dlr", {"loss": "dlr"}),
        ):
            yield _evaluation("special", name, "max-loss", "linf", "fashion-l2", variant, budget=BUDGET, **settings)
        for variant in ("targeted", "masked", "8-bit"):
            settings = {"images": 2, **variants[variant]}
            for metric in ("linf", "smooth_l1"):
                yield _evaluation(
                    "special", name, "min-radius", metric, "fashion-l2", variant, budget=BUDGET, **settings
                )
        yield from _both("special", name, "ssim", "fashion-standard", budget=BUDGET, images=1)


def _both(section: str, attack: str, metric: str, net: str, variant: str = "", **settings: Any) -> Iterator[Cell]:
    for question in QUESTIONS:
        yield _evaluation(section, attack, question, metric, net, variant, **settings)


def _evaluation(
    section: str, attack: str, question: str, metric: str, net: str, variant: str = "", **settings: Any
) -> Cell:
    case = f"{question} {metric} {net}" + (f", {variant}" if variant else "")
    return Cell(section, attack, case, partial(evaluated, attack, question, metric, net, **settings))


def _minimize() -> Iterator[Cell]:
    for name in PROBLEMS:
        yield Cell("minimize", "", name, partial(minimized, name))
    for name in ("maxq", "hs71", "granso_rosenbrock"):
        yield Cell("minimize", "", f"{name}, float32", partial(minimized, name, dtype=torch.float32))
        yield Cell("minimize", "", f"{name}, published test", partial(minimized, name, test="published"))
        yield Cell("minimize", "", f"{name}, L-BFGS", partial(minimized, name, hessian="lbfgs", memory=5))
        yield Cell("minimize", "", f"{name}, restarts", partial(minimized, name, restarts=True))
        yield Cell("minimize", "", f"{name}, one slot and a budget", partial(minimized, name, slots=1, budget=40))
    yield Cell("minimize", "", "maxq, 300 variables", partial(minimized, "maxq", size={"n": 300}))


def _training() -> Iterator[Cell]:
    for metric in (None, "l1", "l2", "linf", "smooth_l1", "pd-self"):
        yield Cell("training", "", metric or "standard", partial(trained, metric))


# ---- the runs --------------------------------------------------------------------------------------


@cache
def _zoo(net: str) -> torch.nn.Module:
    return pwcf.zoo.load_network(net)


def _metric(name: str) -> Any:
    return smooth_l1 if name == "smooth_l1" else name


def evaluated(
    attack: str,
    question: str,
    metric: str,
    net: str,
    *,
    images: int = len(IMAGES),
    targeted: bool = False,
    masked: bool = False,
    spread: bool = False,
    loss: str = "margin",
    dtype: torch.dtype = torch.float32,
    scale: float = 1.0,
    **settings: Any,
) -> Content:
    """``pwcf.evaluate`` of one attack or preset.

    ``spread``: every sample has an eps of its own. ``scale``: of the pixels, undone by the classifier's normalisation.
    """
    every, labels = pwcf.zoo.load_images()
    rows = list(IMAGES)[:images]
    x, y = every[rows].to(dtype) * scale, labels[rows]
    model: Any = _zoo(net) if dtype == torch.float32 else pwcf.zoo.load_network(net).to(dtype)
    if scale != 1:
        model = pwcf.Classifier(model, (0.0, scale), mean=0.0, std=scale)
    if targeted:
        y = (y + 1) % 10
    if masked:
        mask = torch.zeros_like(x[0], dtype=torch.bool)
        mask[..., 6:22, 4:24] = True
        settings["mask"] = mask
    problem: Any = pwcf.MinRadius(_metric(metric), targeted=targeted)
    if question == "max-loss":
        eps = EPS[net][metric] * scale
        each = eps * torch.linspace(0.5, 1.5, len(rows), dtype=torch.float64) if spread else eps
        problem = pwcf.MaxLoss(_metric(metric), each, loss, targeted=targeted)
    settings = {"seed": SEED, **settings}
    return content_of_run(pwcf.evaluate(model, x, y, problem, attacks=attack, **settings))


def content_of_run(run: Any) -> Content:
    fields: Content = {name: digest(getattr(run, name)) for name in ("x_adv", "radius", "adversarial")}
    fields["status"] = [each.value for each in run.status]
    fields.update({f"evidence.{name}": digest(value) for name, value in vars(run.evidence).items()})
    if hasattr(run, "loss"):
        fields["loss"] = digest(run.loss)
    if hasattr(run, "attack"):
        fields["attack"] = list(run.attack)
    passes = {"forward": run.passes.forward.tolist(), "backward": run.passes.backward.tolist()}
    if hasattr(run, "metric_passes"):
        passes["metric forward"] = run.metric_passes.forward.tolist()
        passes["metric backward"] = run.metric_passes.backward.tolist()
    return {"fields": fields, "passes": passes, "radius": rounded(run.radius)}


def minimized(
    name: str,
    *,
    dtype: torch.dtype = torch.float64,
    restarts: bool = False,
    size: Mapping[str, int] | None = None,
    **settings: Any,
) -> Content:
    """``pwcf.minimize`` from three starts; ``evaluations`` are its passes."""
    problem = pwcf.testproblems.get(name, **(size or {}))
    starts = problem.starts(3, SEED, dtype)
    if restarts:
        settings["restarts"] = pwcf.Restarts(pwcf.noisy_starts(starts, 3, 0.5, SEED), iterations=5)
    solution = pwcf.minimize(
        problem.objective, starts, problem.constraints, bounds=problem.bounds, max_iterations=ITERATIONS, **settings
    )
    fields: Content = {name: digest(getattr(solution, name)) for name in ("x", "objective")}
    fields["status"] = [each.value for each in solution.status]
    fields["iterations"] = solution.iterations.tolist()
    fields.update({f"evidence.{name}": digest(value) for name, value in vars(solution.evidence).items()})
    passes = {"evaluations": solution.evaluations.tolist()}
    return {"fields": fields, "passes": passes, "objective": rounded(solution.objective)}


def trained(metric: str | None) -> Content:
    """Two epochs of ``pwcf.training.train`` from the weights of a network of the zoo."""
    images, labels = pwcf.zoo.load_images()
    net = pwcf.zoo.load_network("fashion-standard")
    problem = None if metric is None else pwcf.MaxLoss(_metric(metric), EPS["fashion-standard"][metric], "ce")
    log = pwcf.training.train(
        net, images[:24], labels[:24], problem, epochs=2, batch=10, lr=1e-3, inner_steps=4, seed=SEED
    )
    weights = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        weights.update(f"{name} {digest(value)}".encode())
    losses = [float(epoch.loss) for epoch in log.epochs]
    fields = {"weights": weights.hexdigest(), "epochs": [loss.hex() for loss in losses]}
    return {"fields": fields, "passes": {}, "loss": [float(f"{loss:.6g}") for loss in losses]}


def digest(value: Any) -> str:
    """SHA-256 of dtype, shape and bytes of a tensor; of anything else, of its text."""
    if not isinstance(value, Tensor):
        return hashlib.sha256(repr(value).encode()).hexdigest()
    array = value.detach().cpu().contiguous().numpy()
    head = f"{array.dtype.str} {tuple(array.shape)} "
    return hashlib.sha256(head.encode() + array.tobytes()).hexdigest()


def rounded(values: Tensor) -> list[float | str]:
    """For readers. Infinity is no number of JSON."""
    return [float(f"{v:.6g}") if np.isfinite(v) else str(v) for v in values.detach().double().cpu().tolist()]
