"""``pwcf train``: adversarial training in any metric, weights into a file."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pwcf._common.text import parse_fraction
from pwcf._common.wording import eps_text
from pwcf.cli.console import INTERRUPTED, CommandError, Json, print_json, user_code

if TYPE_CHECKING:
    from torch import Tensor

    from pwcf.models import Classifier
    from pwcf.problems import MaxLoss
    from pwcf.training import Epoch, TrainingLog

HELP = """Train a model to be robust within eps, in any metric; without --metric and --eps, plain training.

After every epoch the weights are written to OUT, and how it went to a JSON file beside them. \
Ctrl-C keeps the last whole epoch.
"""
WEIGHTS = ".safetensors"
FIXED = (".pt2", ".onnx")
"""files that hold a program made for inference: its batch norm and dropout cannot be put in train mode"""
NAMED = ("torchvision:", "hf:")
"""data that has parts: of these the training part is taken"""

Model = Annotated[str, typer.Option(help="zoo:cnn, file.py:callable, timm:NAME, ...; trained from the weights it has.")]
Data = Annotated[str, typer.Option(help="FILE-images-idx3-ubyte.gz, file.npz, a folder of images, ...")]
Out = Annotated[Path, typer.Option(help="The file of weights to write, .safetensors; the log is the same with .json.")]
Metric = Annotated[str | None, typer.Option(help="linf, l2, l1, l1.5, ssim, ... (pwcf metrics), or module:function.")]
Eps = Annotated[str | None, typer.Option(help="A number, or a fraction such as 8/255.", metavar="NUMBER")]
Epochs = Annotated[int, typer.Option(help="Times that all images are seen.")]
Batch = Annotated[int, typer.Option(help="Images a step.")]
Rate = Annotated[float, typer.Option(help="The largest learning rate.")]
Inner = Annotated[int, typer.Option(help="Gradient steps of the inner problem.")]
Seed = Annotated[int, typer.Option(help="Of all randomness, new weights included.")]
Weights = Annotated[Path | None, typer.Option(help="State dict to begin with, .safetensors or .pt.")]
Limit = Annotated[int | None, typer.Option(help="Only the first so many samples.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
Threads = Annotated[int | None, typer.Option(help="Of torch. With 1 the same command gives the same bits.")]
Force = Annotated[bool, typer.Option("--force", help="Write over files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress; the result alone.")]


def add_to(app: typer.Typer) -> None:
    app.command("train", help=HELP)(_command)


def _command(
    model: Model,
    data: Data,
    out: Out,
    metric: Metric = None,
    eps: Eps = None,
    epochs: Epochs = 15,
    batch: Batch = 128,
    lr: Rate = 2e-3,
    inner_steps: Inner = 7,
    seed: Seed = 0,
    weights: Weights = None,
    limit: Limit = None,
    device: Device = "cpu",
    threads: Threads = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    out = out.expanduser()
    _check_places(out, force)
    radius = _number(eps)
    if (metric is None) != (radius is None):
        alone = "--eps" if metric is None else "--metric"
        raise CommandError(f"--metric, --eps: expected both or neither, found {alone} alone")
    for name, value in (("--limit", limit), ("--threads", threads)):
        if value is not None and value < 1:
            raise CommandError(f"{name}: expected an integer > 0, found {value}")

    if not -(2**63) <= seed < 2**63:
        raise CommandError(f"--seed: expected an integer of 64 bits, found {seed}")
    if (ending := Path(model).suffix.lower()) in FIXED:
        raise CommandError(
            f"--model: expected one that can be trained, found {Path(model).name}; a {ending} file is a program with "
            "fixed weights: name the code that makes the network, file.py:callable"
        )

    import torch

    from pwcf.training import train

    if threads is not None:
        torch.set_num_threads(threads)
    # What the user's own code prints is not the result.
    with user_code():
        problem = _problem(metric, radius)
        classifier, about = _classifier(model, weights, device, seed)
        images, labels, source = _samples(data, limit, classifier.bounds)
    record = _Record(
        out,
        {
            "model": about,
            "data": source,
            "samples": len(images),
            "metric": metric,
            "eps": radius,
            "settings": {"epochs": epochs, "batch": batch, "lr": lr, "inner_steps": inner_steps, "seed": seed},
        },
        classifier,
    )
    try:
        with user_code(), _progress(not (quiet or as_json), epochs) as on_batch:
            log = train(
                classifier, images, labels, problem,
                epochs=epochs, batch=batch, lr=lr, inner_steps=inner_steps, seed=seed,
                on_batch=on_batch, on_epoch=record.add,
            )  # fmt: skip
    except KeyboardInterrupt:
        typer.echo(f"pwcf: interrupted; {record.kept()}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except FloatingPointError as error:
        raise CommandError(f"{error}; {record.kept()}") from error
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    again = _how_to_evaluate(model, out, metric, radius)
    if as_json:
        print_json({"out": str(out), "evaluate": again, **record.content})
        return
    if problem is not None and radius is not None:
        log.problem = f"adversarial training, {problem.metric.name} within {_eps_words(radius)}"
    _print(log, out, again)


WIDE = 140
"""columns that a terminal needs for the whole line"""


@contextmanager
def _progress(wanted: bool, epochs: int) -> Iterator[Callable[[Epoch, float], None] | None]:
    """A line on a terminal, nothing elsewhere. Yields what ``train`` calls after every batch."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    out = Console(stderr=True)
    wide = [BarColumn(), TimeElapsedColumn()] if out.width >= WIDE else []
    ends = [TextColumn("{task.fields[figures]}"), TextColumn("left"), TimeRemainingColumn()]
    with Progress(TextColumn("{task.description}"), *wide, *ends, console=out) as bar:
        task = bar.add_task(f"epoch 1/{epochs}", total=epochs, figures="")

        def on_batch(epoch: Epoch, share: float) -> None:
            robust = "" if epoch.robust_accuracy is None else f", robust {epoch.robust_accuracy:.1%}"
            bar.update(
                task,
                completed=epoch.number - 1 + share,
                description=f"epoch {epoch.number}/{epochs}",
                figures=f"loss {epoch.loss:.3f}, clean {epoch.clean_accuracy:.1%}{robust}",
            )

        yield on_batch


class _Record:
    """Weights and log on disk, whole, after every epoch."""

    def __init__(self, out: Path, content: dict[str, Any], classifier: Classifier) -> None:
        import torch

        from pwcf.runs.header import Environment

        self.out, self.classifier = out, classifier
        self.content: dict[str, Any] = {
            **content,
            "epochs": [],
            "complete": False,
            "made": asdict(Environment.current(torch.get_num_threads())),
        }

    def add(self, epoch: Epoch) -> None:
        from safetensors.torch import save_file
        from torch import nn

        from pwcf._common.atomic import write

        assert isinstance(self.classifier.model, nn.Module)
        held = self.classifier.model.state_dict()
        # Copies: tensors that share memory, tied weights, are more than the format can say.
        state = {name: value.detach().cpu().contiguous().clone() for name, value in held.items()}
        write(self.out, lambda path: _saved(path, lambda: save_file(state, path)))
        self.content["epochs"].append(asdict(epoch))
        self.content["complete"] = epoch.number == self.content["settings"]["epochs"]
        write(_log_of(self.out), lambda path: path.write_text(json.dumps(self.content, indent=1) + "\n", "utf-8"))

    def kept(self) -> str:
        done, asked = len(self.content["epochs"]), self.content["settings"]["epochs"]
        if not done:
            return "the first epoch was not complete, nothing was written"
        return f"the weights of epoch {done} of {asked} are in {self.out}"


def _saved(path: Path, save: Callable[[], None]) -> None:
    """What the format's library says against a file, as the system says it: ``write`` has the sentences."""
    from safetensors import SafetensorError

    try:
        save()
    except SafetensorError as error:
        # Its number is in the text alone: "... (os error 28)".
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else 0, str(error), str(path)) from error


def _log_of(out: Path) -> Path:
    return out.with_suffix(".json")


def _check_places(out: Path, force: bool) -> None:
    if out.suffix.lower() != WEIGHTS:
        raise CommandError(f"--out: expected a file that ends in {WEIGHTS}, found {out.name}")
    for path in (out, _log_of(out)):
        if path.is_dir() or (path.exists() and not force):
            raise CommandError(f"{path}: exists already; --force writes over files")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out: {out.parent} cannot be made: {error.strerror}") from error
    probe = out.with_name(f".{out.name}.{os.getpid()}.probe")
    try:
        probe.write_bytes(b"\0")
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"--out: {out.parent} cannot be written to: {error.strerror}; choose another place"
        ) from error


def _number(eps: str | None) -> float | None:
    if eps is None:
        return None
    number = parse_fraction(eps)
    if not 0 <= number < math.inf:
        raise CommandError(f"--eps: expected a number >= 0, or a fraction like 8/255, found {eps!r}")
    return number


def _problem(metric: str | None, eps: float | None) -> MaxLoss | None:
    from pwcf.problems import MaxLoss
    from pwcf.runs.resolve import resolve_metric

    if metric is None or eps is None:
        return None
    try:
        return MaxLoss(resolve_metric(metric), eps)
    except (ImportError, FileNotFoundError, ValueError) as error:
        raise CommandError(f"--metric: {error}") from error


def _classifier(spec: str, weights: Path | None, device: str, seed: int) -> tuple[Classifier, str]:
    """The model and its line for the log. An architecture of the zoo begins with random weights."""
    import torch

    from pwcf import zoo
    from pwcf.models import Classifier
    from pwcf.models.loading import load_model
    from pwcf.runs.resolve import check_device

    check_device(device, "--device")
    torch.manual_seed(seed)
    prefix, _, name = spec.partition(":")
    if prefix == "zoo" and name in zoo.architectures() and weights is None:
        return Classifier(zoo.make(name).to(device)), f"{spec}, random weights"
    loaded = load_model(spec, weights=weights, device=device)
    return loaded.classifier, loaded.about


def _samples(spec: str, limit: int | None, bounds: tuple[float, float]) -> tuple[Tensor, Tensor, str]:
    """All of them: they are seen in random order, again and again."""
    from pwcf.data import open_data

    part = {"split": "train"} if spec.startswith(NAMED) else {}
    source = open_data(spec, bounds=bounds, **part)  # type: ignore[arg-type]
    images, labels = source.read(0, min(len(source), limit or len(source)))
    return images, labels, source.about


def _how_to_evaluate(model: str, out: Path, metric: str | None, eps: float | None) -> str:
    words = ["pwcf", "run", "--model", model, "--weights", str(out), "--data", "DATA"]
    if metric is not None and eps is not None:
        words += ["--question", "max-loss", "--metric", metric, "--eps", _eps_words(eps)]
    return shlex.join([*words, "--out", "RUN"])


def _eps_words(eps: float) -> str:
    """Steps of 8-bit images as fractions, all else with all digits: the command is to ask the same."""
    text = eps_text(eps)
    return text if "/" in text else repr(eps)


def _print(log: TrainingLog, out: Path, again: str) -> None:
    typer.echo(log.summary())
    typer.echo(f"\nWeights in {out}, log in {_log_of(out)}. Evaluate them:\n  {again}")
