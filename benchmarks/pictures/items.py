"""What the gallery shows: the figures with what they say and their commands, and the runs they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pictures.ablations import ABLATIONS

OUT = Path("out") / "gallery"
# One small robust network for what takes many runs, and a standard one on which every attack succeeds, as the paper
# takes for sparsity.
ROBUST, STANDARD, LARGE = "cifar10_cnn_a_adv", "cifar10_sgd_8px", "imagenet_efficientnet_lite0"
EPS = {"l1": "12", "l2": "0.5", "linf": "8/255"}
# Of Fashion-MNIST, whose images may be shown.
SHOWN = "fmnist_kw_linf01"
EPS_SHOWN = {"l1": "10", "l2": "1.5", "linf": "0.2"}
ATTACKS = ("apgd-ce", "apgd-margin", "pwcf-ce", "lmn")


@dataclass(frozen=True)
class Figure:
    """One of the gallery."""

    name: str
    """of its file"""
    title: str
    says: str
    """what is to be seen, and which figure of the paper it is"""
    command: Sequence[str]
    """of pwcf, without the output; or of a script, if it begins with python"""
    runs: Sequence[str] = ()
    """names of the runs it needs"""


def run(model: str, data: str, limit: int, **said: object) -> list[str]:
    words = ["run", "--model", f"benchmarks/realdata_models.py:{model}", "--data", str(OUT / f"{data}.npz")]
    words += ["--limit", str(limit), "--threads", "1"]
    return words + [text for name, value in said.items() for text in (f"--{name}", str(value))]


def all_runs() -> dict[str, list[str]]:
    """Command lines by the names of their folders."""
    found: dict[str, list[str]] = {}
    for metric in ("l1", "l2", "linf"):
        for attack in ("lmn", "fab"):
            found[f"radius-{metric}-{attack}"] = run(ROBUST, "cifar10", 100, metric=metric, attacks=attack, budget=2000)
        for attack in ("lmn", "fab", "pwcf"):
            # One sample at a time: each has its own seconds. The budget is a common setting, lmn's the default.
            most = {} if attack == "lmn" else {"budget": 2000}
            found[f"until-{metric}-{attack}"] = run(
                ROBUST, "cifar10", 40, metric=metric, attacks=attack, chunk=1, **most
            )
        for attack in ATTACKS:
            loss = "ce" if attack.endswith("ce") else "margin"
            found[f"loss-{metric}-{attack}"] = run(
                STANDARD, "cifar10", 100, question="max-loss", metric=metric, eps=EPS[metric], loss=loss,
                attacks=attack, budget=400,
            )  # fmt: skip
            if attack != "pwcf-ce":
                found[f"boot-loss-{metric}-{attack}"] = run(
                    SHOWN, "fashion_mnist", 1, question="max-loss", metric=metric, eps=EPS_SHOWN[metric], loss=loss,
                    attacks=attack, budget=400,
                )  # fmt: skip
        for attack in ("lmn", "fab"):
            found[f"boot-radius-{metric}-{attack}"] = run(
                SHOWN, "fashion_mnist", 1, metric=metric, attacks=attack, budget=2000
            )
        for model in (STANDARD, "cifar10_cnn_a_mix4", "cifar10_kw_l2_36"):
            found[f"model-{metric}-{model}"] = run(model, "cifar10", 100, metric=metric, budget=600)
    for p in ("l1.5", "l8"):
        found[f"radius-{p}-lmn"] = run(ROBUST, "cifar10", 60, metric=p, budget=2000)
    for attack in ("apgd-ce", "lmn"):
        found[f"within-l2-{attack}"] = run(
            ROBUST, "cifar10", 100, question="max-loss", metric="l2", eps="0.5", loss="ce", attacks=attack, budget=1000
        )
    found["radius-pd"] = run(LARGE, "imagenet80", 12, metric="pd", budget=200, chunk=1)
    return found


UNTIL = [f"until-{metric}-{attack}" for attack in ("fab", "pwcf", "lmn") for metric in EPS]
RADII = ("radius-l1-lmn", "radius-l2-lmn", "radius-linf-lmn")
LOSSES = [f"loss-{metric}-{attack}" for metric in EPS for attack in ATTACKS]
BOTH = [f"radius-{metric}-{attack}" for metric in EPS for attack in ("fab", "lmn")]
BOOT_LOSS = [f"boot-loss-{metric}-{attack}" for metric in EPS for attack in ("apgd-ce", "apgd-margin", "lmn")]
BOOT_RADIUS = [f"boot-radius-{metric}-{attack}" for metric in EPS for attack in ("fab", "lmn")]
MODELS = [f"model-{m}-{model}" for m in EPS for model in (STANDARD, "cifar10_cnn_a_mix4", "cifar10_kw_l2_36")]

FIGURES = [
    Figure(
        "best-found",
        "When an attack has found its best point",
        "The paper's first figure, for APGD (max-loss) and FAB (min-radius): where the best of all points came. A cap "
        "on iterations to the left of many bars is an arbitrary stop. The searches of the run are done again, watched.",
        ["figure", "best-found", "--samples", "40", "--trust"],
        ["within-l2-apgd-ce", "radius-l2-fab"],
    ),
    Figure(
        "termination",
        "How many passes until a search ends",
        "The paper's histograms of termination iterations, in forward and backward passes. FAB ends where its budget "
        "does. PWCF ends by its solver's own test, here nearly always stalled: no step helps any more, but it is not "
        "stationary to the tolerance. lmn ends a sample when its search has converged, at most after 10,000 passes.",
        ["figure", "termination"],
        UNTIL,
    ),
    Figure(
        "termination-seconds",
        "How long a search takes",
        "The paper's histograms of termination time, of the same searches; every sample was run alone, on one "
        "core of a machine that was busy otherwise.",
        ["figure", "termination", "--by", "seconds"],
        UNTIL,
    ),
    Figure(
        "trajectories",
        "How two attacks search one sample",
        "The paper's trajectories, here of FAB and lmn: above the distance of every point that was asked about (thin) "
        "and of the best misclassified one so far (thick), below how far points are from being misclassified.",
        ["figure", "trajectories", "--sample", "1", "--trust"],
        ["radius-l2-fab", "radius-l2-lmn"],
    ),
    Figure(
        "trajectories-max-loss",
        "How two attacks search one sample, max-loss",
        "The same for APGD and lmn with cross-entropy within l2 0.5: above the loss, below by how much points are "
        "farther than eps. lmn asks for the nearest misclassified point and ends when it is within eps.",
        ["figure", "trajectories", "--sample", "1", "--trust"],
        ["within-l2-apgd-ce", "within-l2-lmn"],
    ),
    *(
        Figure(each.name, each.title, each.says, ["python", "benchmarks/gallery.py", "--only", each.name])
        for each in ABLATIONS
    ),
    Figure(
        "loss-clipping",
        "Losses and their clipped forms",
        "The paper's figure of loss clipping: values above, slopes below.",
        ["figure", "loss-clipping"],
    ),
    Figure(
        "radius-comparison",
        "Radii of two attacks, sample by sample",
        "The paper's comparison with FAB, here of lmn: above FAB's radii, sorted; below by how much lmn's differ.",
        ["figure", "comparison"],
        BOTH,
    ),
    Figure(
        "radii-by-sample",
        "Radii in l1.5, l2 and l8",
        "The paper's check that general l_p radii are sound: for every sample they must fall with p.",
        ["figure", "by-sample"],
        ["radius-l1.5-lmn", "radius-l2-lmn", "radius-l8-lmn"],
    ),
    Figure(
        "radii-pd",
        "Radii in a perceptual distance, against the usual eps",
        "The paper's figure of PD radii: 0.5, the customary bound, is far beyond all of them.",
        ["figure", "radii", "--eps", "0.5"],
        ["radius-pd"],
    ),
    Figure(
        "eps-against-radii",
        "l1 radii, and what the customary eps makes of them",
        "The paper's histogram: nearly every radius is below eps = 12, so robust accuracy there tells very little.",
        ["figure", "radii", "--eps", "12"],
        ["radius-l1-lmn"],
    ),
    Figure(
        "patterns-max-loss",
        "Perturbations of one image, max-loss",
        "The paper's pattern images: rows of pictures with histograms of magnitudes, by distance, loss and attack.",
        ["figure", "perturbations", "--sample", "0"],
        BOOT_LOSS,
    ),
    Figure(
        "patterns-min-radius",
        "Perturbations of the same image, min-radius",
        "The same for the nearest misclassified points that FAB and lmn find.",
        ["figure", "perturbations", "--sample", "0"],
        BOOT_RADIUS,
    ),
    Figure(
        "magnitudes",
        "How large the entries of perturbations are",
        "Over all samples: l1 moves few entries far, linf moves all of them by the same little.",
        ["figure", "magnitudes"],
        RADII,
    ),
    Figure(
        "sparsity-max-loss",
        "Sparsity of solutions, max-loss",
        "The paper's histograms of ||d||_1 / ||d||_2 on a network without adversarial training, by distance, loss "
        "and attack.",
        ["figure", "sparsity"],
        LOSSES,
    ),
    Figure(
        "sparsity-min-radius",
        "Sparsity of solutions, min-radius",
        "The shift from sparse (l1) to dense (linf).",
        ["figure", "sparsity"],
        BOTH,
    ),
    Figure(
        "accuracy-curves",
        "Robust accuracy at every eps",
        "Why one eps misleads: which network is more robust changes with it (rings) and with the distance.",
        ["figure", "accuracy"],
        MODELS,
    ),
    Figure(
        "cross-metric",
        "Networks by distances",
        "Trained for one distance, measured in others: median radii.",
        ["figure", "cross-metric"],
        MODELS,
    ),
    Figure(
        "agreement",
        "Who breaks what",
        "The attacks of the sparsity figure within l2 0.5 on the standard network at 400 passes.",
        ["figure", "agreement"],
        [f"loss-l2-{attack}" for attack in ATTACKS],
    ),
]  # fmt: skip
