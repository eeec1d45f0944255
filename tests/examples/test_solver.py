"""The examples of the solver, at sizes that take little time: their answers are those known for the problems."""

import importlib.util
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples" / "solver"


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def solve(name, **sizes):
    """The solution that the example prints; always feasible."""
    solution = load(name).main(**sizes)
    assert solution.evidence.violation.max() <= (1e-6 if name != "orthogonal_rnn" else 1e-4)
    return solution


def leading(n, count):
    """The sum of the largest eigenvalues of the matrix that sphere.py and trace.py draw."""
    A = torch.randn(n, n, generator=torch.Generator().manual_seed(0)).double()
    return float(torch.linalg.eigvalsh((A + A.T) / 2)[-count:].sum())


def test_every_example_is_tested():
    text = Path(__file__).read_text()
    assert [path.stem for path in FOLDER.glob("*.py") if f'("{path.stem}"' not in text] == []


def test_rosenbrock(capsys):
    solution = solve("rosenbrock")
    assert solution.x.tolist() == pytest.approx([0.5**0.5, 0.5], abs=1e-4)
    assert "x = [0.707" in capsys.readouterr().out


def test_feasibility():
    x = solve("feasibility").x
    assert x["y"] <= torch.exp(-x["x"]) - 3 + 1e-6


def test_sphere():
    assert solve("sphere", n=20).objective == pytest.approx(-leading(20, 1), rel=1e-4)


def test_trace():
    assert solve("trace").objective == pytest.approx(-leading(5, 1), rel=1e-4)


def test_robust_pca():
    # So small an eta makes S = Y optimal: eta sign(Y) has a spectral norm below 1 and is a multiplier.
    Y = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).double()
    assert solve("robust_pca").objective == pytest.approx(0.05 * float(Y.abs().sum()), rel=1e-4)


def test_generalized_lasso():
    # With a large eta the best constant is left: the mean of b.
    b = torch.rand(6, 1, generator=torch.Generator().manual_seed(1)).double().flatten()
    solution = solve("generalized_lasso", n=6, eta=100.0)
    assert solution.objective == pytest.approx(float((b - b.mean()).square().sum()), rel=1e-4)


def test_dictionary():
    assert solve("dictionary", n=8).x.abs().max() == pytest.approx(1, abs=1e-3)


def test_logistic_regression():
    solution = solve("logistic_regression", points=4, features=5)
    assert solution.x[0].abs().max() <= 1e-4  # the first C is the largest at which w = 0 is optimal
    assert (solution.x[-1].abs() > 1e-3).sum() >= 3
    assert (solution.objective.diff() < 0).all()


def test_eigenvalues():
    example = load("eigenvalues")
    function, start, _ = example.problem(n=4, p=1, m=2)
    assert float(function(start)[1]) > 0
    solution = solve("eigenvalues", n=4, p=1, m=2)
    value, stability = function(solution.x)
    assert value < function(start)[0]
    assert stability <= 1e-6


def test_orthogonal_rnn():
    solution = solve("orthogonal_rnn", images=5, hidden=3, target=0.5)
    W = solution.x["rnn.weight_hh_l0"]
    assert torch.allclose(W.T @ W, torch.eye(3, dtype=torch.float64), atol=1e-4)
    assert solution.objective <= 0.5
