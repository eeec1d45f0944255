"""What runs on disk cost: record keeping, reading a large run, memory, and what a second worker of Ray brings.

    python benchmarks/runs.py --out docs/benchmarks

Needs the real networks (PWCF_REALDATA, or beside this repository), and Ray for its part. Ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HEAD = """\
# What runs on disk cost

`python benchmarks/runs.py`. Times are of one run on one machine: compare them with each other.

| what | measured |
|---|---|
"""
NET, DATA = "fmnist_kw_linf01", "fashion_mnist"
MODEL = """
from realdata import find_zoo

def net():
    return find_zoo().load_net("{net}")
"""
# Runs in a process of its own, so that nothing is warm: its words are those of pwcf.
CALL = "import sys; from pwcf.cli import main; sys.exit(main(sys.argv[1:]))"
# The same run, and how long writing took in it.
TIMED = """
import json, sys, time
import pyarrow.parquet, safetensors.torch
pyarrow.table({"a": [1]})  # loads pandas where there is one: once, however long the run
from pwcf.runs import RunFolder, execute, prepare, settings_from
from pwcf.runs.shard import Shard
from pwcf.runs import engines
spent = {"write": 0.0, "rows": 0.0}
def timed(name, function):
    def call(*given):
        began = time.perf_counter()
        try:
            return function(*given)
        finally:
            spent[name] += time.perf_counter() - began
    return call
Shard.write = timed("write", Shard.write)
engines.shard_of = timed("rows", engines.shard_of)
RunFolder.merge = timed("write", RunFolder.merge)
settings = settings_from(json.loads(sys.argv[1]))
prepared = prepare(settings, {})
began = time.perf_counter()
execute(prepared)
print(json.dumps({**spent, "whole": time.perf_counter() - began}))
"""
PEAK = """
import json, sys
from pwcf.runs import execute, prepare, settings_from
execute(prepare(settings_from(json.loads(sys.argv[1])), {}))
# Not getrusage: its peak is inherited from the process that started this one.
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak) / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the table")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    args = parser.parse_args()
    lines = HEAD.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        for part in args.parts:
            for what, measured in PARTS[part](Path(folder)):
                lines.append(f"| {what} | {measured} |")
                print(lines[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "runs.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def real(folder: Path, samples: int) -> dict[str, object]:
    """A real net and images, for pwcf run."""
    from realdata import find_zoo

    images, labels = find_zoo().load_images(DATA, n=samples)
    np.savez(folder / "real.npz", images=images.numpy(), labels=labels.numpy())
    (folder / "real.py").write_text(MODEL.format(net=NET))
    return {"model": f"{folder}/real.py:net", "data": f"{folder}/real.npz", "metric": "l2"}


def called(code: str, *words: str) -> str:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.insert(0, {here!r})\n{code}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def records(folder: Path) -> list[tuple[str, str]]:
    """Of a run with little work for each sample: the share is largest there."""
    found = []
    for budget in (200, 2000):
        said = real(folder, 256) | {"out": f"{folder}/records-{budget}", "budget": budget, "threads": 1}
        spent = json.loads(called(TIMED, json.dumps(said)))
        kept = spent["write"] + spent["rows"]
        what = f"record keeping (libraries loaded before), {NET}, 256 images, {budget} passes each"
        found.append((what, f"{kept:.2f} of {spent['whole']:.1f} s, {kept / spent['whole']:.2%}"))
    return found


def show(folder: Path) -> list[tuple[str, str]]:
    """A run of 100,000 samples, its rows repeated from a small one; pwcf show in a new process."""
    import pyarrow

    from pwcf.runs import RunFolder

    said = real(folder, 64) | {"out": f"{folder}/show", "budget": 100}
    called(PEAK, json.dumps(said))
    small = RunFolder(folder / "show")
    rows, samples = small.rows(), 100_000
    large = RunFolder(folder / "large")
    large.path.mkdir()
    header = small.header() | {"samples": samples}
    large.create(header)
    whole = pyarrow.concat_tables([rows] * (samples // 64 + 1)).slice(0, samples).combine_chunks()
    whole = whole.set_column(0, "index", pyarrow.array(np.arange(samples)))
    chunk, merged = 32, 256 * 32
    for start in range(0, samples, merged):
        last = min(start + merged, samples)
        large.write_rows(start // chunk, -(-last // chunk) - 1, whole.slice(start, last - start))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        called(CALL, "show", str(large.path))
        times.append(time.perf_counter() - began)
    return [("pwcf show, 100,000 samples, a new process, median of 5", f"{sorted(times)[2]:.2f} s")]


def memory(folder: Path) -> list[tuple[str, str]]:
    """Peak of a process that runs over more and more images, with hardly any work for each."""
    found = []
    for samples in (1000, 10_000, 40_000):
        images = np.random.default_rng(0).random((samples, 3, 32, 32), dtype=np.float32)
        np.savez(folder / "random.npz", images=images, labels=np.zeros(samples, np.int64))
        (folder / "small.py").write_text(
            "import torch\nfrom torch import nn\n\ndef net():\n    torch.manual_seed(0)\n"
            "    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))\n"
        )
        said = {"model": f"{folder}/small.py:net", "data": f"{folder}/random.npz", "metric": "l2", "budget": 50,
                "question": "max-loss", "eps": 0.01, "out": f"{folder}/memory-{samples}", "threads": 1}  # fmt: skip
        found.append(
            (f"peak memory, {samples} images of 3 x 32 x 32", f"{float(called(PEAK, json.dumps(said))):.0f} MB")
        )
    return found


def ray(folder: Path) -> list[tuple[str, str]]:
    """200 images with one worker and with two; the cluster is started before, models travel within the time."""
    code = """
import json, sys, time, ray
from pwcf.runs import execute, prepare, settings_from
said = json.loads(sys.argv[1])
ray.init(num_cpus=said["workers"], include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.get([ray.remote(lambda: __import__("torch").ones(1) and None).remote() for _ in range(4)])
prepared = prepare(settings_from(said), {})
began = time.perf_counter()
execute(prepared)
print(time.perf_counter() - began)
"""
    seconds = {}
    for workers in (1, 2):
        said = real(folder, 200) | {"out": f"{folder}/ray-{workers}", "budget": 2000, "threads": 1, "engine": "ray",
                                    "workers": workers, "chunk": 10}  # fmt: skip
        seconds[workers] = float(called(code, json.dumps(said)).split()[-1])
    what = f"Ray, {NET}, 200 images, 2000 passes: two workers against one"
    return [(what, f"{seconds[2]:.1f} of {seconds[1]:.1f} s, {seconds[2] / seconds[1]:.2f}")]


PARTS = {"records": records, "show": show, "memory": memory, "ray": ray}

if __name__ == "__main__":
    main()
