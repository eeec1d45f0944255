"""Structural dissimilarity: 1 - SSIM (Wang et al. 2004) and 1 - MS-SSIM (Wang et al. 2003), by torchmetrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pwcf._common.optional import import_optional, name_and_version
from pwcf.metrics.metric import Metric, register
from pwcf.models import Classifier

EXTRA, MODULE = "structural", "torchmetrics.functional.image"
# The exponents of the scales, finest first, that Wang et al. 2003 found by asking people.
BETAS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
# Bounds such as (0, 255/256) are no other range.
SLACK = 1e-6


@dataclass(frozen=True)
class StructuralDistance(Metric):
    """1 - SSIM per row: 0 for equal images, at most 2, and at most 1 with several scales.

    It is smooth and grows quadratically near the reference, where its gradient is 0. In float32 its error is up to 2e-5
    (measured on CIFAR-10: variances are differences of nearly equal numbers), so verification uses float64.
    """

    # torchmetrics follows the images' dtype; only the exponents of the scales are float32's, always the same ones.
    in_float64 = True
    data_range: float
    sigma: float
    k1: float
    k2: float
    betas: tuple[float, ...] | None
    """None: one scale, plain SSIM"""

    @property
    def name(self) -> str:
        return "ssim" if self.betas is None else "ms-ssim"

    @property
    def about(self) -> str:
        scales = "" if self.betas is None else f", betas {self.betas}"
        return (
            f"1 - {self.name.upper()} by {name_and_version('torchmetrics')}, data_range {self.data_range:g}, "
            f"Gaussian window of {self.window} (sigma {self.sigma:g}), k1 {self.k1:g}, k2 {self.k2:g}{scales}"
        )

    @property
    def window(self) -> int:
        """Its side in pixels: torchmetrics cuts the Gaussian off at 3.5 sigma."""
        return 2 * int(3.5 * self.sigma + 0.5) + 1

    @property
    def least_side(self) -> int:
        """Images must hold the window at the coarsest scale too; with four scales torchmetrics wants 9 of it, not 8."""
        coarser = len(self.betas or (1.0,)) - 1
        return self.window * max(1 << coarser, coarser * coarser)

    def bind(self, classifier: Classifier) -> Metric:
        width = classifier.bounds[1] - classifier.bounds[0]
        if width > self.data_range * (1 + SLACK):
            raise ValueError(
                f"data_range: expected at least {width:g}, as the bounds of the inputs are {classifier.bounds}, "
                f"found {self.data_range:g}"
            )
        return self

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        self._check(candidate)
        if candidate.shape[0] == 0:
            return candidate.flatten(1).sum(1)  # torchmetrics cannot do without images
        functions = import_optional(MODULE, f"metric {self.name}", EXTRA)
        # A data_range always: without, torchmetrics takes it from the batch, and a row's distance from its neighbours.
        if self.betas is None:
            similarity: Tensor = functions.structural_similarity_index_measure(
                candidate, reference, sigma=self.sigma, reduction="none", data_range=self.data_range, k1=self.k1,
                k2=self.k2,
            )  # fmt: skip
        else:
            # kernel_size is only looked at to tell whether images are large enough. Below 0 a scale is cut off ("relu",
            # the default): powers of negative numbers are undefined.
            similarity = functions.multiscale_structural_similarity_index_measure(
                candidate, reference, sigma=self.sigma, kernel_size=self.window, reduction="none",
                data_range=self.data_range, k1=self.k1, k2=self.k2, betas=self.betas, normalize="relu",
            )  # fmt: skip
        return (1 - similarity).clamp(min=0)  # rounding can make images more similar than equal ones

    def _check(self, images: Tensor) -> None:
        if images.dim() != 4:
            raise ValueError(
                f"images: metric {self.name} expected (n, channels, height, width), found {tuple(images.shape)}"
            )
        height, width = images.shape[2:]
        if min(height, width) < self.least_side:
            scales = "" if self.betas is None else f" on {len(self.betas)} scales (betas)"
            instead = "a smaller sigma" if self.betas is None else "fewer betas or a smaller sigma"
            raise ValueError(
                f"images: metric {self.name} with a window of {self.window} (sigma={self.sigma:g}){scales} expected at "
                f"least {self.least_side} pixels a side, found {height} x {width}; give {instead}"
            )


def ssim(data_range: float = 1.0, *, sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03) -> StructuralDistance:
    """1 - SSIM, the mean over pixels and channels of the local similarity of means, variances and structure.

    Args:
        data_range: difference between the largest and the least possible value of a pixel.
        sigma: standard deviation of the Gaussian window, in pixels; 1.5 gives a window of 11.
        k1, k2: small constants that keep the quotients of means and of variances away from 0 / 0.

    Returns:
        A metric of two batches (b, channels, height, width) -> (b,).
    """
    return _checked(StructuralDistance(data_range, sigma, k1, k2, None))


def ms_ssim(
    data_range: float = 1.0,
    *,
    sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    betas: Sequence[float] = BETAS,
) -> StructuralDistance:
    """1 - MS-SSIM, the product of similarities at several scales. The default needs images of 176 pixels a side.

    Args:
        data_range, sigma, k1, k2: as for ``ssim``.
        betas: exponents of the scales, finest first; each scale halves the resolution. With two of
            them, images need 22 pixels a side.

    Returns:
        A metric of two batches (b, channels, height, width) -> (b,).
    """
    if not isinstance(betas, Sequence) or not betas:
        raise ValueError(f"betas: expected numbers > 0, one for each scale, found {betas!r}")
    for beta in betas:
        _check_positive("betas", beta)
    return _checked(StructuralDistance(data_range, sigma, k1, k2, tuple(float(beta) for beta in betas)))


def _checked(metric: StructuralDistance) -> StructuralDistance:
    for name in ("data_range", "sigma", "k1", "k2"):
        _check_positive(name, getattr(metric, name))
    if metric.window < 3:
        raise ValueError(f"sigma: expected at least 1/7, a window of 3 pixels, found {metric.sigma!r}")
    import_optional(MODULE, f"metric {metric.name}", EXTRA)
    return metric


def _check_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{name}: expected a finite number > 0, found {value!r}")


register("ssim", ssim)
register("ms-ssim", ms_ssim)
