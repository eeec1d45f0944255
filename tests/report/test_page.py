"""``pwcf report``: what is in the page, that it is safe and self-contained, and how it behaves in a real browser."""

import base64
import dataclasses
import io
import json
import re
import shlex
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from PIL import Image

from browser import Visit, started
from pwcf import analysis
from pwcf._common.atomic import WriteError
from pwcf._common.wording import gain_text, share_text
from pwcf.cli import main
from pwcf.report import FIGURES, TABLES, figures, write_figures, write_page
from pwcf.report.page.gallery import are_images, note_on, perturbation_of, picture_of
from pwcf.report.page.payload import command_of, payload_of
from pwcf.report.page.runs import PageRun, embedded_json, tones
from pwcf.report.registry import FigureKind, TableKind
from pwcf.report.table_format import Table
from pwcf.runs import RunFolder, load_run
from pwcf.runs.folder import write_json
from runfolders import Place

# Names as an enemy would choose them; as folders they are classes, as files models.
HOSTILE = "<script>alert(1)<&>'\"‮"
NET = """
import torch
from torch import nn


def {name}():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Flatten(), nn.Linear({size}, 16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        made[3].weight *= 4
        made[1].weight += {change} * torch.randn_like(made[1].weight)
    return made
"""


def write_data(path: Path, shape: tuple[int, ...], samples: int, names: tuple[str, ...] = ("net",)) -> Place:
    """data.npz and net.py with a function for each name. Labels are the first one's but for every fifth."""
    size = int(np.prod(shape))
    text = "".join(NET.format(name=name, change=0.05 * i, size=size) for i, name in enumerate(names))
    path.mkdir(parents=True, exist_ok=True)
    (path / "net.py").write_text(text)
    scope: dict = {}
    exec(text, scope)
    images = torch.rand(samples, *shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        labels = scope[names[0]]()(images).argmax(1)
    labels[::5] = (labels[::5] + 1) % 3
    np.savez(path / "data.npz", images=images.numpy(), labels=labels.numpy())
    return Place(path)


@pytest.fixture(scope="module")
def grey(tmp_path_factory) -> Place:
    """Two models, two metrics, both questions."""
    place = write_data(tmp_path_factory.mktemp("grey"), (1, 6, 6), 60, ("first", "second"))
    for name in ("first", "second"):
        model = f"{place.path}/net.py:{name}"
        for metric in ("l2", "linf"):
            assert place.run(f"{name}-{metric}", model=model, metric=metric, budget=120, attacks="pwcf,fab") == 0
        assert place.run(f"{name}-eps", model=model, question="max-loss", metric="linf", eps="8/255", budget=60) == 0
    return place


RUNS = ("first-l2", "second-l2", "first-linf", "second-linf", "first-eps", "second-eps")


def folders(place: Place, *names: str) -> list[Path]:
    return [place.path / name for name in names or RUNS]


@pytest.fixture(scope="module")
def colour(tmp_path_factory) -> Place:
    """Images in class folders whose names are hostile, and a model whose file is."""
    place = write_data(tmp_path_factory.mktemp("colour"), (3, 8, 8), 12)
    data = np.load(place.path / "data.npz")
    for i, (image, label) in enumerate(zip(data["images"], data["labels"], strict=True)):
        folder = place.path / "images" / f"{HOSTILE}{label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image.transpose(1, 2, 0) * 255).round().astype(np.uint8)).save(folder / f"{i}.png")
    name = "</script><img src=x onerror=alert(2)>.py".replace("/", "")
    (place.path / "net.py").rename(place.path / name)
    assert place.run("out", model=f"{place.path}/{name}:net", data=place.path / "images", metric="l2", budget=60) == 0
    return place


# Pictures


def opened(picture: str) -> np.ndarray:
    """A picture as another library reads it."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture))))


def test_pictures_are_what_other_libraries_read() -> None:
    torch.manual_seed(0)
    for shape in ((1, 5, 7), (3, 5, 7), (3, 32, 32), (1, 28, 28)):
        image = torch.rand(shape)
        expected = (image * 255).round().byte().permute(1, 2, 0).numpy()
        assert np.array_equal(opened(picture_of(image, (0, 1))), expected.squeeze())
        smooth = torch.linspace(0, 1, shape[1]).expand(shape[0], shape[2], shape[1]).mT.contiguous()
        assert np.array_equal(
            opened(picture_of(2 * smooth - 1, (-1, 1))),
            (smooth * 255).round().byte().permute(1, 2, 0).numpy().squeeze(),
        )


def test_a_perturbation_fills_the_scale_and_says_by_how_much() -> None:
    image = torch.full((1, 4, 4), 0.5)
    point = image.clone()
    point[0, 0, 0], point[0, 1, 1] = 0.75, 0.25
    found = perturbation_of(image, point, (0, 1))
    assert found is not None
    assert found.factor == pytest.approx(2.0)  # a change of .25 is shown as .5, from the middle to the end
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(found.picture))).convert("RGB")).astype(int)
    red, _, blue = picture[0, 0]
    assert red > blue + 100  # brighter is red
    red, _, blue = picture[1, 1]
    assert blue > red + 100
    assert np.ptp(picture[3, 3]) == 0  # nothing: grey
    assert perturbation_of(image, image, (0, 1)) is None
    colour = torch.full((3, 4, 4), 0.5)
    moved = colour.clone()
    moved[0, 2, 2] += 0.001
    shown = opened(perturbation_of(colour, moved, (0, 1)).picture)
    assert shown[2, 2].tolist() == [255, 128, 128]
    assert shown[0, 0].tolist() == [128, 128, 128]


def test_pictures_of_unusual_inputs_say_so() -> None:
    assert not are_images((36,))
    assert "no images" in note_on((36,))
    assert "mean" in note_on((5, 8, 8))
    assert opened(picture_of(torch.rand(5, 8, 8), (0, 1))).shape == (8, 8)
    assert "smaller" in note_on((3, 224, 224))
    assert max(opened(picture_of(torch.rand(3, 224, 160), (0, 1))).shape) <= 96
    assert note_on((3, 32, 32)) is None


# What the page is told


def test_the_payload_has_the_numbers_of_the_analysis(grey: Place) -> None:
    content = payload_of(folders(grey)).content
    assert [each["name"] for each in content["runs"]] == [
        "first · l2", "second · l2", "first · linf", "second · linf", "first · linf ≤ 8/255", "second · linf ≤ 8/255",
    ]  # fmt: skip
    run = load_run(grey.path / "first-l2")
    median = analysis.quantiles_of(run, (0.5,))[0.5]
    card = next(each for each in content["cards"] if each["title"].endswith("point, l2"))
    assert card["runs"][0]["value"] == pytest.approx(median)
    assert f"{median:.4g}" in card["runs"][0]["sentence"]
    assert "48 of 48 attacked" in card["runs"][0]["evidence"][0]
    accuracy = analysis.accuracy_of(load_run(grey.path / "first-eps"))
    card = next(each for each in content["cards"] if each["title"].endswith("linf 8/255"))
    assert card["runs"][0]["value"] == pytest.approx(accuracy.robust)
    assert card["runs"][0]["low"] == pytest.approx(accuracy.low)
    curve = analysis.curve_of(run)
    panel = next(each for each in content["curves"] if each["metric"] == "l2")
    assert panel["curves"][0]["eps"] == pytest.approx(curve.eps.tolist())
    assert {point["run"] for each in content["curves"] for point in each["points"]} == {4, 5}
    rows = content["runs"][0]["rows"]
    assert rows["radius"] == pytest.approx(run.radius.tolist(), rel=1e-4)
    radii = next(each for each in content["radii"] if each["name"] == "l2")
    assert sum(radii["rows"][0]["bins"]) == 48
    # The smallest radius is that of the first of the easiest, which is in the gallery.
    easiest = radii["rows"][0]["easiest"][0]
    assert easiest["radius"] == pytest.approx(min(r for r in run.radius.tolist() if r > 0))
    assert content["samples"][easiest["sample"]]["index"] == easiest["index"]
    assert content["cross"][0]["metrics"] == ["l2", "linf"]
    assert content["agreements"] == []  # what an attack breaks by itself a run of several does not tell


def test_images_are_stored_once_for_all_runs_and_checked(grey: Place, tmp_path: Path) -> None:
    payload = payload_of(folders(grey))
    assert payload.remarks == []
    assert len(payload.content["samples"]) == 60
    assert all(each["picture"] for each in payload.content["samples"])
    data = np.load(grey.path / "data.npz")
    sample = payload.content["samples"][7]
    expected = (data["images"][sample["index"]][0] * 255).round().astype(np.uint8)
    assert np.array_equal(opened(sample["picture"]), expected)
    run = load_run(grey.path / "first-l2")
    rows = payload.content["runs"][0]["rows"]
    place = rows["sample"].index(7)
    point = (run.x_adv[place, 0] * 255).round().clamp(0, 255).byte().numpy()
    assert np.array_equal(opened(rows["adversarial_picture"][place]), point)
    # Other images under the same name are not shown as the originals.
    np.savez(tmp_path / "other.npz", images=1 - data["images"], labels=data["labels"])
    header = json.loads((grey.path / "first-l2" / "header.json").read_text())
    header["settings"]["data"] = str(tmp_path / "other.npz")
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in (grey.path / "first-l2").iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    write_json(moved / "header.json", header)
    payload = payload_of([moved])
    assert "not those of the run" in payload.remarks[0]
    assert all(each["picture"] is None for each in payload.content["samples"])
    assert all(picture is None for picture in payload.content["runs"][0]["rows"]["perturbation_picture"])
    assert any(payload.content["runs"][0]["rows"]["adversarial_picture"])
    # Nor is anything made up where there are none.
    header["settings"]["data"] = str(tmp_path / "gone.npz")
    write_json(moved / "header.json", header)
    remarks = payload_of([moved]).remarks
    assert len(remarks) == 1
    assert "gone.npz" in remarks[0]
    assert "--data" in remarks[0]
    # And with their place given all is there again.
    payload = payload_of([moved], data=str(grey.path / "data.npz"))
    assert payload.remarks == []
    assert all(each["picture"] for each in payload.content["samples"])


def test_a_limited_gallery_keeps_both_ends_and_says_so(grey: Place) -> None:
    content = payload_of(folders(grey, "first-l2", "first-linf"), gallery=8).content
    assert content["shown"] == 8
    assert content["total"] == 60
    for which, name in enumerate(("first-l2", "first-linf")):
        radii = [radius for radius in load_run(grey.path / name).radius.tolist() if 0 < radius < np.inf]
        shown = [radius for radius in content["runs"][which]["rows"]["radius"] if radius]
        assert min(radii) == pytest.approx(min(shown), rel=1e-4)
        assert max(radii) == pytest.approx(max(shown), rel=1e-4)
    for most in (0, 1, 3, 59, 60):
        assert payload_of(folders(grey, "first-l2", "first-linf"), gallery=most).content["shown"] == most


def test_labels_are_no_longer_than_needed(grey: Place) -> None:
    def names(*which: str) -> list[str]:
        return [
            label.name
            for label in analysis.run_labels([load_run(grey.path / each, tensors=False) for each in which], which)
        ]

    assert names("first-l2") == ["first · l2"]
    assert names("first-l2", "first-linf") == ["l2", "linf"]
    assert names("first-l2", "second-l2") == ["first", "second"]
    assert names("first-l2", "first-l2") == ["first · l2", "first · l2 (2)"]
    assert analysis.eps_text(8 / 255) == "8/255"
    assert analysis.eps_text(0.3) == "0.3"


def test_a_command_to_do_it_again(grey: Place) -> None:
    command = command_of(load_run(grey.path / "first-eps", tensors=False).header)
    assert command.startswith("pwcf run ")
    assert "--eps 8/255" in command or "--eps 0.03" in command
    assert "--metric linf" in command


@pytest.fixture(scope="module")
def vectors(tmp_path_factory) -> Place:
    place = write_data(tmp_path_factory.mktemp("vectors"), (12,), 10)
    assert place.run("out", metric="l2", budget=60) == 0
    return place


def test_vectors_have_no_pictures_and_all_the_rest(vectors: Place) -> None:
    place = vectors
    content = payload_of([place.path / "out"]).content
    assert len(content["samples"]) == 10
    assert not any(each["picture"] for each in content["samples"])
    assert "no images" in content["runs"][0]["note"]
    assert content["remarks"] == []


def test_a_run_that_is_not_complete_says_so(grey: Place, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    folder.mkdir()
    for path in (grey.path / "first-l2").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    RunFolder(folder).drop(1, 32)
    content = payload_of([folder]).content
    assert content["runs"][0]["complete"] is False
    assert any("32 of 60" in sentence for sentence in content["cards"][0]["runs"][0]["evidence"])


# The file


def test_nothing_from_a_run_can_leave_its_place(colour: Place, tmp_path: Path) -> None:
    page = write_page([colour.path / "out"], tmp_path / "report.html", title=f"</title>{HOSTILE}")
    text = page.path.read_text()
    assert text.count("<script") == 3  # the theme, the payload, the page
    assert text.count("</script") == 3
    assert "<img src=x" not in text
    assert text.count("</title>") == 1
    assert embedded_json({"a": "</script><!--&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u003c!--\\u0026\\u2028"}'
    payload = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)
    assert payload is not None
    content = json.loads(payload[1])
    assert all(each["class"].startswith(HOSTILE) for each in content["samples"])


def test_the_file_may_load_nothing(grey: Place, tmp_path: Path) -> None:
    text = write_page(folders(grey), tmp_path / "report.html").path.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in policy[1]
    for address in re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.partition('id="payload"')[0]):
        assert address.endswith("www.w3.org"), address  # a name space, which nobody loads


def test_the_command(grey: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(each) for each in folders(grey)]
    out = tmp_path / "report.html"
    assert main(["report", *runs, "-o", str(out)]) == 0
    assert "60 samples in the gallery" in capsys.readouterr().out
    assert out.stat().st_size > 50_000
    assert main(["report", runs[0], "-o", str(out), "--gallery", "5", "--json", "--title", "Mine"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(out)
    assert told["total"] == 60
    assert "<title>Mine</title>" in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]  # nothing half written beside it
    write_page(runs[:1], out, title="a name that is no text: \udcff", gallery=0)
    assert "no text: ?</h1>" in out.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{place}/nothing", "-o", "{out}/r.html"], "no run there"),
        (["{place}/first-l2", "-o", "{out}/no/r.html"], "expected its folder to exist"),
        (["{place}/first-l2", "-o", "{out}"], "found a folder"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(grey, tmp_path, capsys, words, sentence) -> None:
    given = [word.format(place=grey.path, out=tmp_path) for word in words]
    assert main(["report", *given]) == 2
    told = capsys.readouterr().err.strip()
    assert sentence in told
    assert len(told.splitlines()) == 1


def test_an_earlier_report_outlives_a_failure(grey: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("earlier")

    def full(self: Path, text: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(WriteError, match="disk is full"):
        write_page(folders(grey, "first-l2"), out)
    assert out.read_text() == "earlier"


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def report(grey: Place, tmp_path_factory) -> Path:
    return write_page(folders(grey), tmp_path_factory.mktemp("report") / "report.html").path


@pytest.fixture
def visit(browser, report: Path) -> Iterator[Visit]:
    made = Visit(browser, report)
    yield made
    made.close()
    assert made.complaints == []


SECTIONS = [
    "headline", "accuracy", "radii", "classes", "attacks", "patterns", "cost", "cross", "gallery", "provenance",
    "glossary",
]  # fmt: skip


def first_paint(visit: Visit) -> float:
    """In milliseconds, the least of three: what else the machine does is not the page's fault."""
    found = []
    for _ in range(3):
        visit.page.wait_for_function("performance.getEntriesByType('paint').length > 0")
        found.append(visit.run("performance.getEntriesByType('paint')[0].startTime"))
        if found[-1] < 1000:
            break
        visit.page.reload()
        visit.page.wait_for_selector("html[data-ready]")
    return min(found)


def shown(visit: Visit) -> list[str]:
    return visit.run("[...document.querySelectorAll('main > section')].filter(s => !s.hidden).map(s => s.id)")


def test_all_sections_are_there_in_order_with_what_a_reader_needs(visit: Visit) -> None:
    assert shown(visit) == SECTIONS
    assert visit.page.locator("#contents a").count() == len(SECTIONS)
    assert visit.run("[...document.images].filter(i => !i.alt).length") == 0
    assert visit.run("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    # Every plot says what it shows, and has a table.
    plots = visit.run("[...document.querySelectorAll('.plot')].map(p => p.getAttribute('aria-label'))")
    assert len(plots) >= 8
    assert all(len(text) > 40 for text in plots)
    assert visit.run("[...document.querySelectorAll('figure')].every(f => f.querySelector('details table'))")
    assert visit.run("[...document.querySelectorAll('.plot')].every(p => p.querySelector('svg path, svg rect'))")
    assert visit.run("[...document.querySelectorAll('table')].every(t => t.caption && t.querySelector('th[scope]'))")
    # Headings go down one step at a time.
    levels = visit.run(
        "[...document.querySelectorAll('h1,h2,h3,h4')].filter(h => h.offsetParent).map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert visit.run(
        "[...document.querySelectorAll('button, select, input')]"
        ".every(e => e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim())"
    )
    assert first_paint(visit) < 2000


def column(visit: Visit, head: str) -> list[str]:
    table = visit.page.locator("#headline table", has=visit.page.locator("caption", has_text="All runs"))
    heads = [text.strip() for text in table.locator("thead th").all_inner_texts()]
    at = heads.index(head)
    return [line.locator("th, td").nth(at).inner_text().strip() for line in table.locator("tbody tr").all()]


def test_the_overview_sorts_both_ways_with_unknown_values_last(visit: Visit) -> None:
    head = visit.page.locator("#headline th", has_text="median radius")
    before = column(visit, "median radius")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    falling = column(visit, "median radius")
    known = [float(text) for text in falling if text != "–"]
    assert known == sorted(known, reverse=True)
    assert falling[-2:] == ["–", "–"]
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    rising = column(visit, "median radius")
    assert [float(text) for text in rising if text != "–"] == sorted(known)
    assert rising[-2:] == ["–", "–"]
    assert sorted(before) == sorted(rising)


def test_a_curve_is_read_by_pointer_and_by_keys(visit: Visit, grey: Place) -> None:
    figure = visit.page.locator("#accuracy figure").first
    plot = figure.locator(".plot")
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": 200, "y": 80})
    values = figure.locator(".legend .value").all_inner_texts()
    assert all(re.fullmatch(r"\d+\.\d%", text) for text in values)
    eps = float(figure.locator(".reading").inner_text().rpartition("=")[2])
    # The legend and eps are read off the plot to three digits.
    expected = [load_run(grey.path / name, tensors=False).robust_accuracy_at(eps) for name in ("first-l2", "second-l2")]
    assert [float(text.removesuffix("%")) / 100 for text in values] == pytest.approx(expected, abs=0.04)
    visit.page.mouse.move(0, 0)
    plot.focus()
    plot.press("Home")
    assert figure.locator("output").inner_text().startswith("eps 0:")
    plot.press("ArrowRight")
    plot.press("Shift+ArrowRight")
    assert not figure.locator("output").inner_text().startswith("eps 0:")
    assert figure.locator(".hair").count() == 1
    plot.press("Escape")
    assert figure.locator(".hair").count() == 0
    curves = figure.locator("path.curve")
    assert curves.count() == 2
    toggle = figure.locator(".legend button").first
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    assert curves.count() == 1
    toggle.click()
    assert curves.count() == 2
    figure.locator("summary", has_text="Show as table").click()
    assert figure.locator("tbody tr").count() >= 4


def sweep(visit: Visit, at: int) -> list[list[str]]:
    """The cells of a table of robust accuracy at several eps, its head first."""
    table = visit.page.locator(".sweeps > .panels > div").nth(at).locator("table").first
    return [[cell.strip() for cell in line.locator("th, td").all_inner_texts()] for line in table.locator("tr").all()]


def test_robust_accuracy_at_usual_eps_stands_at_the_top_unfolded(visit: Visit, grey: Place) -> None:
    tables = visit.page.locator(".sweeps > .panels > div > .scroll")
    assert tables.count() == 2
    assert tables.first.is_visible()
    first, cards = visit.page.locator(".sweeps"), visit.page.locator(".cards")
    assert first.bounding_box()["y"] < cards.bounding_box()["y"]
    assert "upper bounds" in first.inner_text().lower()
    for at, metric in enumerate(("l2", "linf")):
        head, *lines = sweep(visit, at)
        runs = [load_run(grey.path / f"{name}-{metric}", tensors=False) for name in ("first", "second")]
        eps = analysis.usual_eps_of([*runs, *([load_run(grey.path / "first-eps")] if metric == "linf" else [])])
        assert head[1:] == ["clean", *map(analysis.eps_text, eps)]
        for line, run in zip(lines, runs, strict=False):
            assert line[1:] == [share_text(run.clean_accuracy), *(share_text(run.robust_accuracy_at(e)) for e in eps)]
    # A max-loss run is a line of its own, with the one number that it has.
    losses = sweep(visit, 1)[3:]
    assert [line[0] for line in losses] == ["first, max-loss", "second, max-loss"]
    within = load_run(grey.path / "first-eps", tensors=False)
    assert [cell for cell in losses[0][2:] if cell] == [share_text(within.robust_accuracy)]
    assert sweep(visit, 1)[0][losses[0].index(share_text(within.robust_accuracy), 2)] == "8/255"


def test_the_eps_may_be_ones_own(browser, grey: Place, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(grey.path / "first-l2"), "-o", str(out), "--eps", "l2=0.125,1/16"]) == 0
    visit = Visit(browser, out)
    run = load_run(grey.path / "first-l2", tensors=False)
    head, line = sweep(visit, 0)
    assert head[2:] == ["0.0625", "0.125"]
    assert line[2:] == [share_text(run.robust_accuracy_at(eps)) for eps in (1 / 16, 0.125)]
    assert visit.complaints == []
    visit.close()


def test_shares_of_16_samples_are_rounded_as_everywhere_else(browser, grey: Place, tmp_path: Path) -> None:
    """Every other one is a tie: 9 of 16 are 56.25%."""
    assert grey.run("few", model=f"{grey.path}/net.py:first", metric="l2", budget=60, limit=16) == 0
    run = load_run(grey.path / "few", tensors=False)
    eps = [radius * 1.001 for radius in sorted(run.radius.tolist()) if 0 < radius < np.inf]
    page = write_page([grey.path / "few"], tmp_path / "report.html", eps={"l2": eps})
    visit = Visit(browser, page.path)
    shares = [run.robust_accuracy_at(each) for each in eps]
    assert len([share for share in shares if (1600 * share) % 200 == 100]) > 3
    assert sweep(visit, 0)[1][2:] == [share_text(share) for share in shares]
    visit.close()


def test_the_worst_class_is_named_and_every_class_has_its_line(visit: Visit, grey: Place) -> None:
    run, within = (load_run(grey.path / name, tensors=False) for name in ("first-l2", "first-eps"))
    classes = analysis.robustness_by_class(within)
    worst = min((each for each in classes if each.samples >= 5), key=lambda each: each.robust_accuracy)
    share = share_text(worst.robust_accuracy)
    losses = visit.page.locator("#classes .panels > div", has_text="Accuracy under attack")
    said = losses.locator(".ends-of").first.inner_text()
    assert said.startswith(f"first: worst {worst.name} (robust accuracy {share}, {worst.samples} samples); best")
    classes = analysis.robustness_by_class(run)
    table = visit.page.locator("#classes table").first
    lines = [line.locator("th, td").all_inner_texts() for line in table.locator("tbody tr").all()]
    assert [line[0] for line in lines] == [each.name for each in classes]
    shown = [f"{each.median:.4g}" if each.attacked else "–" for each in classes]
    assert [line[1].strip() for line in lines] == shown


def test_nothing_is_cut_at_1280_pixels(visit: Visit) -> None:
    cut = "e => e.scrollWidth > e.clientWidth"
    overview = visit.page.get_by_role("region", name="All runs")
    assert not overview.evaluate(cut)
    for table in visit.page.locator(".sweeps > .panels > div > .scroll").all():
        assert not table.evaluate(cut)
    # The chosen text of a filter, and the word that stands in for what one may search.
    room = """e => {
      const pen = document.createElement('canvas').getContext('2d'), style = getComputedStyle(e);
      pen.font = style.font;
      const text = e.tagName === 'SELECT' ? e.selectedOptions[0].textContent : e.placeholder;
      const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
      return e.clientWidth - padding - pen.measureText(text).width;
    }"""
    for control in visit.page.locator(".filters select, .filters input").all():
        for option in range(control.locator("option").count() or 1):
            if control.locator("option").count():
                control.evaluate("(e, i) => { e.selectedIndex = i; }", option)
            assert control.evaluate(room) >= 0


def test_points_at_one_place_are_both_seen(browser, grey: Place, tmp_path: Path) -> None:
    runs = ("first-linf", "first-eps", "first-eps", "second-eps")
    visit = Visit(browser, write_page(folders(grey, *runs), tmp_path / "report.html").path)
    boxes = [each.bounding_box() for each in visit.page.locator("#accuracy .point").all()]
    assert len(boxes) == 3
    places = sorted(box["x"] for box in boxes[:2])
    assert places[1] - places[0] >= 10
    assert boxes[0]["y"] == boxes[1]["y"]
    visit.close()


def test_a_phone_begins_with_a_few_samples(browser, report: Path) -> None:
    visit = Visit(browser, report, width=390, has_touch=True)
    assert visit.page.locator(".sample").count() == 8
    assert visit.run("document.getElementById('gallery').offsetHeight") < 3000
    visit.page.get_by_role("button", name="Show more").tap()
    assert visit.page.locator(".sample").count() == 16
    visit.close()


def test_words_are_explained_where_they_appear_without_a_mouse(visit: Visit) -> None:
    visit.page.locator(".sample button").first.press("Enter")
    summary = visit.page.locator("dialog summary")
    summary.press("Enter")
    told = visit.page.locator("dialog details").inner_text()
    for word in ("gain", "searches that ended here", "stationarity", "violation"):
        assert f"{word}\n" in told
    assert "shrink" in told
    visit.page.keyboard.press("Escape")
    assert {"stationarity", "violation", "converged", "radius"} <= set(
        visit.page.locator("#glossary dt").all_inner_texts()
    )


def cards(visit: Visit) -> list[str]:
    return visit.page.locator(".sample .facts-line strong").all_inner_texts()


def test_the_gallery_sorts_filters_and_searches(visit: Visit) -> None:
    gallery = visit.page.locator("#gallery")
    count = gallery.locator(".count")
    assert count.inner_text() == "60 answers of 360 match, 24 shown."
    radii = [float(text) for text in cards(visit) if text]
    assert radii == sorted(radii)
    gallery.locator("[name='order']").select_option("radius, largest first")
    radii = [float(text) for text in cards(visit) if text]
    assert len(radii) == 24
    assert radii == sorted(radii, reverse=True)
    gallery.get_by_role("button", name="Show more").click()
    assert visit.page.locator(".sample").count() == 48
    gallery.get_by_role("button", name="Show more").click()
    assert visit.page.locator(".sample").count() == 60
    assert gallery.get_by_role("button", name="Show more").count() == 0
    gallery.locator("[name='point']").select_option("wrong as it is")
    assert count.inner_text() == "12 answers of 360 match, 12 shown."
    gallery.get_by_role("button", name="Clear").click()
    assert count.inner_text() == "360 answers of 360 match, 24 shown."
    gallery.locator("[name='class']").select_option(index=1)
    chosen = gallery.locator("[name='class']").input_value()
    assert all(
        text.startswith(chosen) for text in gallery.locator(".facts-line > span:first-child").all_inner_texts()[::2]
    )
    gallery.get_by_role("button", name="Clear").click()
    gallery.locator("[name='search']").fill("nothing like it")
    assert count.inner_text().startswith("Nothing matches")
    gallery.locator("[name='search']").fill("second · l2")
    assert count.inner_text().startswith("60 answers")
    gallery.locator("[name='status']").select_option("already-misclassified")
    assert all("already-misclassified" in text for text in gallery.locator(".badge").all_inner_texts())


def test_the_detail_view_by_keys_alone(visit: Visit) -> None:
    card = visit.page.locator(".sample button").first
    card.focus()
    card.press("Enter")
    dialog = visit.page.locator("dialog[open]")
    assert dialog.count() == 1
    title = dialog.locator("h3").inner_text()
    number = re.match(r"Sample (\d+):", title)
    assert number is not None
    visit.wait_for_fragment(f"#sample-{number[1]}")
    assert dialog.locator(".trio img").count() == 3
    assert dialog.locator(".others tbody tr").count() == 6  # in all runs
    assert "radius" in dialog.inner_text()
    for _ in range(3):  # the keys still work after the view was made anew
        visit.page.keyboard.press("ArrowRight")
    assert "4 of 60" in dialog.inner_text()
    visit.page.keyboard.press("ArrowLeft")
    assert "3 of 60" in dialog.inner_text()
    dialog.get_by_role("button", name="Next sample").click()
    dialog.get_by_role("button", name="Next sample").press("Enter")
    assert "5 of 60" in dialog.inner_text()
    visit.page.keyboard.press("ArrowRight")
    assert "6 of 60" in dialog.inner_text()
    dialog.get_by_role("button", name="Show").nth(1).click()
    assert "first · linf" in dialog.locator(".note").first.inner_text()
    visit.wait_for_fragment(":2")
    assert visit.run("document.activeElement.id") == "detail-title"  # what is new is read, and the keys go on
    before = dialog.locator("h3").inner_text()
    visit.page.keyboard.press("ArrowRight")
    title = dialog.locator("h3").inner_text()
    assert title != before
    dialog.locator(".scroll").focus()
    visit.page.keyboard.press("ArrowRight")  # scrolls the table
    assert dialog.locator("h3").inner_text() == title
    visit.page.keyboard.press("Escape")
    assert visit.page.locator("dialog[open]").count() == 0
    visit.wait_for_fragment("")


def test_a_sample_has_an_address(browser, report: Path, visit: Visit) -> None:
    visit.run("location.hash = '#sample-7:1'")
    visit.page.wait_for_selector("dialog[open]")
    assert "Sample 7" in visit.page.locator("dialog h3").inner_text()
    assert "second · l2" in visit.page.locator("dialog .note").first.inner_text()
    again = Visit(browser, report, at="#sample-7")
    assert "Sample 7" in again.page.locator("dialog[open] h3").inner_text()
    assert again.complaints == []
    again.close()
    visit.run("document.querySelector('dialog').close()")
    visit.run("location.hash = '#sample-%zz'")
    visit.run("location.hash = '#sample-99999'")
    assert visit.page.locator("dialog[open]").count() == 0


def test_a_dot_of_a_plot_leads_to_its_sample(visit: Visit) -> None:
    figure = visit.page.locator("#radii figure").first
    plot = figure.locator(".plot")
    plot.focus()
    plot.press("ArrowRight")
    told = figure.locator(".reading").inner_text()
    sample = re.search(r"sample (\d+) ", told)
    assert sample is not None
    plot.press("Enter")
    assert visit.page.locator("dialog h3").inner_text().startswith(f"Sample {sample[1]}:")
    visit.page.keyboard.press("Escape")
    figure.locator("summary", has_text="Smallest and largest").click()
    figure.locator(".thumbs button").first.click()
    assert visit.page.locator("dialog[open]").count() == 1


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/rgba\\(.*, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('.hidden-text, noscript, script, :disabled')) continue;
    const style = getComputedStyle(e);
    const colour = e.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const [a, b] = [light(colour), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) found.push(`${e.tagName} ${colour} ${ratio.toFixed(2)} ${e.textContent.slice(0, 40)}`);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_themes(browser, report: Path, scheme: str) -> None:
    visit = Visit(browser, report, scheme=scheme)
    assert visit.run("document.documentElement.dataset.theme") == scheme
    visit.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert visit.run(CONTRAST) == []
    other = {"light": "dark", "dark": "light"}[scheme]
    background = visit.run("getComputedStyle(document.body).backgroundColor")
    visit.page.get_by_role("button", name=f"Switch to {other} colours").click()
    assert visit.run("document.documentElement.dataset.theme") == other
    assert visit.run("getComputedStyle(document.body).backgroundColor") != background
    assert visit.run(CONTRAST) == []
    for _ in range(3):  # storage is written behind the page's back: on a busy machine a quick reload may come first
        visit.page.reload()
        visit.page.wait_for_selector("html[data-ready]")
        if visit.run("document.documentElement.dataset.theme") == other:
            break
        visit.page.wait_for_timeout(500)
    assert visit.run("document.documentElement.dataset.theme") == other  # it remembers
    # Marks of the plots against the page: 3 to 1.
    assert visit.complaints == []
    visit.close()


def test_it_fits_a_phone(browser, report: Path) -> None:
    visit = Visit(browser, report, width=360, has_touch=True)
    visit.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert visit.run("document.documentElement.scrollWidth") == 360
    assert visit.run("document.body.scrollWidth") <= 360
    visit.page.locator(".sample button").first.click()
    assert visit.run("document.querySelector('dialog').getBoundingClientRect().right") <= 360
    assert visit.run("document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth")
    assert visit.complaints == []
    visit.close()


def test_it_prints_every_section_in_black_on_white(browser, report: Path) -> None:
    visit = Visit(browser, report, scheme="dark")
    visit.page.emulate_media(media="print", color_scheme="dark")
    assert shown(visit) == SECTIONS
    assert visit.run("[...document.querySelectorAll('main > section:not([hidden])')].every(s => s.offsetHeight > 40)")
    assert visit.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not visit.page.locator(".filters").is_visible()
    assert visit.run("[...document.querySelectorAll('.plot svg')].every(s => s.getBoundingClientRect().height > 20)")
    assert visit.page.pdf(format="A4")[:5] == b"%PDF-"
    visit.run("dispatchEvent(new Event('beforeprint'))")
    assert visit.run("[...document.querySelectorAll('.entry details')].every(d => d.open)")  # the evidence is printed
    visit.run("dispatchEvent(new Event('afterprint'))")
    assert not visit.run("[...document.querySelectorAll('.entry details')].some(d => d.open)")
    visit.run("dispatchEvent(new Event('beforeprint'))")
    assert visit.run("[...document.querySelectorAll('#provenance details, .notices details')].every(d => d.open)")
    visit.run("dispatchEvent(new Event('afterprint'))")
    assert visit.complaints == []
    visit.close()


def test_motion_is_left_out_where_it_is_not_wanted(browser, report: Path) -> None:
    visit = Visit(browser, report, reduced_motion="reduce")
    assert visit.run("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    visit.page.keyboard.press("Tab")
    assert visit.run("document.activeElement.textContent") == "Skip to the content"
    visit.page.keyboard.press("Tab")
    assert float(visit.run("getComputedStyle(document.activeElement).outlineWidth").removesuffix("px")) >= 2
    visit.close()


def test_vectors_in_the_gallery(browser, vectors: Place, tmp_path: Path) -> None:
    visit = Visit(browser, write_page([vectors.path / "out"], tmp_path / "report.html").path)
    assert visit.page.locator(".sample").count() == 10
    visit.page.locator(".sample button").first.click()
    assert visit.page.locator("dialog[open] img").count() == 0
    assert "attacks" not in shown(visit)  # there was but one
    assert visit.complaints == []
    visit.close()


def test_extremes_a_model_that_is_always_wrong_and_one_that_is_never(browser, tmp_path: Path) -> None:
    place = write_data(tmp_path, (1, 6, 6), 12)
    text = (tmp_path / "net.py").read_text()
    text += "\n\ndef constant(x):\n    return 0 * x.flatten(1)[:, :3] + torch.tensor([1.0, 0.0, 0.0])\n"
    (tmp_path / "net.py").write_text(text)
    data = np.load(tmp_path / "data.npz")
    images, zeros = data["images"], np.zeros(12, dtype=np.int64)
    np.savez(tmp_path / "right.npz", images=images, labels=zeros)
    np.savez(tmp_path / "wrong.npz", images=images, labels=zeros + 2)
    for name in ("right", "wrong"):
        asked = {"model": f"{tmp_path}/net.py:constant", "data": tmp_path / f"{name}.npz"}
        assert place.run(f"{name}-radius", metric="l2", budget=60, **asked) == 0
        assert place.run(f"{name}-loss", question="max-loss", metric="l2", eps=0.5, budget=60, **asked) == 0
        runs = [tmp_path / f"{name}-radius", tmp_path / f"{name}-loss"]
        visit = Visit(browser, write_page(runs, tmp_path / f"{name}.html").path)
        told = visit.page.locator("#headline").inner_text()
        none = "No misclassified point was found for any of the 12 attacked samples"
        assert {"right": none, "wrong": "No sample was attacked"}[name] in told
        medians = {"right": ["∞", "–"], "wrong": ["–", "–"]}[name]  # beyond all, or not there
        assert column(visit, "median radius") == medians
        assert visit.page.locator(".entry .number").first.inner_text().startswith(medians[0])
        assert {"right": "100.0%", "wrong": "0.0%"}[name] in told
        assert "NaN" not in visit.page.locator("main").inner_text()
        assert "undefined" not in visit.page.locator("main").inner_text()
        visit.page.locator(".sample button").first.click()
        assert visit.page.locator("dialog .trio img").count() == 1
        assert visit.complaints == []
        visit.close()


def test_hostile_names_are_text_and_run_nothing(browser, colour: Place, tmp_path: Path) -> None:
    title = f"</title><script>alert(3)</script>{HOSTILE}"
    page = write_page([colour.path / "out"], tmp_path / "report.html", title=title, data=str(colour.path / "images"))
    assert page.remarks == []
    visit = Visit(browser, page.path)
    assert visit.page.locator("h1").inner_text() == title
    assert HOSTILE in visit.page.locator("#gallery").inner_text()
    visit.page.locator("#gallery [name='class']").select_option(index=1)
    visit.page.locator(".sample button").first.click()
    assert HOSTILE in visit.page.locator("dialog h3").inner_text()
    assert "<img src=x" in visit.page.locator("#provenance").inner_text()
    assert visit.run("document.querySelectorAll('img:not([src^=\"data:\"])').length") == 0
    # Even a script that got in would not run.
    visit.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    assert visit.run("window.ran") is None
    assert len(visit.complaints) == 1
    assert "Content Security Policy" in visit.complaints[0]
    visit.close()


def test_500_colour_images_stay_small_and_quick(browser, tmp_path: Path) -> None:
    """CIFAR's size, and as hard to pack as photographs: smooth shapes with noise."""
    place = write_data(tmp_path, (3, 32, 32), 500)
    draw = np.random.default_rng(0)
    coarse = torch.from_numpy(draw.random((500, 3, 5, 5), dtype=np.float32))
    images = torch.nn.functional.interpolate(coarse, size=(32, 32), mode="bicubic").clamp(0, 1)
    images = (images + 0.03 * torch.from_numpy(draw.standard_normal(images.shape).astype(np.float32))).clamp(0, 1)
    scope: dict = {}
    exec((tmp_path / "net.py").read_text(), scope)
    labels = scope["net"]()(images).argmax(1)
    np.savez(tmp_path / "data.npz", images=(images * 255).round().byte().numpy(), labels=labels.numpy())
    assert place.run("out", metric="l2", budget=50, chunk=250) == 0
    page = write_page([tmp_path / "out"], tmp_path / "report.html")
    assert page.samples == 500
    assert 1_000_000 < page.bytes < 10_000_000
    visit = Visit(browser, page.path)
    assert first_paint(visit) < 2000
    assert visit.page.locator(".sample").count() == 24
    assert "500 answers of 500" in visit.page.locator(".count").inner_text()
    assert visit.complaints == []
    visit.close()
    # Three runs of the same images: fewer of them, so that the file stays small.
    page = write_page([tmp_path / "out"] * 3, tmp_path / "three.html")
    assert page.samples < 500
    assert page.bytes < 10_000_000


def test_the_commands_of_the_page_in_docs_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for kind, content in re.findall(r"^```(python|sh)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if kind == "python":
            exec(content, {})
            continue
        for line in content.splitlines():
            assert main(shlex.split(line)[1:]) == 0, line
    assert (tmp_path / "report.html").exists()


def test_models_keep_their_colours(grey: Place) -> None:
    content = payload_of(folders(grey)).content
    assert [each["tone"] for each in content["runs"]] == [0, 1, 0, 1, 0, 1]
    assert tones([]) == []


def test_filters_of_png_are_undone_by_readers() -> None:
    """A wrong filter packs as well as a right one."""
    across, down = torch.meshgrid(torch.linspace(0, 3, 40), torch.linspace(0, 2, 30), indexing="ij")
    wave = (0.5 + 0.5 * torch.sin(across + 2 * down) * torch.cos(across * down))[None].repeat(3, 1, 1)
    flat = torch.zeros(3, 40, 30)
    steps = (torch.arange(40.0) ** 2 % 40 / 40)[None, :, None].expand(3, 40, 30) * torch.linspace(0.9, 1, 30)
    for image, expected in ((wave, {4}), (flat, {0}), (steps, {0, 2, 4})):
        file = base64.b64decode(picture_of(image, (0, 1)))
        length = int.from_bytes(file[33:37], "big")
        assert zlib.decompress(file[41 : 41 + length])[0] in expected
        expected_pixels = (image.double() * 255).round().byte().permute(1, 2, 0).numpy()
        assert np.array_equal(opened(picture_of(image, (0, 1))), expected_pixels)


# Runs that are easily mistaken for one another

LONG = "a_network_with_a_name_that_is_longer_than_any_telephone_is_wide_and_longer_still"
HOLES = """

def holes():
    inner = net()

    def logits(x):
        return inner(x).masked_fill(x.flatten(1)[:, :1] > 0.8, float("nan"))

    return logits
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Place:
    """Data of one name, some samples only, wanted classes, two losses, a model without logits here and there."""
    place = write_data(tmp_path_factory.mktemp("mixed"), (1, 6, 6), 20, ("net", LONG))
    path = place.path
    with (path / "net.py").open("a") as file:
        file.write(HOLES)
    data = np.load(path / "data.npz")
    (path / "elsewhere").mkdir()
    np.savez(path / "elsewhere" / "data.npz", images=data["images"][:12] ** 2, labels=data["labels"][:12])
    wanted = (data["labels"] + 1) % 3
    wanted[1:4] = data["labels"][1:4]  # as they are already
    np.savez(path / "wanted.npz", images=data["images"], labels=wanted)
    radius = {"metric": "l2", "budget": 60, "attacks": "lmn"}
    loss = {"question": "max-loss", "metric": "l2", "eps": 0.1, "budget": 60}
    assert place.run("plain", **radius) == 0
    assert place.run("two", limit=2, **radius) == 0
    assert place.run("other", **radius, data=path / "elsewhere" / "data.npz") == 0
    assert place.run("fab", **{**radius, "attacks": "fab"}) == 0
    assert place.run("long", **radius, model=f"{path}/net.py:{LONG}") == 0
    assert place.run("holes", **radius, model=f"{path}/net.py:holes") == 0
    assert place.run("wanted", "--targeted", **radius, data=path / "wanted.npz") == 0
    assert place.run("wanted-eps", "--targeted", **loss, data=path / "wanted.npz") == 0
    assert place.run("margin", **loss) == 0
    assert place.run("ce", **loss, loss="ce") == 0
    return place


def told(place: Place, *names: str) -> dict:
    return payload_of(folders(place, *names)).content


def test_data_is_known_by_its_images_not_by_the_name_of_its_file(mixed: Place) -> None:
    content = told(mixed, "plain", "two", "other")
    here = f"{mixed.path.name}/data.npz"
    panels = [(each["data"], [curve["run"] for curve in each["curves"]]) for each in content["curves"]]
    assert panels == [(here, [0, 1]), ("elsewhere/data.npz", [2])]
    cards = [(each["data"], len(each["runs"])) for each in content["cards"]]
    assert cards == [(here, 2), ("elsewhere/data.npz", 1)]
    assert len({each["name"] for each in content["runs"]}) == 3
    assert {each["id"][-1] for each in content["samples"]} == {"a", "b"}
    # Some samples of a file are of the same data.
    assert [each["data"] for each in told(mixed, "plain", "two")["curves"]] == [""]


def test_a_file_that_has_changed_has_a_number(mixed: Place, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in (mixed.path / "other").iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    header = json.loads((moved / "header.json").read_text())
    header["settings"]["data"] = str(mixed.path / "data.npz")
    write_json(moved / "header.json", header)
    content = payload_of([mixed.path / "plain", moved]).content
    assert [each["data"] for each in content["curves"]] == ["data.npz (1)", "data.npz (2)"]


def test_targeted_runs_are_told_as_such(browser, mixed: Place, tmp_path: Path) -> None:
    content = told(mixed, "plain", "wanted", "wanted-eps", "margin")
    names = [each["name"] for each in content["runs"]]
    assert names == ["l2", "l2, targeted", "l2 ≤ 0.1, targeted", "l2 ≤ 0.1"]
    panels = [(each["targeted"], each["curves"][0]["run"], each["points"][0]["run"]) for each in content["curves"]]
    assert panels == [(False, 0, 3), (True, 1, 2)]
    cards = {card["runs"][0]["run"]: card for card in content["cards"]}
    assert len(cards) == 4
    for i, card in cards.items():
        words = " ".join([card["title"], card["runs"][0]["sentence"], *card["runs"][0]["evidence"]])
        targeted = i in (1, 2)
        assert ("misclassified" in words) is not targeted, words
        assert ("wanted" in words) is targeted
        assert ("clean accuracy" in words) is not targeted
    visit = Visit(browser, write_page(folders(mixed, "wanted", "wanted-eps"), tmp_path / "report.html").path)
    for place in ("#headline", "#radii > .lead", "#gallery .samples"):
        assert "misclassified" not in visit.page.locator(place).inner_text()
    visit.page.locator("#gallery [name='point']").select_option("already of the wanted class")
    assert visit.page.locator("#gallery .badge").all_inner_texts() == ["already of the wanted class"] * 3
    run = load_run(mixed.path / "wanted")
    rows = dict(zip(run.index.tolist(), run.rows.to_pylist(), strict=True))
    visit.page.locator("#gallery [name='point']").select_option("found")
    said = visit.page.locator(".sample > button").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert said
    for text in said:
        index, was, now = re.match(r"Sample (\d+), (.*) → (.*), radius", text).groups()
        row = rows[int(index)]
        assert (was, now) == (f"class {row['clean_label']}", f"class {row['adversarial_label']}")
        assert row["adversarial_label"] == row["label"] != row["clean_label"]
    assert visit.complaints == []
    visit.close()


def test_an_image_with_two_labels_is_one_image(
    mixed: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with wanted classes has other labels, so other samples, but no other images."""
    content = told(mixed, "plain", "wanted")
    assert content["images"] == 20
    assert content["total"] > 20
    assert told(mixed, "plain", "other")["images"] == 32
    runs = [str(each) for each in folders(mixed, "plain", "wanted")]
    assert main(["report", *runs, "-o", str(tmp_path / "report.html")]) == 0
    assert f"{content['total']} samples of 20 images in the gallery" in capsys.readouterr().out


def test_two_losses_of_one_model_have_names_of_their_own(browser, mixed: Place, tmp_path: Path) -> None:
    runs, names = folders(mixed, "plain", "margin", "ce"), ["l2 ≤ 0.1, margin", "l2 ≤ 0.1, ce"]
    assert [each["name"] for each in payload_of(runs).content["runs"]] == ["l2", *names]
    visit = Visit(browser, write_page(runs, tmp_path / "report.html").path)
    assert visit.page.locator(".card .who").all_inner_texts()[1:] == names
    facts = visit.page.locator("#accuracy .facts li").all_inner_texts()
    assert [text.partition(":")[0] for text in facts] == names
    assert visit.complaints == []
    visit.close()


def test_what_open_searches_may_gain_is_their_own_median(grey: Place) -> None:
    assert grey.run("told", model=f"{grey.path}/net.py:second", metric="l1", budget=1800, limit=30) == 0
    run = load_run(grey.path / "told")
    left = analysis.found_in(run) & ~analysis.converged_in(run)
    assert 1 < left.sum() < analysis.found_in(run).sum()
    expected = np.nanmedian(run.evidence.gain[left].numpy())
    evidence = payload_of(folders(grey, "told")).content["cards"][0]["runs"][0]["evidence"][2]
    assert evidence.endswith(f"{int(left.sum())} did not: those are upper bounds; {gain_text(expected)}.")


def test_samples_without_logits_are_not_called_misclassified(mixed: Place) -> None:
    run = load_run(mixed.path / "holes")
    lost = sum(status.value == "nonfinite" for status in run.status)
    wrong = 20 - lost - int(analysis.attacked_in(run).sum())
    assert min(lost, wrong) > 1
    evidence = told(mixed, "holes")["cards"][0]["runs"][0]["evidence"]
    assert any(text.startswith(f"{wrong} of 20 samples are misclassified as they are") for text in evidence)
    assert any(text.startswith(f"For {lost} of 20 samples the model gives no finite logits") for text in evidence)


def test_rivals_are_found_among_runs_of_other_data(mixed: Place) -> None:
    assert [each["runs"] for each in told(mixed, "plain", "other", "fab")["agreements"]] == [[0, 2]]


def test_a_kind_in_the_registry_is_all_that_command_folder_and_page_need(
    mixed: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = TableKind(
        "passes of every run",
        lambda runs, choices: Table.of(map(analysis.termination_of, runs.values()), {"most passes": "budget"}),
        on_page=lambda runs: runs,
    )
    figure = FigureKind("the same, drawn", lambda runs, choices: figures.loss_clipping())
    monkeypatch.setitem(TABLES, "toy", table)
    monkeypatch.setitem(FIGURES, "toy", figure)
    (shown,) = (each for each in told(mixed, "plain")["tables"] if each["name"] == "toy")
    run = load_run(mixed.path / "plain")
    assert [list(row) for row in shown["rows"]] == [[run.header.budget]]
    names = {path.name for path in write_figures({"plain": run}, tmp_path).files}
    assert {"toy.pdf", "toy.png", "table-toy.tex", "table-toy.md"} <= names
    assert main(["table", "toy", str(mixed.path / "plain")]) == 0
    assert f"| {run.header.budget} |" in capsys.readouterr().out


def test_runs_that_can_be_compared_have_the_tables_of_the_registry(browser, mixed: Place, tmp_path: Path) -> None:
    assert told(mixed, "plain", "other")["tables"] == []  # of other data
    runs = {each: load_run(mixed.path / each) for each in ("plain", "fab")}
    shown = told(mixed, "plain", "other", "fab")["tables"]
    assert [each["name"] for each in shown] == ["attacks", "wins"]
    scores = analysis.attack_scores(runs)
    assert [row[3] for row in shown[0]["rows"]] == [score.attack for score in scores]
    assert [row[6:9] for row in shown[0]["rows"]] == [[score.mean, score.median, score.xi] for score in scores]
    visit = Visit(browser, write_page(folders(mixed, "plain", "fab"), tmp_path / "report.html").path)
    cells = visit.page.locator("#tables table").first.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert f"{scores[0].mean:.4g}" in cells
    assert visit.complaints == []
    visit.close()


def test_one_sample_in_plain_words(mixed: Place) -> None:
    sentence = told(mixed, "two")["cards"][0]["runs"][0]["sentence"]
    assert sentence.startswith("The one attacked sample has a misclassified point at l2 distance")


def test_the_file_stays_small_however_pictures_pack(grey: Place, tmp_path: Path, monkeypatch) -> None:
    whole = write_page(folders(grey), tmp_path / "whole.html")
    least = write_page(folders(grey), tmp_path / "least.html", gallery=0)
    most = (whole.bytes + least.bytes) // 2
    monkeypatch.setattr("pwcf.report.page.write.PAGE_BYTES", most)
    page = write_page(folders(grey), tmp_path / "report.html")
    assert page.bytes == (tmp_path / "report.html").stat().st_size < most
    assert 5 < page.samples < 60


def test_many_runs_of_large_images_keep_to_the_limit(tmp_path: Path) -> None:
    place = write_data(tmp_path, (3, 96, 96), 24)
    assert place.run("out", metric="l2", budget=50, attacks="lmn") == 0
    page = write_page([tmp_path / "out"] * 12, tmp_path / "report.html")
    assert page.bytes < 10_000_000
    assert 0 < page.samples < 24


def test_24_curves_of_one_panel_look_different(mixed: Place) -> None:
    run = load_run(mixed.path / "plain", tensors=False)
    many = [PageRun(f"run {i}", f"run {i}", run, mixed.path, "data") for i in range(24)]
    assert sorted(tones(many)) == list(range(24))
    # Of other data: counted anew once the colours are used up.
    images = pyarrow.array([f"other {i}" for i in range(len(run.rows))])
    rows = run.rows.set_column(run.rows.column_names.index("image"), "image", images)
    other = dataclasses.replace(run, rows=rows)
    others = [PageRun(f"other {i}", f"other {i}", other, mixed.path, "others") for i in range(8)]
    assert len(set(tones(many + others)[24:])) == 8
    assert max(tones(many + others)) < 24


def test_dashes_are_seen_in_the_legend_too(browser, mixed: Place, tmp_path: Path) -> None:
    visit = Visit(browser, write_page([mixed.path / "plain"] * 18, tmp_path / "report.html").path)
    figure = visit.page.locator("#accuracy figure").first
    figure.scroll_into_view_if_needed()
    looks = figure.locator("path.curve").evaluate_all(
        "all => all.map(p => p.getAttribute('stroke') + p.getAttribute('stroke-dasharray'))"
    )
    assert len(set(looks)) == 18
    swatches = figure.locator(".legend .swatch").evaluate_all("all => all.map(s => s.style.background)")
    assert len(set(swatches)) == 18
    assert visit.complaints == []
    visit.close()


def test_long_names_end_where_the_plot_does(browser, mixed: Place, tmp_path: Path) -> None:
    page = write_page(folders(mixed, "plain", "long"), tmp_path / "report.html").path
    visit = Visit(browser, page, width=360)
    outside = (
        "[...document.querySelectorAll('.plot text')].filter(t => t.getBoundingClientRect().right > 361)"
        ".map(t => t.textContent)"
    )
    assert visit.run(outside) == []
    titles = visit.page.locator("#radii .row-name title").evaluate_all("all => all.map(t => t.textContent)")
    assert titles == [LONG]
    assert visit.complaints == []
    visit.close()


BORDERS = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const page = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll('.filters select, .filters input, #theme')].map((e) => {
    const [a, b] = [light(getComputedStyle(e).borderTopColor), page].sort((x, y) => y - x);
    return (a + .05) / (b + .05);
  }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_are_seen(browser, report: Path, scheme: str) -> None:
    visit = Visit(browser, report, scheme=scheme)
    assert visit.run(BORDERS) >= 3
    visit.close()
