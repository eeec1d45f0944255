"""``pwcf doctor``: what is installed, which devices there are, and whether an evaluation works."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

import typer

from pwcf._common.optional import installed_version
from pwcf.cli.console import Json, console, print_json, table

EXTRAS = {
    "pandas": ("pandas", "Run.to_pandas"),
    "matplotlib": ("plots", "plots"),
    "tqdm": ("progress", "progress in evaluate"),
    "torchmetrics": ("structural", "ssim, ms-ssim"),
    "kornia": ("colour", "lab"),
    "adv-lib": ("", "ddn, fmn, alma, pdgd, pdpgd, sigma-zero"),
    "pillow": ("images", "folders of images, export to PNG"),
    "timm": ("timm", "timm:NAME"),
    "torchvision": ("torchvision", "torchvision:NAME"),
    "transformers": ("hf", "hf:NAME models"),
    "datasets": ("datasets", "hf:NAME data"),
    "robustbench": ("robustbench", "robustbench:NAME"),
    "onnx2torch": ("onnx", "file.onnx"),
    "ray": ("ray", "--engine ray"),
    "tensorboard": ("tensorboard", "--tracker tensorboard"),
}
"""Optional packages: the extra of pwcf that installs each, none where there is none, and what it is for."""
# Of packages that no extra has.
OTHERWISE = {"adv-lib": "--no-deps adv-lib tqdm"}


def add_to(app: typer.Typer) -> None:
    app.command("doctor", help="Look at the environment and test an evaluation (two seconds).")(_command)


def _command(json: Json = False) -> None:
    import torch

    import pwcf

    machine = {
        "pwcf": pwcf.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "devices": ", ".join(_devices(torch)),
    }
    extras = {name: installed_version(name) for name in EXTRAS}
    ok, said = _self_test()
    if json:
        missing = {name: _install(name) for name, version in extras.items() if version is None}
        print_json({**machine, "extras": extras, "missing": missing, "self_test": {"ok": ok, "said": said}})
        raise typer.Exit(0 if ok else 1)
    out = console()
    shown = table(["", ""], list(machine.items()))
    shown.show_header, shown.columns[1].justify = False, "left"
    out.print(shown)
    out.print()
    lines = [[name, extras[name] or _install(name), what] for name, (_, what) in EXTRAS.items()]
    shown = table(["optional", "version, or how to get it", "what it is for"], lines)
    shown.columns[1].justify = shown.columns[2].justify = "left"
    out.print(shown)
    out.print(f"\nself-test: {'[green]ok[/green]' if ok else '[red]failed[/red]'}, {said}")
    if advice := _advice(torch.get_num_threads()):
        out.print(f"[yellow]note[/yellow] {advice}")
    raise typer.Exit(0 if ok else 1)


def _advice(threads: int) -> str:
    """What to do on a machine that others keep busy: a thread that waits for a core holds up all the others."""
    load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
    if threads == 1 or load <= cores:
        return ""
    return (
        f"the machine is busy, a load of {load:.1f} on {cores} cores: {threads} threads would wait for each other; "
        "give pwcf run --threads 1, in Python torch.set_num_threads(1)"
    )


def _install(name: str) -> str:
    extra, _ = EXTRAS[name]
    return f"pip install 'pwcf[{extra}]'" if extra else f"pip install {OTHERWISE[name]}"


def _devices(torch: Any) -> list[str]:
    found = ["cpu"]
    found += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    return found + (["mps"] if torch.backends.mps.is_available() else [])


def _self_test() -> tuple[bool, str]:
    """Radii of a linear classifier, which are known: |w'x + b| / |w|_q."""
    import torch

    import pwcf

    began = time.perf_counter()
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(20, generator=generator)
    images = 0.5 + 0.1 * torch.rand(8, 20, generator=generator)
    logit = (images - 0.5) @ w
    worst = 0.0
    for metric, dual in (("l1", torch.inf), ("l2", 2.0), ("linf", 1.0)):
        run = pwcf.evaluate(lambda x: (x - 0.5) @ w, images, (logit > 0).long(), pwcf.MinRadius(metric), budget=200)
        exact = logit.abs().double() / torch.linalg.vector_norm(w.double(), ord=dual)
        worst = max(worst, float((run.radius / exact - 1).abs().max()))
    seconds = time.perf_counter() - began
    return worst < 0.01, f"radii of a linear classifier within {worst:.1e} of the exact ones, {seconds:.1f} s"
