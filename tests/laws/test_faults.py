"""Whatever is wrong, pwcf says so in a line and keeps what is not its own: the families of ``tests/faults.py``."""

import pytest

import faults
from pwcf.attacks.external import available
from runfolders import Place, make_place

# Random models and images of one colour bring warnings, which are not the point.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_place(tmp_path_factory.mktemp("faults"), 24)


def test_every_bad_command_line_is_refused_in_one_line(ground: Place) -> None:
    trials = faults.command_lines(ground)
    assert faults.attempt(trials) == {}
    assert len(trials) >= 250


def test_every_bad_call_names_its_argument() -> None:
    trials = faults.python_calls()
    assert faults.attempt(trials) == {}
    assert len(trials) >= 150


def test_damage_is_noticed_and_outputs_keep_what_is_there(ground: Place) -> None:
    damage = faults.damaged_files(ground)
    assert faults.attempt(damage) == {}
    assert len(damage) >= 150
    assert faults.attempt(faults.outputs(ground)) == {}


def test_what_files_say_is_not_believed(ground: Place) -> None:
    assert faults.attempt(faults.contents(ground)) == {}


def test_a_model_cannot_end_a_run_unseen(ground: Place) -> None:
    assert faults.attempt(faults.ending_models(ground)) == {}


def test_threads_may_share_a_model() -> None:
    assert faults.attempt(faults.threads()) == {}


def test_memory_that_is_short_from_the_first_call_on_changes_no_answer() -> None:
    assert faults.attempt(faults.memory()) == {}


def test_everything_works_on_an_accelerator() -> None:
    """On a simulated one, ``tests/simulated_device.py``; ``python benchmarks/faults.py`` has every attack."""
    asked = [
        *(f"{attack}, max-loss" for attack in ("lmn", "pwcf", "apgd-t", "fab", "fw", "square", "ppgd")),
        "lmn, min-radius", "training", "a run folder", *(["fmn, min-radius", "ddn, max-loss"] if available() else []),
    ]  # fmt: skip
    found = faults.devices(asked)
    assert sorted(found) == sorted(asked)
    assert {name: what for name, what in found.items() if what is not None} == {}
