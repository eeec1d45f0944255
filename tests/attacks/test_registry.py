"""Names of attacks and presets: what they make, what they leave out, and what is said of a name that is none."""

from __future__ import annotations

import pytest
from torch import Tensor

from pwcf import MaxLoss, MinRadius
from pwcf.attacks import ATTACKS, PRESETS, Answer, Attack, Task, as_attack, resolve_attacks


def test_every_name_makes_an_attack_of_that_name() -> None:
    for name in ATTACKS:
        attack = as_attack(name)
        assert isinstance(attack, Attack)
        assert attack.name == name


def squares(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).flatten(1).square().sum(1)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("problem", [MinRadius("l2"), MaxLoss("linf", 0.1), MinRadius("l1.5"), MinRadius(squares)])
def test_presets_answer_and_say_what_they_leave_out(preset: str, problem: MinRadius | MaxLoss) -> None:
    members = PRESETS[preset].attacks(problem)
    if preset == "autoattack" and problem.metric.name == "squares":
        with pytest.raises(ValueError, match=r"found none; apgd-ce was left out of 'autoattack': .* squares"):
            resolve_attacks(preset, problem, 3, "budget")
        return
    chosen = resolve_attacks(preset, problem, 3, "budget")
    assert len(chosen.attacks) + len(chosen.left_out) == len(members)
    assert chosen.budgets == [PRESETS[preset].budget] * len(chosen.attacks)
    for sentence in chosen.left_out:
        assert "was left out of" in sentence


def test_a_named_attack_that_cannot_answer_says_why() -> None:
    with pytest.raises(ValueError, match=r"attacks: apgd cannot answer min-radius, l1\.5: "):
        resolve_attacks(["apgd"], MinRadius("l1.5"), 3, "budget")


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="attacks: expected names that differ, found lmn more than once"):
        resolve_attacks(["lmn", "fast"], MinRadius("l2"), 3, "budget")


@pytest.mark.parametrize(
    ("name", "closest"), [("pgd", "apgd"), ("LMN", "lmn"), ("sqare", "square"), ("thorogh", "thorough")]
)
def test_an_unknown_name_suggests_the_closest(name: str, closest: str) -> None:
    with pytest.raises(ValueError, match=rf"found '{name}'; did you mean '{closest}'\?") as raised:
        as_attack(name)
    assert "fw" not in str(raised.value)  # all other names would bury it


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(ValueError, match=r"found 'xyzzy'$"):
        as_attack("xyzzy")


def test_an_attack_needs_a_name_and_a_call_and_has_defaults_for_the_rest() -> None:
    class Still(Attack):
        name = "still"

        def __call__(self, task: Task) -> Answer:
            return Answer(task.images)

    attack = Still()
    assert as_attack(attack) is attack
    assert (attack.about, attack.black_box) == ("Still", False)
    assert attack.unsupported_reason(MinRadius("l2"), None) is None
    assert resolve_attacks(attack, MinRadius("l2"), None, "budget").attacks == [attack]

    class Nameless(Attack):
        name = "nameless"

    with pytest.raises(TypeError, match="abstract"):
        Nameless()  # type: ignore[abstract]


def test_a_callable_that_takes_no_model_images_and_labels_is_told_what_an_attack_is() -> None:
    class Old:
        name = "old"

        def __call__(self, task: Task) -> Tensor:
            return task.images

    with pytest.raises(TypeError, match=r"subclasses of pwcf\.attacks\.Attack or functions .* found Old"):
        as_attack(Old())  # type: ignore[arg-type]


def test_an_attack_that_can_tell_has_more_passes_until_it_converges() -> None:
    several: list[str] = ["lmn", "fab"]
    assert resolve_attacks(several, MinRadius("l2"), 3, "converged").budgets == [10_000, 2000]
    assert resolve_attacks(several, MinRadius("l2"), 3, "budget").budgets == [2000, 2000]
    assert resolve_attacks(several, MaxLoss("l2", 0.1), 3, "converged").budgets == [2000, 2000]
