"""What the statistics of a run mean: against values worked out by hand."""

import math
import sys

import pytest

from pwcf._common import statistics
from pwcf._common.wording import eps_text, question_text, share_text

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
