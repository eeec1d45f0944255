"""PD and LPIPS against their formulas; what networks are asked, and what becomes of them; weights from files."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.metrics import FeatureDistance, Features, Metric, ReferenceDistance, as_metric, lpips, perceptual
from pwcf.metrics.perceptual.backbones import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    NETWORKS,
    Convolutional,
    Fire,
    alexnet,
    default_layers,
)
from pwcf.models import Passes

F64 = torch.float64
CHANNELS, HEIGHT, WIDTH = 2, 8, 9


class Rows(nn.Module):
    """Passes on what it is given and counts its rows. Metrics copy networks: the count is the class's."""

    seen: ClassVar[dict[str, int]] = {}

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        self.seen[self.name] = self.seen.get(self.name, 0) + x.shape[0]
        return x


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    Rows.seen.clear()
    yield
    Rows.seen.clear()


def convolutional(channels: int = CHANNELS) -> nn.Sequential:
    """A classifier of (b, channels, 8, 9) in three classes; counts its calls and those of its last layer."""
    return nn.Sequential(
        Rows("network"), nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3, stride=2), nn.ReLU(),
        Rows("head"), nn.Flatten(), nn.Linear(5 * 2 * 3, 3),
    )  # fmt: skip


def samples(net: nn.Module, n: int = 3, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    images = 0.2 + 0.6 * torch.rand(n, CHANNELS, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)
    with torch.no_grad():
        return images, net(images).argmax(1)


def pair(*shape: int, dtype: torch.dtype = F64) -> Tensor:
    """(2, *shape) of colours."""
    return torch.rand(2, *shape, generator=torch.Generator().manual_seed(2), dtype=dtype)


def phi(maps: list[Tensor]) -> Tensor:
    """The paper's features: channels of unit length at every position, divided by the root of height x width."""
    parts = []
    for map in maps:
        positions = map[0, 0].numel()
        parts.append((map / map.norm(dim=1, keepdim=True).clamp(min=1e-10)).flatten(1) / positions**0.5)
    return torch.cat(parts, 1)


@pytest.mark.parametrize("p", [1, 2])
def test_pd_is_the_norm_of_the_difference_of_normalised_features(p: int) -> None:
    net = convolutional().double()
    x, y = pair(4, CHANNELS, HEIGHT, WIDTH)
    mean, std = torch.tensor([0.4, 0.6], dtype=torch.float32), torch.tensor([0.5, 0.25], dtype=torch.float32)

    def maps(images: Tensor) -> list[Tensor]:
        first = net[:3]((images - mean.double().view(2, 1, 1)) / std.double().view(2, 1, 1))
        return [first, net[3:5](first)]

    metric = perceptual(net, p=p, mean=mean, std=std)
    expected = torch.linalg.vector_norm(phi(maps(x)) - phi(maps(y)), ord=p, dim=1)
    torch.testing.assert_close(metric(x, y), expected)
    assert (metric(x, x) == 0).all()
    assert metric.name == ("pd" if p == 2 else "pd-l1")
    assert metric.about == f"PD, l{p} over features of a Sequential"


def test_slopes_are_finite_at_the_reference_and_right_elsewhere() -> None:
    net = convolutional().double()
    x, y = pair(2, CHANNELS, HEIGHT, WIDTH)
    metric = perceptual(net)
    assert torch.autograd.gradcheck(lambda z: metric(x, z), y.requires_grad_(True))
    leaf = x.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(metric(x, leaf).sum(), leaf)
    assert (slope == 0).all()


def test_channels_that_are_all_zero_are_no_division_by_zero() -> None:
    net = convolutional().double()
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].bias.fill_(-1.0)
    x, y = pair(2, CHANNELS, HEIGHT, WIDTH)
    leaf = y.requires_grad_(True)
    distance = perceptual(net)(x, leaf)
    (slope,) = torch.autograd.grad(distance.sum(), leaf)
    assert (distance == 0).all()
    assert (slope == 0).all()


def test_tokens_have_their_channels_last_and_sequences_second() -> None:
    x, y = pair(3, 5, 4)

    def expected(at: int) -> Tensor:
        u, v = (nn.functional.normalize(images, dim=at) for images in (x, y))
        return (u - v).flatten(1).norm(dim=1) / (20 / x.shape[at]) ** 0.5

    tokens = perceptual(nn.Sequential(nn.Identity()), layers=["0"])
    torch.testing.assert_close(tokens(x, y), expected(2))
    one = nn.Conv1d(5, 5, 1, bias=False).double()
    with torch.no_grad():
        one.weight.copy_(torch.eye(5).unsqueeze(-1))
    torch.testing.assert_close(perceptual(nn.Sequential(one), layers=["0"])(x, y), expected(1))


def test_a_layer_that_is_used_twice_counts_twice() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.relu = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 4, 3), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.relu(self.second(self.relu(self.first(x))))

    net = Shared().double()
    x, y = pair(2, 2, 6, 6)
    metric = perceptual(net)

    def maps(images: Tensor) -> list[Tensor]:
        first = net.first(images).relu()
        return [first, net.second(first).relu()]

    for _ in range(2):  # the second time it is known how many there are
        torch.testing.assert_close(metric(x, y), (phi(maps(x)) - phi(maps(y))).norm(dim=1))


def test_nothing_is_computed_beyond_the_last_layer_once_it_is_known() -> None:
    metric = perceptual(convolutional())
    x, y = pair(3, CHANNELS, HEIGHT, WIDTH, dtype=torch.float32)
    metric(x, y)
    assert Rows.seen == {"network": 6, "head": 3}
    metric(x, y)
    assert Rows.seen == {"network": 12, "head": 3}
    metric(x.double(), y.double())  # a copy of its own
    assert Rows.seen == {"network": 18, "head": 6}


def test_the_users_network_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Conv2d(CHANNELS, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(), nn.Flatten()).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, y = pair(3, CHANNELS, HEIGHT, WIDTH, dtype=torch.float32)
    for metric in (perceptual(net), perceptual("self").bind(Classifier(net))):
        distance = metric(x, y)
        torch.testing.assert_close(metric(x[:1], y[:1])[0], distance[0])  # in eval mode for it
        metric(x.double(), y.double())
    assert all(module.training for module in net.modules())
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert all(not module._forward_hooks for module in net.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert next(net.parameters()).dtype == torch.float32


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_are_gone_after_the_call(fails: bool) -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    net = nn.Sequential(nn.ReLU(), Pair())
    features = Features(net, ["0", "1"] if fails else ["0"])
    if fails:
        with pytest.raises(TypeError, match=r"layers: expected modules that return tensors, '1' returns .*tuple"):
            features(torch.rand(2, 3))
    else:
        features(torch.rand(2, 3))
    assert all(not module._forward_hooks for module in net.modules())


def test_layers_that_do_not_fit_are_named() -> None:
    net = convolutional()
    net.unused = nn.ReLU()
    net.forward = lambda x: net[:4](x)  # type: ignore[method-assign]
    with pytest.raises(
        ValueError, match=r"layers: expected names of the network's modules such as '0'.*found \['ten'\]"
    ):
        perceptual(net, layers=["1", "ten"])
    with pytest.raises(ValueError, match=r"layers: expected layers that the network uses, found \['unused'\]"):
        Features(net, ["1", "unused"])(torch.rand(1, CHANNELS, HEIGHT, WIDTH))
    with pytest.raises(ValueError, match="layers: expected at least one"):
        Features(net, [])
    with pytest.raises(ValueError, match="heads: expected one for each of 2 layers, found 1"):
        Features(net, ["1", "2"], heads=[torch.ones(4)])
    with pytest.raises(ValueError, match="layers: expected names, for the network has neither"):
        perceptual(nn.Flatten())


def test_default_layers_are_activations_or_convolutions_or_hidden_linear_ones() -> None:
    assert default_layers(convolutional()) == ["2", "4"]
    assert default_layers(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2))) == ["0"]
    assert default_layers(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))) == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"backbone": "resnet"}, "backbone: expected one of alexnet, vgg16, squeezenet1_1, 'self'"),
        ({"p": 3}, "p: expected 1 or 2, found 3"),
        ({"mean": 0.5}, "mean, std: expected only with a module"),
        ({"backbone": nn.ReLU(), "mean": 0.5}, "mean, std: expected both or neither, found mean alone"),
        ({"backbone": nn.ReLU(), "weights": "file"}, "weights: expected only with a named backbone"),
        ({"backbone": "self", "weights": "file"}, "weights: expected only with a named backbone"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        perceptual(**arguments)


def test_pd_self_needs_a_classifier_that_is_a_module() -> None:
    x = torch.rand(1, CHANNELS, HEIGHT, WIDTH)
    with pytest.raises(ValueError, match=r"metric pd-self: measures with the classifier"):
        as_metric("pd-self")(x, x)
    with pytest.raises(TypeError, match=r"metric pd-self-l1: expected a classifier that is a torch.nn.Module, found"):
        as_metric("pd-self-l1").bind(Classifier(lambda x: x.flatten(1)))


def test_references_are_looked_at_once_and_passes_counted_for_the_samples_they_serve() -> None:
    images, points = pair(3, CHANNELS, HEIGHT, WIDTH, dtype=torch.float32)
    passes = Passes.none(6)
    metric = perceptual(convolutional())
    measure = ReferenceDistance(metric, images, torch.tensor([4, 0, 2]), passes, batch=2)
    assert Rows.seen == {}
    rows = torch.tensor([2, 0, 2])
    values = measure.values(points, rows)
    torch.testing.assert_close(values, metric(images[rows], points))
    Rows.seen.clear()
    assert passes.forward.tolist() == [1, 0, 3, 0, 2, 0]  # of the images one each, and of the points
    distance, slope = measure.value_and_gradient(points, rows)
    assert Rows.seen["network"] == 3
    torch.testing.assert_close(distance, values)
    assert (slope.flatten(1).norm(dim=1) > 0).all()
    assert passes.forward.tolist() == [1, 0, 5, 0, 3, 0]
    assert passes.backward.tolist() == [0, 0, 2, 0, 1, 0]
    exact = measure.distance64(points)
    assert Rows.seen["network"] == 9  # nothing that was prepared
    assert passes.forward.tolist() == [3, 0, 7, 0, 5, 0]
    torch.testing.assert_close(exact, metric(images.double(), points.double()))


@pytest.mark.parametrize("question", ["min-radius", "max-loss"])
def test_passes_of_the_metrics_network_are_counted_apart_from_the_classifiers(question: str) -> None:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows, self.linear = Rows("classifier"), nn.Linear(CHANNELS * HEIGHT * WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(self.rows(x).flatten(1))

    net = Linear()
    images, labels = samples(net)
    metric = perceptual(convolutional())
    problem = MinRadius(metric) if question == "min-radius" else MaxLoss(metric, 0.05)
    Rows.seen.clear()
    run = evaluate(net, images, labels, problem, budget=100)
    assert int(run.passes.forward.sum()) == Rows.seen["classifier"]
    assert int(run.metric_passes.forward.sum()) == Rows.seen["network"]
    assert (run.metric_passes.backward > 0).all()
    assert (run.passes.total <= 100).all()


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
def test_pd_self_answers_both_questions(dtype: torch.dtype) -> None:
    net = convolutional().to(dtype)
    images, labels = samples(net, dtype=dtype)
    classifier = Classifier(net, mean=[0.5, 0.4], std=[0.25, 0.5])
    with torch.no_grad():
        labels = classifier(images).argmax(1)
    run = evaluate(classifier, images, labels, MinRadius("pd-self"), budget=1000)
    assert run.adversarial.all()
    assert (classifier(run.x_adv).argmax(1) != labels).all()
    own = perceptual(net, mean=[0.5, 0.4], std=[0.25, 0.5])
    torch.testing.assert_close(run.radius, own(images.double(), run.x_adv.double()), rtol=1e-5, atol=0)
    assert "pd-self" in str(run.problem)
    assert "PD, l2 over the classifier's own features (Sequential)" in run.summary()
    # The distance is this metric's: the nearest points in l2 are farther in it.
    other = evaluate(classifier, images, labels, MinRadius("l2"), budget=1000).x_adv
    assert (run.radius <= own.distance64(images, other) * (1 + 1e-6)).all()
    assert (run.radius < 0.99 * own.distance64(images, other)).any()
    # What a search with a third of the passes reached: at equal budgets two searches may end in different minima.
    eps = 1.1 * evaluate(classifier, images, labels, MinRadius("pd-self"), budget=330).radius + 1e-9
    inside = evaluate(classifier, images, labels, MaxLoss("pd-self", eps), budget=1000)
    if dtype == F64:
        assert inside.adversarial.all()
    else:  # rows are rounded otherwise where others have left, and this net amplifies it: some end in other minima
        assert inside.adversarial.double().mean() > 0.5
    assert (inside.radius <= eps * (1 + 1e-6))[inside.adversarial].all()
    assert not evaluate(classifier, images, labels, MaxLoss("pd-self", 0.2 * run.radius), budget=200).adversarial.any()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with weights of AlexNet made at random, as the real ones are called; with more than is used."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(3)
    state = {**alexnet().state_dict(), "classifier.6.bias": torch.zeros(7)}
    torch.save(state, folder / "alexnet-1234abcd.pth")
    heads = {f"lin{i}.model.1.weight": torch.rand(1, c, 1, 1) for i, c in enumerate(NETWORKS["alexnet"].channels)}
    torch.save(heads, folder / "lpips_lin_alex_v0.1.pt")
    return folder


@pytest.fixture
def _nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without weights."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("PWCF_WEIGHTS", raising=False)


def alexnet_maps(files: Path, images: Tensor) -> list[Tensor]:
    net = alexnet().double()
    state = torch.load(files / "alexnet-1234abcd.pth", weights_only=True)
    net.load_state_dict({name: value for name, value in state.items() if name.startswith("features")})
    mean, std = (torch.tensor(v, dtype=torch.float32).double().view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    x, maps = (images - mean) / std, []
    for module in net.features:
        x = module(x)
        maps += [x] if isinstance(module, nn.ReLU) else []
    return maps


@torch.no_grad()
def test_lpips_is_the_weighted_mean_of_squared_differences(files: Path) -> None:
    x, y = pair(2, 3, 36, 45)
    state = torch.load(files / "lpips_lin_alex_v0.1.pt", weights_only=True)
    expected = torch.zeros(2, dtype=F64)
    for i, (u, v) in enumerate(zip(alexnet_maps(files, x), alexnet_maps(files, y), strict=True)):
        squares = (u / u.norm(dim=1, keepdim=True) - v / v.norm(dim=1, keepdim=True)) ** 2
        expected += (state[f"lin{i}.model.1.weight"].double() * squares).sum(1).mean((1, 2))
    metric = lpips(weights=files / "alexnet-1234abcd.pth")  # the heads lie beside them
    torch.testing.assert_close(metric(x, y), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(metric(x.float(), y.float()), expected.float(), rtol=1e-4, atol=0)
    assert torch.equal(metric.distance64(x.float(), y.float()), metric(x.float().double(), y.float().double()))


@torch.no_grad()
@pytest.mark.usefixtures("_nothing_cached")
def test_names_find_their_weights_and_say_which(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWCF_WEIGHTS", os.pathsep.join(["/nowhere", str(files)]))
    x, y = pair(1, 3, 32, 32)
    difference = phi(alexnet_maps(files, x)) - phi(alexnet_maps(files, y))
    for name, expected in (("pd", difference.norm(dim=1)), ("pd-l1", difference.abs().sum(1))):
        metric = as_metric(name)
        assert metric.name == name
        torch.testing.assert_close(metric(x, y), expected, rtol=1e-6, atol=0)
        assert "over alexnet, weights with SHA-256 " in metric.about
    metric = as_metric("LPIPS")
    assert metric.name == "lpips"
    assert metric.about.startswith("LPIPS v0.1 with alexnet, weights with SHA-256 ")
    assert ", heads with SHA-256 " in metric.about
    assert float(metric(x, y)) == float(lpips("alex")(x, y)) > 0


@torch.no_grad()
def test_grey_images_are_shown_to_a_network_of_colours(files: Path) -> None:
    metric = perceptual("alexnet", weights=files / "alexnet-1234abcd.pth")
    x, y = pair(2, 1, 32, 32)
    assert torch.equal(metric(x, y), metric(x.expand(-1, 3, -1, -1), y.expand(-1, 3, -1, -1)))


def test_images_a_network_has_nothing_left_of_are_named(files: Path) -> None:
    metric = perceptual("alexnet", weights=files / "alexnet-1234abcd.pth")
    x = torch.rand(1, 3, 28, 28)
    with pytest.raises(ValueError, match=r"images: expected larger ones, .* 28 x 28 \(AlexNet: 31 a side\)"):
        metric(x, x)
    assert float(metric(torch.rand(1, 3, 31, 31), torch.rand(1, 3, 31, 31))) > 0


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_have_the_channels_heads_are_made_for(name: str) -> None:
    entry = NETWORKS[name]
    network = entry.build()
    assert isinstance(network, Convolutional)
    heads = [torch.full((c,), 1.0 + i) for i, c in enumerate(entry.channels)]
    features = Features(network, entry.layers, IMAGENET_MEAN, IMAGENET_STD, heads)
    # Channels have length 1 at every position, of which the mean is taken: heads of a layer alone remain.
    found = features(torch.rand(1, 3, 33, 32)).square().sum(1)
    torch.testing.assert_close(found, torch.tensor([sum(1.0 + i for i in range(len(heads)))]))


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_the_last_before_every_pool_and_after_the_last_pool_those_of_lpips(name: str) -> None:
    modules = list(NETWORKS[name].build().features)
    pools = [place for place, module in enumerate(modules) if isinstance(module, nn.MaxPool2d)]
    after = [place for place, module in enumerate(modules) if place > pools[-1] and isinstance(module, (nn.ReLU, Fire))]
    expected = [place - 1 for place in pools] + (after[-1:] if name == "vgg16" else after)
    assert NETWORKS[name].layers == tuple(f"features.{place}" for place in expected)


class Runs:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_files_that_are_no_weights_are_named_and_nothing_in_them_runs(files: Path, tmp_path: Path) -> None:
    wrong, trace = tmp_path / "wrong.pth", tmp_path / "trace"
    good = files / "alexnet-1234abcd.pth"

    def says(said: str) -> None:
        with pytest.raises(ValueError, match=said):
            perceptual("alexnet", weights=wrong)
        with pytest.raises(ValueError, match=said.replace("weights:", "heads:")):
            lpips(weights=good, heads=wrong)

    for text in ("<html>404: not found</html>", ""):
        wrong.write_text(text)
        says("weights: expected a file of weights that torch.load reads with weights_only=True, found")
    torch.save({"features.0.weight": Runs(trace)}, wrong)
    says("weights: expected a file of weights")
    wrong.write_bytes(pickle.dumps(Runs(trace)))
    says("weights: expected a file of weights")
    assert not trace.exists()
    pickle.loads(wrong.read_bytes())
    assert trace.exists()  # it would have been
    torch.save(torch.zeros(3), wrong)
    says("weights: expected a state dict, names to tensors, found Tensor in")
    with pytest.raises(FileNotFoundError, match="weights: expected a file of weights, found none at"):
        perceptual("alexnet", weights=tmp_path / "absent.pth")


def test_weights_and_heads_of_another_network_are_named(files: Path) -> None:
    good, heads = files / "alexnet-1234abcd.pth", files / "lpips_lin_alex_v0.1.pt"
    with pytest.raises(
        ValueError, match=r"weights: expected those of squeezenet1_1, found none that fit for features.0"
    ):
        perceptual("squeezenet1_1", weights=good)
    with pytest.raises(ValueError, match=r"heads: expected 64 weights >= 0 as lin0.model.1.weight in"):
        lpips(weights=good, heads=good)
    negative = {name: -value for name, value in torch.load(heads, weights_only=True).items()}
    torch.save(negative, files / "negative.pt")
    with pytest.raises(ValueError, match="heads: expected 64 weights >= 0"):
        lpips(weights=good, heads=files / "negative.pt")
    with pytest.raises(ValueError, match="network: expected one of alexnet, vgg16, squeezenet1_1, found 'resnet'"):
        lpips("resnet")


@pytest.mark.usefixtures("_nothing_cached")
@pytest.mark.parametrize(
    ("name", "file"), [("lpips-vgg", "vgg16"), ("lpips-squeeze", "squeezenet1_1"), ("pd", "alexnet")]
)
def test_absent_weights_say_where_they_are_looked_for(name: str, file: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"weights of {file}: no {file}_features.pt .*PWCF_WEIGHTS"):
        as_metric(name)


@pytest.mark.usefixtures("_nothing_cached")
def test_absent_heads_say_where_they_are_looked_for(files: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("lpips") is not None:
        pytest.skip("the package lpips has them")
    alone = tmp_path / "alexnet.pt"
    alone.write_bytes((files / "alexnet-1234abcd.pth").read_bytes())
    with pytest.raises(FileNotFoundError, match=r"LPIPS's heads: no lpips_lin_alex_v0.1.pt .*PWCF_WEIGHTS"):
        lpips(weights=alone)


def test_an_absent_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r"backbone 'timm:resnet18': needs timm, which does not import"):
        perceptual("timm:resnet18")


@torch.no_grad()
def test_lpips_of_its_own_examples() -> None:
    beside = Path(__file__).resolve().parents[3] / "shared" / "realdata"
    folder = Path(os.environ.get("PWCF_REALDATA") or beside)
    if not (folder / "zoo.py").exists():
        pytest.skip("no folder of real networks: PWCF_REALDATA names it")
    spec = importlib.util.spec_from_file_location("zoo", folder / "zoo.py")
    assert spec is not None
    assert spec.loader is not None
    zoo = importlib.util.module_from_spec(spec)
    sys.modules["zoo"] = zoo  # its dataclasses look themselves up
    spec.loader.exec_module(zoo)
    reference, *others = zoo.load_lpips_examples()
    metric = lpips(weights=folder / "lpips" / "alexnet_features.pt")
    assert isinstance(metric, FeatureDistance)
    assert isinstance(metric, Metric)
    assert [float(metric(reference, other)) for other in others] == pytest.approx([0.7219, 0.1376], abs=1e-4)
