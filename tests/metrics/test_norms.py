"""Metrics against their definitions; projections against the conditions that make them the nearest points."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pwcf
from pwcf import metrics
from pwcf.metrics import as_metric, lp

F64 = torch.float64
PROJECTED = (1.0, 2.0, math.inf)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 8, 50, math.inf])
def test_lp_is_the_norm_of_the_difference(p: float) -> None:
    x, y = torch.randn(2, 5, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=F64)
    expected = torch.linalg.vector_norm((y - x).flatten(1), ord=p, dim=1)
    torch.testing.assert_close(lp(p)(x, y), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("p", [1, 1.5, 2, 8, math.inf])
def test_gradients_are_finite_at_the_reference_and_right_elsewhere(p: float) -> None:
    x = torch.rand(2, 6, generator=torch.Generator().manual_seed(1), dtype=F64)
    at = x.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(lp(p)(x, at).sum(), at)
    assert torch.isfinite(gradient).all()
    assert torch.autograd.gradcheck(
        lambda y: lp(p)(x, y), (x + torch.linspace(0.1, 0.9, 6, dtype=F64)).requires_grad_(True)
    )


def test_large_p_neither_overflows_nor_vanishes_in_float32() -> None:
    x = torch.zeros(2, 3)
    y = torch.tensor([[1e-3, 5e-4, 0.0], [50.0, 10.0, 1.0]])
    torch.testing.assert_close(lp(40)(x, y), torch.tensor([1e-3, 50.0]), rtol=1e-4, atol=0)


def test_names() -> None:
    assert [as_metric(name).name for name in ("l1", "L2", "linf", "l1.5", "l8")] == ["l1", "l2", "linf", "l1.5", "l8"]
    assert as_metric(lp(3)).name == "l3"

    def twice(reference: Tensor, candidate: Tensor) -> Tensor:
        return 2 * (candidate - reference).flatten(1).abs().sum(1)

    assert as_metric(twice).name == "twice"
    assert as_metric(twice)(torch.zeros(2, 3), torch.ones(2, 3)).tolist() == [6, 6]


@pytest.mark.parametrize("wrong", ["l0.5", "l", "two", "lp", "l-1"])
def test_wrong_names_say_what_is_expected(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"metric: expected .*found"):
        as_metric(wrong)


@pytest.mark.parametrize("wrong", [0.5, -1, math.nan, True, "2"])
def test_wrong_p_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="p: expected"):
        lp(wrong)  # type: ignore[arg-type]


def test_a_metric_that_is_not_per_sample_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"metric <lambda>: expected one distance per sample, shape \(2,\), found \(\)"
    ):
        as_metric(lambda x, y: (x - y).abs().sum())(torch.zeros(2, 3), torch.ones(2, 3))
    with pytest.raises(TypeError, match="metric: expected"):
        as_metric(3)  # type: ignore[arg-type]


def box(lower: float, upper: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(lower, dtype=F64), torch.tensor(upper, dtype=F64)


def test_no_projection_is_said_so() -> None:
    assert not isinstance(lp(3), metrics.HasProjection)
    assert all(isinstance(lp(p), metrics.HasProjection) for p in PROJECTED)
    with pytest.raises(ValueError, match="apgd needs a metric with project; l3 offers none"):
        pwcf.attacks.resolve_attacks("apgd", pwcf.MinRadius("l3"), 2, 100)


@pytest.mark.parametrize("p", PROJECTED)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), radius=st.floats(0, 3), spread=st.floats(0.1, 3))
def test_projection_is_the_nearest_point(p: float, seed: int, n: int, radius: float, spread: float) -> None:
    """z is nearest in a convex set iff (point - z)'(w - z) <= 0 for all its w: tried with many, corners included."""
    g = torch.Generator().manual_seed(seed)
    centre = torch.rand(4, n, generator=g, dtype=F64)
    centre[1] = centre[1].round()  # at corners of the box
    point = centre + spread * torch.randn(4, n, generator=g, dtype=F64)
    r = torch.full((4,), radius, dtype=F64)
    metric = lp(p)
    z = metric.project(point, centre, r, *box(0.0, 1.0))
    assert ((z >= 0) & (z <= 1)).all()
    assert (metric(centre, z) <= r * (1 + 1e-12) + 1e-14).all()
    others = torch.rand(4, 300, n, generator=g, dtype=F64)
    others[:, :100] = others[:, :100].round()
    away = others - centre.unsqueeze(1)
    if radius > 0:
        shrink = (radius / torch.linalg.vector_norm(away, ord=p, dim=2).clamp(min=1e-300)).clamp(max=1)
        w = centre.unsqueeze(1) + shrink.unsqueeze(-1) * away
        product = ((point - z).unsqueeze(1) * (w - z.unsqueeze(1))).sum(2)
        assert (product <= 1e-9 * (1 + spread)).all()


@pytest.mark.parametrize("p", PROJECTED)
def test_projection_without_bounds_and_of_points_inside(p: float) -> None:
    g = torch.Generator().manual_seed(3)
    centre, point = torch.randn(2, 6, 6, generator=g, dtype=F64)
    free = box(-math.inf, math.inf)
    z = lp(p).project(point, centre, torch.full((6,), 0.5, dtype=F64), *free)
    torch.testing.assert_close(lp(p)(centre, z), torch.full((6,), 0.5, dtype=F64))
    near = lp(p).project(point, centre, torch.full((6,), 100.0, dtype=F64), *free)
    assert torch.equal(near, point)


def test_projecting_in_turn_would_be_wrong_for_l2() -> None:
    """The paper's example: clipping after scaling does not give the nearest point."""
    centre, point = torch.tensor([[0.5, 0.9]], dtype=F64), torch.tensor([[2.0, 2.0]], dtype=F64)
    z = lp(2).project(point, centre, torch.tensor([0.4], dtype=F64), *box(0.0, 1.0))
    in_turn = (centre + 0.4 * (point - centre) / (point - centre).norm()).clamp(0, 1)
    assert (point - z).norm() < (point - in_turn).norm() - 1e-3
    assert metrics.lp(2)(centre, z).item() == pytest.approx(0.4)


def test_the_norms_that_offer_more_are_not_made_as_plain_ones() -> None:
    assert [type(lp(p)).__name__ for p in (1, 2, math.inf, 3)] == ["L1", "L2", "Linf", "Lp"]
    for p in (1.0, 2.0, math.inf):
        with pytest.raises(ValueError, match=r"use pwcf\.metrics\.lp"):
            metrics.Lp(p)
