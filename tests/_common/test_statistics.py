"""What the statistics of a run mean: against values worked out by hand."""

import math
import sys

import pytest

from pwcf._common import statistics
from pwcf._common.wording import class_text, eps_text, question_text, share_text

INF = math.inf
# Converged, found without convergence, nothing found, misclassified as it is, no finite logits.
STATUS = ["converged", "budget", "not-found", "already-misclassified", "nonfinite"]
ADVERSARIAL = [True, True, False, True, False]
RADIUS = [1.0, 2.0, INF, 0.0, INF]


def test_masks_leave_out_what_was_not_attacked() -> None:
    assert statistics.defined(STATUS).tolist() == [True, True, True, True, False]
    assert statistics.attacked(STATUS).tolist() == [True, True, True, False, False]
    assert statistics.found(STATUS, ADVERSARIAL).tolist() == [True, True, False, False, False]
    assert statistics.converged(STATUS).tolist() == [True, False, False, False, False]


def test_accuracies_are_over_all_samples() -> None:
    assert statistics.clean_accuracy(STATUS) == 3 / 5
    assert statistics.robust_accuracy(STATUS, ADVERSARIAL) == 1 / 5  # the one without finite logits is not robust
    assert statistics.robust_accuracy_at(STATUS, RADIUS, 1.0) == 2 / 5
    assert statistics.robust_accuracy_at(STATUS, RADIUS, 0.5) == 3 / 5


def test_the_mean_is_of_what_was_found_and_the_median_of_what_was_attacked() -> None:
    assert statistics.mean_radius(STATUS, ADVERSARIAL, RADIUS) == 1.5
    assert statistics.median_radius(STATUS, RADIUS) == 2.0
    assert statistics.median_radius(STATUS[:2], RADIUS[:2]) == 1.5  # between the two in the middle
    assert statistics.median_radius(["converged", "not-found"], [1.0, INF]) == 1.0
    assert statistics.median_radius(["converged", "not-found", "not-found"], [1.0, INF, INF]) == INF
    assert statistics.mean_passes(STATUS, [10, 20, 60, 1, 1]) == 30


def test_of_nothing_nothing_is_said() -> None:
    for value in (
        statistics.clean_accuracy([]),
        statistics.robust_accuracy([], []),
        statistics.robust_accuracy_at([], [], 0.1),
        statistics.mean_radius(STATUS[2:], ADVERSARIAL[2:], RADIUS[2:]),
        statistics.median_radius(STATUS[3:], RADIUS[3:]),
        statistics.mean_passes(STATUS[3:], [1, 1]),
    ):
        assert math.isnan(value)
    assert share_text(math.nan) == "–"


def test_a_share_is_written_one_way_and_rounds_to_no_extreme() -> None:
    assert [share_text(share) for share in (0, 0.0004, 0.35, 0.9996, 1)] == [
        "0.0%",
        "<0.1%",
        "35.0%",
        ">99.9%",
        "100.0%",
    ]
    assert [share_text(share, 0) for share in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "<1%", "50%", ">99%", "100%"]


def test_alone_counts_what_all_had_to_attack() -> None:
    broken = [[True, True, False, True], [True, False, True, False]]
    # The last sample is misclassified as it is by the first one's model.
    assert statistics.broken_alone(broken, [True, True, True, False]) == [1, 1]
    assert statistics.broken_alone(broken, [True] * 4) == [2, 1]
    assert statistics.broken_alone([[], []], []) == [0, 0]


def test_unknown_values_have_no_part_in_quantiles() -> None:
    assert statistics.quantiles([3.0, math.nan, 1.0, 2.0], (0, 0.5, 1)) == [1, 2, 3]
    assert statistics.median([4.0, 1.0]) == 2.5
    assert math.isnan(statistics.median([math.nan]))


@pytest.mark.parametrize("q", [0, 0.05, 0.25, 0.5, 0.8, 1])
def test_quantiles_are_numpys(q: float) -> None:
    numpy = pytest.importorskip("numpy")
    values = numpy.sort(numpy.random.default_rng(0).random(11))
    assert statistics.quantile(values, q) == pytest.approx(numpy.quantile(values, q), rel=1e-12)


def test_a_question_is_written_in_one_way() -> None:
    assert question_text("l2") == "l2"
    assert question_text("l2", targeted=True) == "l2, targeted"
    assert question_text("linf", 8 / 255, "margin") == "linf ≤ 8/255, margin"
    assert question_text("linf", 8 / 255, None, targeted=True) == "linf ≤ 8/255, targeted"
    assert question_text("l1", None, "ce", per_sample=True) == "l1 ≤ eps per sample, ce"
    assert [eps_text(eps) for eps in (8 / 255, 0.3, 12.0)] == ["8/255", "0.3", "12"]


def test_no_network_library_is_loaded() -> None:
    import subprocess

    code = "import sys, pwcf._common.statistics, pwcf._common.wording, pwcf.runs.summary; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_every_class_has_its_own_samples() -> None:
    labels = [4, 4, 0, 0, 0]
    first, second = statistics.by_class(STATUS, ADVERSARIAL, RADIUS, labels, names=["zero"], eps=(0.5, 1.5))
    assert (first.name, first.samples, first.attacked, first.found) == ("zero", 3, 1, 0)
    assert (second.name, second.samples, second.attacked, second.found) == ("class 4", 2, 2, 2)
    assert first.clean_accuracy == 1 / 3
    assert (first.median, second.median) == (INF, 1.5)
    assert first.robust_at == [1 / 3, 1 / 3]  # one is wrong as it is, one has no finite logits
    assert second.robust_at == [1.0, 0.5]
    within = statistics.by_class(STATUS, ADVERSARIAL, RADIUS, labels, max_loss=True)
    assert [each.robust_accuracy for each in within] == [1 / 3, 0.0]
    assert all(math.isnan(each.median) and each.robust_at == [] for each in within)


def classes_of(*some: tuple[int, int, float]) -> list[statistics.ClassStatistics]:
    """From (label, samples, radius)."""
    labels = [label for label, samples, _ in some for _ in range(samples)]
    radii = [radius for _, samples, radius in some for _ in range(samples)]
    return statistics.by_class(["converged"] * len(labels), [True] * len(labels), radii, labels)


def test_the_worst_class_has_enough_samples_and_may_not_be_alone() -> None:
    worst, best = statistics.extremes(classes_of((0, 5, 2.0), (1, 4, 0.1), (2, 6, 1.0), (3, 5, 1.0)), max_loss=False)
    assert [each.label for each in worst] == [2, 3]  # class 1 has too few
    assert [each.label for each in best] == [0]
    assert class_text(best, max_loss=False) == "class 0 (median radius 2, 5 attacked)"
    assert class_text(worst, max_loss=False) == "class 2 and 1 more (median radius 1, 6 attacked)"
    assert statistics.extremes(classes_of((0, 5, 1.0), (1, 5, 1.0)), max_loss=False) is None  # all alike
    assert statistics.extremes(classes_of((0, 5, 1.0), (1, 4, 2.0)), max_loss=False) is None
    assert statistics.extremes([], max_loss=True) is None
    wrong = statistics.by_class(["already-misclassified"] * 5, [True] * 5, [0.0] * 5, [7] * 5)
    worst, _ = statistics.extremes([*classes_of((0, 5, 1.0)), *wrong], max_loss=False)
    assert class_text(worst, max_loss=False) == "class 7 (none of 5 attacked)"
