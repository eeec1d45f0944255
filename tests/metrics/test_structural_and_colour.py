"""SSIM, MS-SSIM and CIELAB against their formulas; slopes, company, wrong input, missing libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.metrics import Metric, as_metric, lab, ms_ssim, ssim

F64 = torch.float64
TWO_SCALES = (0.4, 0.6)
MAKERS = pytest.mark.parametrize("make", [ssim, lambda: ms_ssim(betas=TWO_SCALES), lab], ids=["ssim", "ms-ssim", "lab"])


def pair(rows: int = 3, height: int = 24, width: int = 26, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    """Images and others like them. The last one is so unlike that its contrast is negative."""
    x, noise = torch.rand(2, rows, 3, height, width, generator=torch.Generator().manual_seed(0), dtype=F64)
    y = (x + 0.3 * (noise - 0.5)).clamp(0, 1)
    y[-1] = 1 - x[-1]
    return x.to(dtype), y.to(dtype)


def local_similarity(
    x: Tensor, y: Tensor, sigma: float, radius: int, data_range: float = 1.0, k1: float = 0.01, k2: float = 0.03
) -> tuple[Tensor, Tensor]:
    """SSIM and its contrast at every pixel, by sums over windows of images that are mirrored at their borders."""
    steps = torch.arange(-radius, radius + 1, dtype=F64)
    line = torch.exp(-(steps**2) / (2 * sigma**2))
    weights = (line[:, None] * line[None, :] / line.sum() ** 2).flatten()
    side = 2 * radius + 1

    def windows(images: Tensor) -> Tensor:
        padded = nn.functional.pad(images, [radius] * 4, mode="reflect")
        return padded.unfold(2, side, 1).unfold(3, side, 1).flatten(4)

    u, v = windows(x), windows(y)
    mean_u, mean_v = u @ weights, v @ weights
    var_u = (u - mean_u[..., None]) ** 2 @ weights
    var_v = (v - mean_v[..., None]) ** 2 @ weights
    cov = ((u - mean_u[..., None]) * (v - mean_v[..., None])) @ weights
    c1, c2 = (k1 * data_range) ** 2, (k2 * data_range) ** 2
    contrast = (2 * cov + c2) / (var_u + var_v + c2)
    return contrast * (2 * mean_u * mean_v + c1) / (mean_u**2 + mean_v**2 + c1), contrast


@pytest.mark.parametrize(
    ("settings", "radius"),
    [({}, 5), ({"sigma": 0.8, "k1": 0.05, "k2": 0.02, "data_range": 2.0}, 3)],
    ids=["default", "all settings"],
)
def test_ssim_is_one_minus_the_mean_similarity(settings: dict[str, float], radius: int) -> None:
    x, y = pair()
    local, _ = local_similarity(x, y, **{"sigma": 1.5, **settings}, radius=radius)
    torch.testing.assert_close(ssim(**settings)(x, y), 1 - local.mean((1, 2, 3)), rtol=1e-10, atol=1e-12)


def test_ms_ssim_is_one_minus_the_product_over_scales() -> None:
    x, y = pair()
    _, fine = local_similarity(x, y, 1.5, 5)
    fine = fine[..., 5:-5, 5:-5].mean((1, 2, 3))  # torchmetrics leaves the mirrored borders out here
    coarse, _ = local_similarity(*(nn.functional.avg_pool2d(images, 2) for images in (x, y)), 1.5, 5)
    expected = 1 - fine.clamp(min=0) ** TWO_SCALES[0] * coarse.mean((1, 2, 3)).clamp(min=0) ** TWO_SCALES[1]
    found = ms_ssim(betas=TWO_SCALES)(x, y)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-12)  # exponents are float32's
    assert found[-1] == 1


def test_lab_is_the_root_mean_square_of_known_colour_differences() -> None:
    black, white, red = (
        (torch.zeros(3), torch.ones(3), torch.tensor([1.0, 0, 0]))[i].view(1, 3, 1, 1) for i in range(3)
    )
    # L*a*b* of sRGB red under D65: (53.24, 80.09, 67.20).
    away = torch.tensor([53.24, 80.09, 67.20]).norm()
    torch.testing.assert_close(lab()(black, white), torch.tensor([100.0]), rtol=1e-4, atol=0)
    torch.testing.assert_close(lab()(black, red), away.view(1), rtol=1e-3, atol=0)
    images = black.expand(1, 3, 2, 4)
    one = images.clone()
    one[:, :, 1, 2] = red[:, :, 0, 0]
    torch.testing.assert_close(lab()(images, one), away.view(1) / 8**0.5, rtol=1e-3, atol=0)


def test_lab_of_grey_images_is_that_of_colours_with_equal_channels() -> None:
    x, y = (images[:, :1] for images in pair())
    assert torch.equal(lab()(x, y), lab()(x.expand(-1, 3, -1, -1), y.expand(-1, 3, -1, -1)))


@MAKERS
@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_slopes_are_finite_everywhere(make: Callable[[], Metric], dtype: torch.dtype) -> None:
    x, y = pair(dtype=dtype)
    flat, corners = torch.full_like(x, 0.5), x.round()
    cases = [
        (x, x), (x, y), (y, x), (flat, flat), (flat, x), (x, flat), (corners, corners), (corners, 1 - corners),
        (torch.zeros_like(x), torch.ones_like(x)), (torch.ones_like(x), torch.zeros_like(x)),
        (torch.zeros_like(x), torch.zeros_like(x)), (torch.ones_like(x), torch.ones_like(x)),
    ]  # fmt: skip
    for reference, candidate in cases:
        leaf = candidate.clone().requires_grad_(True)
        distance = make()(reference, leaf)
        (slope,) = torch.autograd.grad(distance.sum(), leaf)
        assert distance.dtype == dtype
        assert torch.isfinite(distance).all()
        assert torch.isfinite(slope).all()
        if torch.equal(candidate, reference):
            assert (distance == 0).all()
            assert slope.abs().max() < 1e-5
        else:
            assert (distance > 0).all()


@pytest.mark.parametrize("make", [lambda: ssim(sigma=0.3), lambda: ms_ssim(sigma=0.3, betas=TWO_SCALES), lab])
def test_slopes_are_right(make: Callable[[], Metric]) -> None:
    x, y = pair(2, 6, 7)
    y = 0.5 * (x + y)  # no scale is cut off
    assert torch.autograd.gradcheck(lambda z: make()(x, z), y.requires_grad_(True))


@MAKERS
def test_a_row_has_the_same_distance_whatever_is_beside_it(make: Callable[[], Metric]) -> None:
    x, y = pair(5)
    x[1], y[1] = 10 * x[1], 10 * y[1]  # a company of another range
    together = make()(x, y)
    for row in range(5):
        torch.testing.assert_close(make()(x[row : row + 1], y[row : row + 1])[0], together[row], rtol=1e-11, atol=1e-13)
    nobody = make()(x[:0], y[:0].requires_grad_(True))
    assert nobody.shape == (0,)
    assert nobody.requires_grad


@MAKERS
def test_images_in_float32_are_judged_in_float64(make: Callable[[], Metric]) -> None:
    x, y = pair(dtype=torch.float32)
    metric = make()
    assert metric.in_float64
    exact = metric.distance64(x, y)
    assert exact.dtype == F64
    assert torch.equal(exact, metric(x.double(), y.double()))
    assert (exact[:-1] != metric(x, y)[:-1].double()).all()  # it does compute in what it is given


def test_what_is_prepared_is_the_reference_in_lab() -> None:
    x, y = pair()
    assert torch.equal(lab().from_prepared(lab().prepare(x), y), lab()(x, y))


@pytest.mark.parametrize(
    ("metric", "shape", "said"),
    [
        (
            ssim(),
            (2, 3, 10, 30),
            r"window of 11 \(sigma=1.5\) expected at least 11 .* found 10 x 30; give a smaller sigma",
        ),
        (
            ms_ssim(),
            (2, 3, 224, 175),
            r"on 5 scales \(betas\) expected at least 176 .* found 224 x 175; give fewer betas",
        ),
        (ms_ssim(betas=[0.25] * 4), (1, 1, 98, 98), "at least 99"),  # torchmetrics' own rule, 9 windows
        (ssim(), (2, 30), r"images: metric ssim expected \(n, channels, height, width\), found \(2, 30\)"),
        (ms_ssim(), (2, 3, 8, 200, 200), "images: metric ms-ssim expected"),
        (lab(), (2, 30), r"images: metric lab expected \(n, 3, height, width\).* found \(2, 30\)"),
        (lab(), (2, 4, 8, 8), "images: metric lab expected"),
    ],
)
def test_images_that_cannot_be_measured_are_named(metric: Metric, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        metric(torch.rand(shape), torch.rand(shape))


@pytest.mark.parametrize(
    ("metric", "side"),
    [(ssim(), 11), (ms_ssim(betas=TWO_SCALES), 22), (ms_ssim(betas=[0.25] * 4), 99), (ms_ssim(), 176)],
)
def test_the_least_side_is_enough(metric: Metric, side: int) -> None:
    x = torch.rand(1, 1, side, side, generator=torch.Generator().manual_seed(0))
    assert 0 < float(metric(x, (x + 0.1 * x.flip(3)).clamp(0, 1))) < 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ssim(0.0), "data_range: expected a finite number > 0, found 0.0"),
        (lambda: ssim(None), "data_range: expected"),
        (lambda: ssim(sigma=float("inf")), "sigma: expected"),
        (lambda: ssim(sigma=0.1), "sigma: expected at least 1/7"),
        (lambda: ssim(k1=-1), "k1: expected"),
        (lambda: ms_ssim(k2=True), "k2: expected"),
        (lambda: ms_ssim(betas=()), "betas: expected numbers > 0, one for each scale"),
        (lambda: ms_ssim(betas=(0.5, 0)), "betas: expected a finite number > 0, found 0"),
        (lambda: ms_ssim(betas=0.5), "betas: expected"),
    ],
)
def test_wrong_settings_are_named(make: Callable[[], Metric], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_bounds_the_metric_is_not_made_for_are_named() -> None:
    def of(metric: Metric, bounds: tuple[float, float]) -> Metric:
        return metric.bind(Classifier(nn.Flatten(), bounds))

    with pytest.raises(ValueError, match=r"data_range: expected at least 255, .* found 1"):
        of(ssim(), (0, 255))
    with pytest.raises(ValueError, match=r"bounds: metric lab expected sRGB colours in \[0, 1\], found \(-1.0, 1.0\)"):
        of(lab(), (-1, 1))
    assert of(ssim(255), (0, 255)) == ssim(255)
    assert of(ms_ssim(), (0, 1)) == ms_ssim()
    assert of(lab(), (0, 1)) == lab()


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("ssim", "torchmetrics.functional.image", "structural"),
        ("ms-ssim", "torchmetrics.functional.image", "structural"),
        ("lab", "kornia.color", "colour"),
    ],
)
def test_names_and_what_to_install(name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = as_metric(name.upper())
    assert metric.name == name
    library = module.partition(".")[0]
    assert f"{library} {sys.modules[library].__version__}" in metric.about
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"metric {name}: needs {library}: pip install 'pwcf\[{extra}\]'"):
        as_metric(name)


def test_the_libraries_are_not_imported_unasked() -> None:
    asked = "import sys, pwcf; pwcf.MinRadius('l2'); print({'torchmetrics', 'kornia'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["ssim", "lab"])
def test_evaluations_answer_both_questions(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 13, 3))
    images = 0.2 + 0.6 * torch.rand(3, 3, 12, 13, generator=generator)
    with torch.no_grad():
        net[1].weight.copy_(0.1 * torch.randn(3, 3 * 12 * 13, generator=generator))
        labels = net(images).argmax(1)
    run = evaluate(net, images, labels, MinRadius(name), budget=200)
    assert run.adversarial.all()
    assert (net(run.x_adv).argmax(1) != labels).all()
    torch.testing.assert_close(run.radius, as_metric(name)(images.double(), run.x_adv.double()))
    # The straight way to the boundary is not the nearest: the metric's slope was followed.
    straight = evaluate(net, images, labels, MinRadius("l2"), budget=200).x_adv
    assert (run.radius < 0.97 * as_metric(name).distance64(images, straight)).all()
    assert run.metric_passes.total.sum() == 0
    assert as_metric(name).about in run.summary()
    within = evaluate(net, images, labels, MaxLoss(name, 1.1 * run.radius), budget=200)
    assert within.adversarial.all()
    assert (within.radius <= 1.1 * run.radius * (1 + 1e-6)).all()
    assert not evaluate(net, images, labels, MaxLoss(name, 0.2 * run.radius), budget=200).adversarial.any()
