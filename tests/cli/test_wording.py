"""What commands say of radii, of targeted runs, and of runs that are no match."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pwcf
from pwcf._common import statistics
from pwcf._common.wording import radius_text
from pwcf.cli import main
from runfolders import Place, make_place, told


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """``failing``: of most samples no point is found."""
    place = make_place(tmp_path_factory.mktemp("words"), 20)
    failing = (place.path / "net.py").read_text() + (
        "\n\ndef stubborn(model, images, labels):\n"
        "    near = labels == labels[1]\n"
        "    away = torch.rand(images.shape, generator=torch.Generator().manual_seed(0))\n"
        "    return torch.where(near[:, None, None, None], away, images)\n"
    )
    (place.path / "net.py").write_text(failing)
    assert place.run("l2", metric="l2", budget=60) == 0
    assert place.run("linf", metric="linf", budget=60) == 0
    assert place.run("few", metric="l2", budget=60, limit=12) == 0
    assert place.run("eps", question="max-loss", metric="l2", eps=0.1, budget=60) == 0
    assert place.run("ce", question="max-loss", metric="l2", eps=0.1, loss="ce", budget=60) == 0
    assert place.run("failing", metric="l2", budget=60, attacks=f"{place.path}/net.py:stubborn") == 0
    assert place.run("targeted", "--targeted", metric="l2", budget=60) == 0
    assert place.run("wanted", "--targeted", question="max-loss", metric="l2", eps=0.1, budget=60) == 0
    return place


def shown(runs: Place, name: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    assert main(["show", str(runs.path / name), *more]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_radii_say_what_they_are_over_and_infinity_is_shown(runs: Place, capsys: pytest.CaptureFixture[str]) -> None:
    run = pwcf.load_run(runs.path / "failing")
    told_radii = told(show_json(runs, "failing", capsys))
    found, attacked = told_radii["found"], told_radii["attacked"]
    assert 0 < found < attacked / 2
    status = [one.value for one in run.status]
    sentence = radius_text(
        statistics.radius_figures(status, run.adversarial.numpy(), run.radius.numpy()), found, attacked
    )
    mean = run.radius[(run.radius > 0) & run.radius.isfinite()].mean()
    assert sentence.startswith(f"mean {mean:.4g} over {found} found, median ∞ over {attacked} attacked, least ")
    assert sentence in shown(runs, "failing", capsys)
    assert sentence in run.summary()
    assert "median ∞" not in shown(runs, "l2", capsys)


def test_page_says_radii_as_the_terminal_does(runs: Place, capsys: pytest.CaptureFixture[str]) -> None:
    from pwcf.report.page.payload import payload_of

    (line,) = [text for text in pwcf.load_run(runs.path / "failing").summary().splitlines() if "radius:" in text]
    (card,) = payload_of([runs.path / "failing"]).content["cards"]
    assert f"R{line.strip()[1:]}." in card["runs"][0]["evidence"]


def show_json(runs: Place, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["show", str(runs.path / name), "--json"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["targeted", "wanted"])
def test_targeted_runs_have_words_of_their_own(runs: Place, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in (shown(runs, name, capsys), pwcf.load_run(runs.path / name).summary()):
        assert "not yet of the wanted class" in text
        assert "already-of-the-wanted-class" in text
        assert not [words for words in ("clean accuracy", "robust accuracy", "already-misc") if words in text]
        assert name != "wanted" or "wanted class not reached" in text
    assert "clean accuracy" in shown(runs, "l2", capsys)


def compared(runs: Place, capsys: pytest.CaptureFixture[str], *names: str) -> tuple[str, dict]:
    paths = [str(runs.path / name) for name in names]
    capsys.readouterr()
    assert main(["compare", *paths]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert main(["compare", *paths, "--json"]) == 0
    return text, told(capsys.readouterr().out)


@pytest.mark.parametrize("other", ["linf", "eps", "targeted"])
def test_nobody_wins_between_different_questions(runs: Place, other: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, content = compared(runs, capsys, "l2", other)
    assert "questions differ" in text
    assert "alone:" not in text
    assert [(each["best"], each["alone"]) for each in content["runs"].values()] == [(None, None)] * 2
    own = pwcf.load_run(runs.path / "l2").radius
    assert content["runs"]["l2"]["mean_radius"] == pytest.approx(float(own[own > 0].mean()))
    alone, content = compared(runs, capsys, "l2")  # against nobody
    assert "alone" not in alone
    assert [(each["best"], each["alone"]) for each in content["runs"].values()] == [(None, None)]
    _, same = compared(runs, capsys, "eps", "ce")  # the loss is a way to search, not another question
    assert None not in [each["best"] for each in same["runs"].values()]


def test_numbers_of_a_comparison_say_which_samples_they_are_over(
    runs: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    text, content = compared(runs, capsys, "l2", "few", "failing")
    assert content["shared"] == 12
    assert "12 of 20" in text
    assert f"mean radius: over the {content['found']} that every run attacked and found a point for" in text
    assert f"median: over the {content['attacked']} that every run attacked" in text
    assert 0 < content["found"] < content["attacked"] < 12
    l2 = pwcf.load_run(runs.path / "l2")
    attacked = l2.radius[:12][l2.radius[:12] > 0]
    assert content["runs"]["l2"]["median_radius"] == pytest.approx(float(np.median(attacked)))
    assert content["runs"]["failing"]["median_radius"] is None  # infinite, which JSON does not have
    assert "∞" in text


def test_runs_without_a_sample_in_common_are_not_compared(
    runs: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_place(tmp_path, 6)
    data = dict(np.load(other.path / "data.npz"))
    np.savez(other.path / "data.npz", images=1 - data["images"], labels=data["labels"])
    assert other.run("other", metric="l2", budget=60) == 0
    capsys.readouterr()
    for more in ([], ["--json"]):
        assert main(["compare", str(runs.path / "l2"), str(other.path / "other"), *more]) == 2
        said = capsys.readouterr()
        assert "expected runs with samples in common" in said.err
        assert "nan" not in said.out


@pytest.mark.parametrize("name", ["few", "wanted"])
def test_several_runs_are_listed_within_eighty_columns(
    runs: Place, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    capsys.readouterr()
    assert main(["show", str(runs.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(name) and line.split()[1] in ("12", "20") for line in lines)
