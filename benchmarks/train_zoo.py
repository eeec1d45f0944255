"""Train the networks of the embedded zoo as their recipes say, and measure them.

    OMP_NUM_THREADS=1 python benchmarks/train_zoo.py --data FOLDER              # all, beside the documented figures
    OMP_NUM_THREADS=1 python benchmarks/train_zoo.py --data FOLDER --nets fashion-l1 --out out/zoo
    python benchmarks/train_zoo.py --data FOLDER --out out/zoo --install        # into src/pwcf/zoo

FOLDER holds the four files of Fashion-MNIST (the Debian package dataset-fashion-mnist has them). Networks that --out
has already are not trained again. On one thread a training repeats itself bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import pwcf
from pwcf import zoo
from pwcf.data import open_data
from pwcf.training import Epoch, WorstPoints, train, worst_points

REPOSITORY = Path(__file__).resolve().parents[1]
SHIPPED = REPOSITORY / "src" / "pwcf" / "zoo" / "files"
TABLE = REPOSITORY / "docs" / "benchmarks" / "train_zoo.md"
# Every network is asked about every metric, at the eps that the zoo trains for.
EPS = {recipe.metric: recipe.eps for recipe in zoo.RECIPES.values() if recipe.metric is not None}
# How good inner solutions are is looked at on so many training images, against so many steps and the best of so many
# starts.
LOOKED_AT, LONG, STARTS = 500, 100, 5
PAGE = """# The networks of the zoo

Made by `OMP_NUM_THREADS=1 python benchmarks/train_zoo.py --data FOLDER --install`, on the 60,000 training images of
Fashion-MNIST; the recipes are in `src/pwcf/zoo/networks.py`. Clean accuracy in percent on the 10,000 test images and on
the 200 embedded ones, their first; robust accuracy on the 200, by `pwcf.evaluate` with `MaxLoss` at the eps that the
zoo trains for, 2000 passes. Weights are those that are shipped, in half precision. CPU minutes of one core that others
used too.

"""
# Robust accuracies on other machines: an attack that rounds differently breaks a few samples more or fewer, of 200.
TOLERANCE = 0.02


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)  # sums in a fixed order: the same bits every time
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.nets:
        if not known(args.out, name):
            train_one(name, args.data, args.out)
    cards = {name: measured(name, args.data, args.out) for name in args.nets}
    text = "\n\n".join(
        [table(cards, args.out), inner_table(args.nets, args.data, args.out), digests(args.nets, args.out)]
    )
    print(text)
    if args.install:
        install(cards, args.out)
        TABLE.write_text(PAGE + text + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the IDX files of Fashion-MNIST")
    parser.add_argument("--nets", nargs="+", default=zoo.names(), choices=zoo.names(), metavar="NET")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "out" / "zoo", help="where weights and logs go")
    parser.add_argument("--install", action="store_true", help="write weights and cards of all nets into the package")
    args = parser.parse_args()
    if args.install and args.nets != zoo.names():
        parser.error("--install writes all networks; leave out --nets")
    return args


def samples(data: Path, part: str) -> tuple[Tensor, Tensor]:
    source = open_data(str(data / f"{part}-images-idx3-ubyte.gz"))
    return source.read(0, len(source))


def known(out: Path, name: str) -> bool:
    """Whether it is there already, by the recipe of today."""
    log = out / f"{name}.json"
    return log.is_file() and json.loads(log.read_text())["recipe"] == asdict(zoo.RECIPES[name])


def train_one(name: str, data: Path, out: Path) -> None:
    recipe = zoo.RECIPES[name]
    images, labels = samples(data, "train")
    torch.manual_seed(recipe.seed)
    network = zoo.make(recipe.architecture)
    problem = None if recipe.metric is None or recipe.eps is None else pwcf.MaxLoss(recipe.metric, recipe.eps)
    epochs: list[dict[str, Any]] = []

    def on_epoch(epoch: Epoch) -> None:
        epochs.append(asdict(epoch))
        robust = "" if epoch.robust_accuracy is None else f", worst {epoch.robust_accuracy:.3f}"
        print(
            f"{name} {epoch.number}/{recipe.epochs}: loss {epoch.loss:.4f}, clean {epoch.clean_accuracy:.3f}{robust}, "
            f"{epoch.seconds:.0f} s",
            flush=True,
        )

    began = time.process_time()
    train(
        network, images, labels, problem,
        epochs=recipe.epochs, batch=recipe.batch, lr=recipe.lr, inner_steps=recipe.inner_steps, seed=recipe.seed,
        on_epoch=on_epoch,
    )  # fmt: skip
    half = {key: value.to(torch.float16) for key, value in network.state_dict().items()}
    save_file(half, out / f"{name}.safetensors")
    log = {"recipe": asdict(recipe), "epochs": epochs, "cpu_seconds": time.process_time() - began}
    (out / f"{name}.json").write_text(json.dumps(log, indent=1) + "\n")


def loaded(name: str, out: Path) -> nn.Module:
    """The weights that are shipped: those in half precision."""
    network = zoo.make(zoo.RECIPES[name].architecture).eval()
    stored = load_file(out / f"{name}.safetensors")
    network.load_state_dict({key: value.to(torch.float32) for key, value in stored.items()})
    return network


def measured(name: str, data: Path, out: Path) -> dict[str, Any]:
    """The network's card."""
    network = loaded(name, out)
    images, labels = samples(data, "t10k")
    few, their = zoo.load_images()
    assert torch.equal(few, images[:200])
    assert torch.equal(their, labels[:200])
    robust = {
        metric: pwcf.evaluate(network, few, their, pwcf.MaxLoss(metric, eps)).robust_accuracy
        for metric, eps in EPS.items()
    }
    return {
        "name": name,
        "recipe": asdict(zoo.RECIPES[name]),
        "clean_accuracy": accuracy(network, images, labels),
        "clean_accuracy_200": accuracy(network, few, their),
        "robust_accuracy_200": {metric: round(share, 6) for metric, share in robust.items()},
        "eps": EPS,
        "tolerance": TOLERANCE,
        "made_with": {
            "pwcf": pwcf.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "attack": "pwcf, default budget, seed 0",
        },
    }


def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        said = torch.cat([network(some).argmax(1) for some in images.split(500)])
    return round(int((said == labels).sum()) / len(labels), 6)


def table(cards: dict[str, dict[str, Any]], out: Path) -> str:
    """Markdown; in brackets what the package documents, where that differs."""
    robust = [f"robust, {metric} {eps:g}" for metric, eps in EPS.items()]
    heads = ["network", "trained for", "clean, 10,000", "clean, 200", *robust, "CPU min"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, found in cards.items():
        said = documented(name)
        figures = [
            beside(found["clean_accuracy"], said and said.clean_accuracy),
            beside(found["clean_accuracy_200"], said and said.clean_accuracy_200),
            *(beside(found["robust_accuracy_200"][m], said and said.robust_accuracy_200.get(m)) for m in EPS),
        ]
        recipe = zoo.RECIPES[name]
        goal = "nothing" if recipe.metric is None else f"{recipe.metric} {recipe.eps:g}"
        minutes = json.loads((out / f"{name}.json").read_text())["cpu_seconds"] / 60
        lines.append(f"| `{name}` | {goal} | {' | '.join(figures)} | {minutes:.1f} |")
    return "\n".join(lines)


def inner_table(names: list[str], data: Path, out: Path) -> str:
    """Mean cross-entropy at the images, after the steps that training takes, and after many more."""
    images, labels = (each[:LOOKED_AT] for each in samples(data, "train"))
    lines = [
        f"How good the inner solutions are, for the final weights: mean cross-entropy of {LOOKED_AT} training images.",
        "",
        f"| network | images | inner steps of training | {LONG} steps, best of {STARTS} starts | gain reached |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        recipe = zoo.RECIPES[name]
        if recipe.metric is None or recipe.eps is None:
            continue
        classifier, metric = pwcf.Classifier(loaded(name, out)), pwcf.metrics.as_metric(recipe.metric)
        eps = torch.full((LOOKED_AT,), recipe.eps, dtype=torch.float64)

        def climb(steps: int, seed: int) -> WorstPoints:
            generator = torch.Generator().manual_seed(seed)
            return worst_points(classifier, images, labels, metric, eps, steps=steps, generator=generator)  # noqa: B023

        short = climb(recipe.inner_steps, 0)
        best = torch.stack([climb(LONG, seed).loss for seed in range(STARTS)]).amax(0).mean()
        clean, reached = short.clean_loss.mean(), short.loss.mean()
        share = (reached - clean) / (best - clean)
        lines.append(f"| `{name}` | {clean:.4f} | {reached:.4f} | {best:.4f} | {share:.1%} |")
    return "\n".join(lines)


def digests(names: list[str], out: Path) -> str:
    found = {name: hashlib.sha256((out / f"{name}.safetensors").read_bytes()).hexdigest() for name in names}
    return "\n".join(
        ["| weights | SHA-256 |", "|---|---|", *(f"| {name} | `{each}` |" for name, each in found.items())]
    )


def beside(found: float, said: float | None) -> str:
    return f"{100 * found:.2f}" + ("" if said in (None, found) else f" [{100 * said:.2f}]")


def documented(name: str) -> zoo.Card | None:
    try:
        return zoo.card(name)
    except (FileNotFoundError, KeyError):
        return None


def install(cards: dict[str, dict[str, Any]], out: Path) -> None:
    for name in cards:
        target = SHIPPED / f"{name}.safetensors"
        target.write_bytes((out / f"{name}.safetensors").read_bytes())
        os.chmod(target, 0o644)
    (SHIPPED / "cards.json").write_text(json.dumps(cards, indent=1) + "\n")
    print(f"installed into {SHIPPED.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
