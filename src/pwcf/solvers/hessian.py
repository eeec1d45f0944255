"""Inverse Hessian approximations of many rows at once: full BFGS and limited-memory BFGS.

Both keep one approximation H_k per row and offer the same: ``products`` (the Gram matrix V'HV of a few
vectors per row, and H times any combination of them) and ``update`` with a new pair (s, y).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.host import Array, factor, fetch_one, positions, select, send, where_true
from pwcf.solvers.linalg import add_product_, bmm, dot, matvec, solve_triangular, spread, weighted, with_stored

# A pair is used only if s'y > CURVATURE |s| |y|: weak Wolfe makes s'y positive in exact arithmetic,
# projection onto bounds does not, and a tiny s'y would blow H up.
CURVATURE = 1e-10
# Eigenvalues of H below this many rounding errors of the largest are not known.
KNOWN = 100.0
# Up to so many pairs L-BFGS takes gamma from the last one, as is usual: best far from a solution. Close to kinks
# the last curvature is huge and would make H small in all directions not in memory: with a longer memory gamma
# comes from the least curvature in it.
SHORT = 6
# Entries of full matrices that are worked on at once on the host.
CACHED = 2**19


class HessianProducts(NamedTuple):
    """Products of H with the vectors V (r, k, n) of each row: all that a direction needs of H."""

    gram: Tensor
    """V'HV, (r, k, k) in float64: all that the dual QPs need, for any penalty parameter."""
    combine: Callable[[Tensor], Tensor]
    """weights (r, k) -> H (sum_k weights_k V_k), (r, n)."""


class InverseHessian(Protocol):
    """One positive definite matrix per row."""

    def products(self, rows: Array, V: Tensor, HV: Tensor | None = None) -> HessianProducts:
        """Products of the matrices of ``rows`` (r,) with the vectors V (r, k, n); HV are those that ``update`` gave."""

    def update(self, rows: Array, s: Tensor, y: Tensor, V: Tensor | None = None) -> Tensor | None:
        """Take in a step s (r, n) of each row and the change y (r, n) of its gradient.

        Returns products of the new matrices with V (r, k, n) if they are to be had on the way.
        """

    def reset(self, rows: Array) -> None:
        """Let ``rows`` begin anew."""

    def repair(self, rows: Array) -> None:
        """Make matrices positive definite again that rounding has spoilt."""

    def tensors(self) -> dict[str, Tensor]:
        """All state, for ``hessian_from``."""


def make_hessian(kind: str, b: int, n: int, memory: int, like: Tensor) -> InverseHessian:
    """``kind`` is "bfgs" (n x n per row) or "lbfgs" (``memory`` pairs per row)."""
    if kind == "bfgs":
        return FullBFGS(
            torch.eye(n, dtype=like.dtype, device=like.device).repeat(b, 1, 1), torch.zeros(b, dtype=torch.bool)
        )
    return LimitedBFGS.empty(b, n, memory, like)


class FullBFGS:
    """H stored densely. Superior on nonsmooth problems (Lewis and Overton), O(n^2) per row."""

    def __init__(self, H: Tensor, started: Tensor) -> None:
        self.H, self.started = H, started.cpu().numpy()

    def tensors(self) -> dict[str, Tensor]:
        return {"H": self.H, "started": torch.from_numpy(self.started)}

    def products(self, rows: Array, V: Tensor, HV: Tensor | None = None) -> HessianProducts:
        if HV is None:
            HV = with_stored(lambda H, V: bmm(V, H), self.H, rows, V)  # H is symmetric: (H V')' = V H
        return HessianProducts(bmm(V, HV.mT).double(), lambda weights: weighted(weights, HV))

    def reset(self, rows: Array) -> None:
        if len(rows):
            self.H[positions(rows, self.H.device)] = torch.eye(
                self.H.shape[-1], dtype=self.H.dtype, device=self.H.device
            )
            self.started[rows] = False

    def repair(self, rows: Array) -> None:
        """Raise the eigenvalues that rounding has made negative, or too small to be known."""
        index = positions(rows, self.H.device)
        H = self.H[index]
        values, vectors = torch.linalg.eigh(0.5 * (H + H.mT))
        values = values.clamp(min=values.amax(-1, keepdim=True).abs() * KNOWN * torch.finfo(H.dtype).eps)
        self.H[index] = bmm(vectors * values.unsqueeze(-2), vectors.mT)

    def update(self, rows: Array, s: Tensor, y: Tensor, V: Tensor | None = None) -> Tensor | None:
        both = torch.stack([s, y], 1)
        ss, sy, yy = fetch_one(bmm(both, both.mT)).reshape(-1, 4).T[[0, 1, 3]]
        good = sy > CURVATURE * np.sqrt(ss * yy)
        if not good.all():
            kept = where_true(good)
            rows, s, y, sy, yy, V = rows[kept], select(s, kept), select(y, kept), sy[kept], yy[kept], None
        if len(rows) == 0:
            return None
        b, n = len(self.H), s.shape[1]
        # First pair: scale the identity to the observed curvature.
        first = where_true(~self.started[rows])
        if len(first):
            self.H[positions(rows[first], s.device)] *= send((sy / yy)[first], s)[:, None, None]
            self.started[rows] = True
        rho = factor(1 / sy, s)
        if 3 * len(rows) <= b:
            index = positions(rows, s.device)
            H = self.H[index]
            HV = _add_pair_(H, s, y, rho, V)
            self.H[index] = H
            return HV
        # A step of zeros, which adds zeros to the others, costs less than a copy. The matrices are read three times:
        # a few at a time stay in the processor's cache.
        s, y, rho = spread(s, rows, b), spread(y, rows, b), spread(rho, rows, b)
        V = None if V is None else spread(V, rows, b)
        size = max(1, CACHED // (n * n)) if s.device.type == "cpu" else b
        if b <= size:
            HV = _add_pair_(self.H, s, y, rho, V)
        else:
            cut = [slice(i, i + size) for i in range(0, b, size)]
            parts = [_add_pair_(self.H[i], s[i], y[i], rho[i], None if V is None else V[i]) for i in cut]
            HV = None if V is None else torch.cat([part for part in parts if part is not None])
        return None if HV is None else select(HV, rows)


def _add_pair_(H: Tensor, s: Tensor, y: Tensor, rho: Tensor, V: Tensor | None) -> Tensor | None:
    """Update H (r, n, n) in place; returns V (r, k, n) times the new one."""
    Hy = matvec(H, y)
    # H + s u' + u s' with u = rho (1 + rho y'Hy) s / 2 - rho Hy: one pass over H.
    u = rho * ((0.5 + 0.5 * rho * dot(y, Hy).unsqueeze(-1)) * s - Hy)
    add_product_(H, torch.stack([s, u], -1), torch.stack([u, s], 1))
    return None if V is None else bmm(V, H)


class LimitedBFGS:
    """The last m pairs in compact form: two passes over the pairs per product, small matrices between.

    H = gamma I + [S gamma Y] M [S gamma Y]' with M built from R = triu(S'Y), D = diag(S'Y) and Y'Y
    (Byrd, Nocedal, Schnabel 1994). Pairs sit in a ring; the small matrices are put in order of age.
    """

    def __init__(self, pairs: Tensor, SY: Tensor, YY: Tensor, count: Tensor, gamma: Tensor) -> None:
        self.pairs, self.SY, self.YY, self.count, self.gamma = pairs, SY, YY, count, gamma

    @classmethod
    def empty(cls, b: int, n: int, memory: int, like: Tensor) -> LimitedBFGS:
        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=like.device)

        return cls(
            zeros(b, 2 * memory, n, dtype=like.dtype),
            zeros(b, memory, memory, dtype=torch.float64),
            zeros(b, memory, memory, dtype=torch.float64),
            zeros(b, dtype=torch.int64),
            torch.ones(b, dtype=torch.float64, device=like.device),
        )

    def tensors(self) -> dict[str, Tensor]:
        return {"pairs": self.pairs, "SY": self.SY, "YY": self.YY, "count": self.count, "gamma": self.gamma}

    def __getitem__(self, rows: Array | Tensor) -> LimitedBFGS:
        """A copy of some rows."""
        rows = positions(rows, self.gamma.device)
        return LimitedBFGS(*(tensor[rows] for tensor in self.tensors().values()))

    def put(self, rows: Array | Tensor, others: LimitedBFGS) -> None:
        """Replace some rows by all of ``others``."""
        rows = positions(rows, self.gamma.device)
        for name, tensor in self.tensors().items():
            tensor[rows] = others.tensors()[name]

    @property
    def memory(self) -> int:
        return self.SY.shape[1]

    def _inner(self, rows: Tensor, V: Tensor) -> Tensor:
        """[S; Y] V' as (r, 2m, k)."""
        return with_stored(lambda pairs, V: bmm(pairs, V.mT), self.pairs, rows, V).double()

    def _outer(self, rows: Tensor, coefficients: Tensor) -> Tensor:
        """coefficients (r, k, 2m) times the pairs: (r, k, n)."""
        coefficients = coefficients.to(self.pairs.dtype)
        return with_stored(lambda pairs, c: bmm(c, pairs), self.pairs, rows, coefficients)

    def products(self, rows: Array | Tensor, V: Tensor, HV: Tensor | None = None) -> HessianProducts:
        """One pass over the pairs for the Gram matrix, a second one for the combined vector."""
        rows = positions(rows, V.device)
        inner = self._inner(rows, V)
        middle = self._middle(rows, inner)
        gamma = self.gamma[rows]
        gram = gamma[:, None, None] * bmm(V, V.mT).double() + bmm(middle.mT, inner)

        def combine(weights: Tensor) -> Tensor:
            plain = gamma.to(V.dtype).unsqueeze(-1) * weighted(weights, V)
            coefficients = bmm(middle, weights.double().unsqueeze(-1)).mT
            return plain + self._outer(rows, coefficients).squeeze(1)

        return HessianProducts(gram, combine)

    def _middle(self, rows: Tensor, inner: Tensor) -> Tensor:
        """The compact form's middle matrix times ``inner`` (r, 2m, k), already weighted by gamma."""
        m = self.memory
        gamma = self.gamma[rows][:, None, None]
        order, filled = self._age_order(rows)
        SY = _permute(self.SY[rows], order)
        YY = _permute(self.YY[rows], order)
        pair = filled.unsqueeze(-1) & filled.unsqueeze(1)
        eye = torch.eye(m, dtype=SY.dtype, device=SY.device)
        # Empty places: identity in R, so that they pass zeros through.
        R = torch.where(pair, SY, eye).triu()
        D = torch.where(filled, SY.diagonal(dim1=1, dim2=2), torch.zeros_like(SY[:, 0]))
        YY = torch.where(pair, YY, torch.zeros_like(YY))
        index = order.unsqueeze(-1).expand(-1, -1, inner.shape[-1])
        a = inner[:, :m].gather(1, index)  # S'V
        b = inner[:, m:].gather(1, index)  # Y'V
        u = solve_triangular(R, a, upper=True)  # R^-1 S'V
        top = D.unsqueeze(-1) * u + gamma * bmm(YY, u) - gamma * b
        top = solve_triangular(R.mT, top, upper=False)
        result = torch.cat([top, -gamma * u], 1)
        back = order.argsort(1).unsqueeze(-1).expand(-1, -1, inner.shape[-1])
        return torch.cat([result[:, :m].gather(1, back), result[:, m:].gather(1, back)], 1)

    def _age_order(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Ring positions from oldest to newest, and which of them are filled."""
        m = self.memory
        count = self.count[rows].unsqueeze(-1)
        place = torch.arange(m, device=count.device).unsqueeze(0)
        start = torch.where(count > m, count % m, torch.zeros_like(count))
        return (start + place) % m, place < count.clamp(max=m)

    def reset(self, rows: Array | Tensor) -> None:
        if len(rows):
            rows = positions(rows, self.gamma.device)
            self.count[rows], self.gamma[rows] = 0, 1.0

    def repair(self, rows: Array | Tensor) -> None:
        """Begin anew: the few pairs are soon replaced."""
        self.reset(rows)

    def update(self, rows: Array | Tensor, s: Tensor, y: Tensor, V: Tensor | None = None) -> Tensor | None:
        rows = positions(rows, s.device)
        sy, ss, yy = dot(s, y).double(), dot(s, s).double(), dot(y, y).double()
        good = sy > CURVATURE * (ss * yy).sqrt()
        if not bool(good.all()):
            kept = good.nonzero().squeeze(-1)
            rows, s, y, sy, yy = rows[kept], s[kept], y[kept], sy[kept], yy[kept]
        if rows.numel() == 0:
            return None
        m = self.memory
        place = self.count[rows] % m
        self.pairs[rows, place] = s
        self.pairs[rows, m + place] = y
        # Of S'Y only the part above the diagonal counts, that of older s with newer y: s needs no pass over the pairs.
        inner = self._inner(rows, y.unsqueeze(1))
        self.SY[rows, :, place] = inner[:, :m, 0]
        self.YY[rows, place] = self.YY[rows, :, place] = inner[:, m:, 0]
        self.gamma[rows] = self._largest(rows) if m > SHORT else sy / yy
        self.count[rows] += 1
        return None

    def _largest(self, rows: Tensor) -> Tensor:
        """The largest s'y / y'y in memory."""
        sy, yy = self.SY[rows].diagonal(dim1=1, dim2=2), self.YY[rows].diagonal(dim1=1, dim2=2)
        return torch.where(yy > 0, sy / yy.clamp(min=1e-300), torch.zeros_like(yy)).amax(1)


def _permute(matrix: Tensor, order: Tensor) -> Tensor:
    m = matrix.shape[1]
    matrix = matrix.gather(1, order.unsqueeze(-1).expand(-1, -1, m))
    return matrix.gather(2, order.unsqueeze(1).expand(-1, m, -1))


def hessian_from(tensors: dict[str, Tensor]) -> InverseHessian:
    """Rebuild an approximation from what its ``tensors`` gave."""
    return FullBFGS(**tensors) if "H" in tensors else LimitedBFGS(**tensors)
