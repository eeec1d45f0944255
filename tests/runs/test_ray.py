"""The Ray engine, with a real Ray on this machine."""

import os
from pathlib import Path

import pytest

from pwcf.cli import main
from pwcf.runs import RunFolder
from runfolders import answers, make_place

pytest.importorskip("ray")
# Ray opens sockets and files of its own that live as long as the process.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def _end_ray():
    import ray

    yield
    ray.shutdown()


MORTAL = """

class Mortal(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        import os, signal
        from pathlib import Path

        # In the middle of the run, and once: the file that says so can be made by one process only.
        if os.getpid() != {pid} and len(list(Path({out!r}).glob("rows-*.parquet"))) >= 3:
            try:
                Path({killed!r}).touch(exist_ok=False)
            except FileExistsError:
                return self.inner(x)
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(x)
"""


def test_a_killed_worker_is_replaced_and_answers_are_those_of_one_process(tmp_path: Path) -> None:
    place, killed = make_place(tmp_path, 120), tmp_path / "killed"
    mortal = MORTAL.format(pid=os.getpid(), out=str(tmp_path / "ray"), killed=str(killed))
    net = (tmp_path / "net.py").read_text().replace("return made", "return Mortal(made)")
    (tmp_path / "net.py").write_text(net + mortal)
    said = {"metric": "l2", "budget": 400, "chunk": 5}
    assert place.run("here", **said) == 0
    assert not killed.exists()
    assert place.run("ray", engine="ray", workers=2, **said) == 0
    assert killed.exists(), "no worker was killed"
    assert answers(tmp_path / "ray") == answers(tmp_path / "here")


def test_ray_goes_on_with_what_one_process_began(tmp_path: Path) -> None:
    place = make_place(tmp_path, 20)
    said = {"metric": "linf", "budget": 60, "chunk": 4}
    assert place.run("whole", **said) == 0
    assert place.run("part", **said) == 0
    folder = RunFolder(tmp_path / "part")
    table = folder.rows()
    folder.write_rows(0, 1, table.slice(0, 8))
    (tmp_path / "part" / "rows-000000-000004.parquet").unlink()
    assert place.run("part", engine="ray", workers=2, **said) == 0
    assert answers(tmp_path / "part") == answers(tmp_path / "whole")


def test_attacks_and_distances_of_ones_own_travel_to_the_workers(tmp_path: Path) -> None:
    place = make_place(tmp_path, 8)
    (tmp_path / "own.py").write_text("""
import torch


def scale():
    return 0.2


def signs(model, images, labels):
    x = images.clone().requires_grad_(True)
    torch.nn.functional.cross_entropy(model(x), labels).backward()
    return (images + scale() * x.grad.sign()).clamp(0, 1)


def doubled(reference, candidate):
    return 2 * (candidate - reference).flatten(1).norm(dim=1)
""")
    said = {
        "metric": f"{tmp_path}/own.py:doubled",
        "attacks": f"{tmp_path}/own.py:signs,lmn",
        "budget": 120,
        "chunk": 4,
    }
    assert place.run("here", restarts=2, **said) == 0
    assert place.run("ray", engine="ray", workers=1, restarts=2, **said) == 0
    assert answers(tmp_path / "ray") == answers(tmp_path / "here")


def test_a_failing_chunk_is_told_as_in_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_place(tmp_path, 8)
    broken = (tmp_path / "net.py").read_text().replace("return made", "return Broken(made)")
    broken += """

class Broken(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        if len(x) > 1:
            raise ArithmeticError("only one at a time")
        return self.inner(x)
"""
    (tmp_path / "net.py").write_text(broken)
    said = {"metric": "l2", "budget": 60}
    assert place.run("here", **said) == 2
    here = capsys.readouterr().err
    assert "only one at a time" in here
    assert place.run("ray", engine="ray", workers=2, **said) == 2
    assert capsys.readouterr().err == here


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import ray

    ray.shutdown()
    place = make_place(tmp_path, 8)
    words = place.words("out", metric="l2", budget=60, engine="ray", address="127.0.0.1:1")
    assert main(words) == 2
    assert "no Ray cluster at '127.0.0.1:1'" in capsys.readouterr().err


def test_a_head_that_is_gone_is_told_before_ray_ends_the_process() -> None:
    import socket

    from pwcf.runs.ray_engine import LOOKS, OnRay
    from pwcf.runs.settings import RunError

    engine = OnRay.__new__(OnRay)
    with socket.create_server(("127.0.0.1", 0)) as head:
        engine._head, engine._missed = f"127.0.0.1:{head.getsockname()[1]}", 0
        for _ in range(2 * LOOKS):
            engine._check_head(alive=False)  # nothing came, but it is there
    for _ in range(LOOKS - 1):
        engine._check_head(alive=False)
    engine._check_head(alive=True)
    for _ in range(LOOKS - 1):
        engine._check_head(alive=False)
    with pytest.raises(
        RunError, match=r"Ray: the head of the cluster at 127.0.0.1:\d+ is gone; what was recorded is kept"
    ):
        engine._check_head(alive=False)
