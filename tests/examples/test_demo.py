"""The demo, with less to do: its commands work and its summary says what the runs say."""

import importlib.util
import sys
from pathlib import Path

import pytest

from pwcf import analysis, load_run

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_runs_reports_and_sums_up(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    networks = ["fashion-standard", "fashion-l2"]
    monkeypatch.setattr(demo, "METRICS", ("l2",))
    monkeypatch.setattr(demo, "BUDGET", 300)
    monkeypatch.setattr(demo.zoo, "names", lambda: networks)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(tmp_path), "--images", "6"])
    demo.main()
    said = capsys.readouterr().out
    assert "[4/4] pwcf run" in said
    for network in networks:
        line = next(line for line in said.splitlines() if line.startswith(network))
        radii = load_run(tmp_path / "runs" / f"{network}-l2", tensors=False)
        robust = analysis.accuracy_of(load_run(tmp_path / "runs" / f"{network}-within", tensors=False)).robust
        assert float(line.split()[1]) == pytest.approx(analysis.quantiles_of(radii)[0.5], abs=1e-3)
        assert line.split()[2] == f"{robust:.0%}"
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "fashion-l2" in page
    assert "Ankle boot" in page
