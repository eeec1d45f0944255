"""LPIPS's example images: what its authors' code says of them, and what ours does."""

from __future__ import annotations

import pwcf
from perception.tasks import folder, zoo

# LPIPS's own package, version 0.1 with AlexNet.
EXPECTED = (0.7219, 0.1376)
HEAD = """\
# LPIPS's example values

`python benchmarks/perceptual.py --parts lpips`, from files alone, nothing downloaded.

| image | LPIPS's own code | ours, float32 | ours, float64 |
|---|---|---|---|
"""


def table() -> list[str]:
    metric = pwcf.metrics.lpips(weights=folder() / "alexnet_features.pt")
    reference, *others = zoo().load_lpips_examples()
    lines = HEAD.splitlines()
    for name, expected, other in zip(("ex_p0", "ex_p1"), EXPECTED, others, strict=True):
        single = float(metric(reference, other))
        double = float(metric.distance64(reference, other))
        lines.append(f"| {name} | {expected:.4f} | {single:.4f} | {double:.4f} |")
    return [*lines, "", f"Measured by: {metric.about}."]
