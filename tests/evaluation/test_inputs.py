"""Samples as people have them give the answers of tensors; what cannot be samples says so."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import pwcf
from pwcf.evaluation.inputs import read_samples

N = 6
QUESTION = pwcf.MinRadius("l2")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))


IMAGES = torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(1))
LABELS = network()(IMAGES).argmax(1)


class Endless(Dataset):
    """One that never says it is over, as many do, and gives arrays and numbers."""

    def __init__(self, item: Callable[[int], object] = lambda i: (IMAGES[i].numpy(), int(LABELS[i]))) -> None:
        self.item = item

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> object:
        return self.item(i % N)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(IMAGES, LABELS, strict=True))


GIVEN = {
    "arrays": (IMAGES.numpy().astype(np.float64), LABELS.numpy()),
    "lists": (IMAGES.tolist(), LABELS.tolist()),
    "list of tensors": ([*IMAGES], [*LABELS]),
    "list of arrays, labels in 8 bits": ([*IMAGES.numpy()], LABELS.numpy().astype(np.uint8)),
    "tensor and list": (IMAGES, LABELS.tolist()),
    "loader": (DataLoader(TensorDataset(IMAGES, LABELS), batch_size=4),),
    "loader of a set": (DataLoader(Endless(), batch_size=4),),
    "set": (Endless(),),
    "stream": (Stream(),),
    "pairs": (list(zip(IMAGES, LABELS, strict=True)),),
    "batches": (iter([(IMAGES[:4], LABELS[:4]), (IMAGES[4:], LABELS[4:])]),),
}


@pytest.mark.parametrize("name", GIVEN)
def test_all_are_read_alike(name: str) -> None:
    given = GIVEN[name]
    images, labels = read_samples(pwcf.Classifier(network()), given[0], given[1] if len(given) > 1 else None)
    assert images.dtype == torch.float32
    assert torch.equal(images, IMAGES)
    assert torch.equal(labels.long(), LABELS)


def test_answers_are_those_of_tensors() -> None:
    expected = pwcf.evaluate(network(), IMAGES, LABELS, QUESTION, budget=60)
    loader = DataLoader(Endless(), batch_size=4)
    for given in (
        pwcf.evaluate(network(), loader, QUESTION, budget=60),
        pwcf.evaluate(network(), loader, None, QUESTION, budget=60),
        pwcf.evaluate(network(), loader, problem=QUESTION, budget=60),
        pwcf.evaluate(network(), IMAGES.numpy(), LABELS.tolist(), QUESTION, budget=60),
    ):
        assert torch.equal(given.x_adv, expected.x_adv)
        assert torch.equal(given.passes.total, expected.passes.total)


def test_a_model_in_double_precision_gets_doubles() -> None:
    images, _ = read_samples(pwcf.Classifier(network().double()), IMAGES.double().numpy(), LABELS.numpy())
    assert images.dtype == torch.float64


def test_arrays_are_copied() -> None:
    array = IMAGES.numpy().copy()
    images, _ = read_samples(pwcf.Classifier(network()), array, LABELS)
    array[:] = 7
    assert torch.equal(images, IMAGES)


class Picture:
    pass


CONVOLUTION = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 4))
WRONG = {
    "shapes of a list": ([[IMAGES[0], IMAGES[0][:, 1:]], [1, 2]], r"found \(1, 6, 6\) and \(1, 5, 6\) \(item 1\)"),
    "shapes of a set": ([Endless(lambda i: (torch.rand(1, 6 + (i > 3), 6), 0))], r"one shape, found .* \(item 4\)"),
    "shapes of batches": ([iter([(IMAGES, LABELS), (IMAGES[:, :, 1:], LABELS)])], "images: expected one shape"),
    "pictures": ([Endless(lambda i: (Picture(), 0))], r"found .*Picture \(item 0\); give the set a transform"),
    "dicts": ([Endless(lambda i: {"image": 0, "label": 1})], r"expected pairs .*found a dict of \['image', 'label'\]"),
    "images alone": ([Endless(lambda i: IMAGES[i])], "expected pairs"),
    "one-hot in a set": ([Endless(lambda i: (IMAGES[i], torch.eye(4)[0]))], "not one-hot rows"),
    "one-hot": ([IMAGES, torch.eye(4)[LABELS]], r"of one-hot rows give labels\.argmax\(1\)"),
    "8 bits": ([(IMAGES * 255).to(torch.uint8).numpy(), LABELS], "divide 8-bit images by 255"),
    "8 bits in a loader": ([Endless(lambda i: ((IMAGES[i] * 255).byte(), 0))], "divide 8-bit images by 255"),
    "fewer labels": ([IMAGES.numpy(), LABELS[:3].numpy()], r"one label per image, shape \(6,\), found \(3,\)"),
    "float labels": ([IMAGES.numpy(), LABELS.numpy() + 0.5], "labels: expected integers"),
    "names of classes": ([IMAGES.numpy(), ["cat"] * 6], "labels: expected the numbers of classes, found str"),
    "no labels": ([IMAGES], "labels: expected one label per image, found none"),
    "labels twice": ([DataLoader(Endless()), LABELS], "labels: expected none beside a DataLoader"),
    "nothing": ([[]], "images: expected samples, found none"),
    "one label": ([IMAGES, 3], "labels: expected a tensor, an array or a list, found int"),
    "no images": ([None, LABELS], "found NoneType"),
    "words": (["images.npz", LABELS], "images: expected tensors or arrays, found str"),
    "objects": ([np.array([None, 1]), LABELS], "images: expected tensors or arrays"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    given, sentence = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=sentence):
        pwcf.evaluate(network(), *given, problem=QUESTION)  # type: ignore[arg-type]


def test_channels_last_are_recognised() -> None:
    with pytest.raises(ValueError, match=r"look like channels last: give images\.permute\(0, 3, 1, 2\)"):
        pwcf.evaluate(CONVOLUTION, np.random.default_rng(0).random((3, 8, 8, 3)), [0, 1, 2], QUESTION)


def test_two_questions_are_refused() -> None:
    with pytest.raises(TypeError, match="found a second question"):
        pwcf.evaluate(network(), IMAGES, QUESTION, QUESTION)


def test_a_callback_hears_of_every_group() -> None:
    heard = []
    many: Tensor = torch.rand(70, 36)
    labels = network()(many).argmax(1)
    run = pwcf.evaluate(network(), many, labels, QUESTION, budget=60, callback=heard.append)
    assert [each.done for each in heard] == [64, 70]
    last = heard[-1].numbers()
    found = run.radius[run.adversarial & (run.radius > 0)]
    assert last["mean_radius"] == pytest.approx(float(found.mean()))
    assert (last["found"], last["attacked"], last["samples"]) == (len(found), 70, 70)
    assert last["passes"] == pytest.approx(float(run.passes.total.double().mean()))
    assert "robust_accuracy" not in last
    eps = pwcf.evaluate(network(), many, labels, pwcf.MaxLoss("l2", 0.05), budget=60, callback=heard.append)
    assert heard[-1].numbers()["robust_accuracy"] == eps.robust_accuracy
    alone = pwcf.evaluate(network(), many, labels, QUESTION, budget=60)
    assert torch.equal(alone.x_adv, run.x_adv)
