"""Optimisation problems with a known optimum, as objects: for tests, benchmarks and examples.

``all_problems()`` gives every one with its default size, ``get(name, n=...)`` one of them; each is also a
factory function of this package, e.g. ``maxq(n=50)`` or ``hs71()``.
"""

from collections.abc import Callable

from pwcf.testproblems import approximation, complementarity, hock_schittkowski, minimax, nonsmooth
from pwcf.testproblems.constrained import (
    active_faces_l1_sphere,
    chained_cb3_i_pairs,
    chained_cb3_ii_pairs,
    chained_crescent_ii_corner,
    chained_lq_equal,
    chained_lq_folded,
    granso_rosenbrock,
    mad1,
    mad2,
    mad4,
    maxq_l1_ball,
    mxhilb_corner,
)
from pwcf.testproblems.geometry import (
    classifier_l1,
    classifier_l2,
    classifier_linf,
    classifier_linf_slack,
    linear_l1_ball,
    linear_linf_ball,
    linear_lp_ball,
    projection_l1_ball,
    projection_linf_ball,
    projection_lp_ball,
    projection_polyhedron,
    projection_simplex,
)
from pwcf.testproblems.problem import TestProblem, all_problems, factory, get, names
from pwcf.testproblems.structured import (
    lasso_box,
    least_absolute_deviations,
    linf_regression,
    linf_regression_slack,
    max_affine,
    max_eigenvalue,
    spectral_norm,
)
from pwcf.testproblems.unconstrained import (
    active_faces,
    brown_2,
    cb2,
    chained_cb3_i,
    chained_cb3_ii,
    chained_crescent_i,
    chained_crescent_ii,
    chained_lq,
    chained_mifflin_2,
    maxq,
    mxhilb,
    rosen_suzuki,
    wolfe,
)

__all__ = [
    "TestProblem",
    "active_faces",
    "active_faces_l1_sphere",
    "all_problems",
    "approximation",
    "brown_2",
    "cb2",
    "chained_cb3_i",
    "chained_cb3_i_pairs",
    "chained_cb3_ii",
    "chained_cb3_ii_pairs",
    "chained_crescent_i",
    "chained_crescent_ii",
    "chained_crescent_ii_corner",
    "chained_lq",
    "chained_lq_equal",
    "chained_lq_folded",
    "chained_mifflin_2",
    "classifier_l1",
    "classifier_l2",
    "classifier_linf",
    "classifier_linf_slack",
    "complementarity",
    "get",
    "granso_rosenbrock",
    "hock_schittkowski",
    "lasso_box",
    "least_absolute_deviations",
    "linear_l1_ball",
    "linear_linf_ball",
    "linear_lp_ball",
    "linf_regression",
    "linf_regression_slack",
    "mad1",
    "mad2",
    "mad4",
    "max_affine",
    "max_eigenvalue",
    "maxq",
    "maxq_l1_ball",
    "minimax",
    "mxhilb",
    "mxhilb_corner",
    "names",
    "nonsmooth",
    "projection_l1_ball",
    "projection_linf_ball",
    "projection_lp_ball",
    "projection_polyhedron",
    "projection_simplex",
    "rosen_suzuki",
    "spectral_norm",
    "wolfe",
]


def __getattr__(name: str) -> Callable[..., TestProblem]:
    """The factory functions that are not listed above, e.g. ``hs71``: their modules register more than a hundred."""
    try:
        return factory(name)
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
