"""A grid file for ``pwcf bench`` with the five real networks of these benchmarks, and files of their images::

    PWCF_REALDATA=... python benchmarks/realdata_grid.py --images 50 --out out/realdata
    pwcf bench --grid out/realdata/grid.toml --budget 200 --budget 2000 --out out/bench

Of each network the first test images that it classifies correctly, and the usual radii of its dataset.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rivals import nets

MODELS = Path(__file__).with_name("realdata_models.py")
# As in rivals.accuracies, which cannot be imported without the rivals; of two the first.
_GREY = {"linf": "0.1", "l2": "1.5", "l1": "10"}
EPS = {"cifar10": {"linf": "2/255", "l2": "0.5", "l1": "12"}, "mnist": _GREY, "fashion_mnist": _GREY}


def table(name: str, data: Path) -> list[str]:
    """The lines about one network."""
    eps = ", ".join(f'{norm} = "{value}"' for norm, value in EPS[nets.DATASETS[name]].items())
    return [f"[nets.{name}]", f'model = "{MODELS}:{name}"', f'data = "{data}"', f"eps = {{{eps}}}", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100, metavar="N", help="of each network (default: 100)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for name in nets.DATASETS:
        task = nets.load(name, args.images)
        data = (args.out / f"{name}.npz").resolve()
        np.savez(data, images=task.images.numpy(), labels=task.labels.numpy())
        lines += table(name, data)
        print(f"{name}: {len(task.images)} images", flush=True)
    (args.out / "grid.toml").write_text("\n".join(lines), encoding="utf-8")
    print(f"pwcf bench --grid {args.out / 'grid.toml'} --out DIR")


if __name__ == "__main__":
    main()
