"""What a notebook shows of a run: the headline of the page, and a few samples with their adversarial points."""

from __future__ import annotations

import html

from torch import Tensor

from pwcf._common import statistics
from pwcf._common.wording import robust_text, sweep_text
from pwcf.analysis import eps_sweep, found_in, metric_name, question_title
from pwcf.evaluation import Run
from pwcf.problems import MinRadius
from pwcf.report.page import headline
from pwcf.report.page.gallery import are_images, perturbation_of, picture_of
from pwcf.report.page.runs import PageRun, load_runs
from pwcf.runs import RecordedRun, recorded
from pwcf.runs.originals import OriginalImages

EXAMPLES = 5
"""samples that are shown, from the nearest to the farthest"""
STYLE = "image-rendering:pixelated;width:96px;height:96px;object-fit:contain"


def html_of(run: Run) -> str:
    """Headline and examples of a run as HTML; every text in it is escaped. Of what cannot be recorded, its summary."""
    found = recorded(run)
    if not isinstance(found, RecordedRun):
        return f"<pre>{html.escape(run.summary())}</pre>"
    (shown,) = load_runs([found])
    (card,) = headline.cards([shown])
    (said,) = card["runs"]
    sentences = [said["sentence"], *_sweep(found), *said["evidence"]]
    parts = [
        f"<strong>{html.escape(question_title(found))}</strong>",
        f"<p>{html.escape(' '.join(sentences))}</p>",
        *(f"<p>⚠ {html.escape(sentence)}</p>" for sentence in found.warnings),
        _examples(shown),
    ]
    return f"<div>{''.join(parts)}</div>"


def _sweep(run: Run) -> list[str]:
    """Robust accuracy at the usual eps in a sentence, of a min-radius run: max-loss has said it at its own."""
    points = eps_sweep(run) if isinstance(run.problem, MinRadius) else []
    if not points:
        return []
    told = sweep_text([each.robust for each in points], [each.eps for each in points], metric_name(run))
    return [f"{robust_text(run.problem.targeted).capitalize()}: {told}."]


def _examples(shown: PageRun) -> str:
    """A column for each example: image, adversarial point and difference, with what the model says of the first two."""
    run = shown.run
    places = found_in(run).nonzero().squeeze(1)
    if not len(places) or not len(run.x_adv) or not are_images(run.header.shape):
        return ""
    places = places[run.radius[places].argsort(stable=True)]
    chosen = sorted({round(i * (len(places) - 1) / max(EXAMPLES - 1, 1)) for i in range(EXAMPLES)})
    where = [int(places[i]) for i in chosen]
    images = OriginalImages().read(run, shown.name, where)
    columns = [_example(shown, place, images.get(place)) for place in where]
    heads = ("sample", "image", "adversarial point", "difference")
    rows = (
        f"<th>{head}</th>{''.join(f'<td>{cell}</td>' for cell in row)}"
        for head, row in zip(heads, zip(*columns, strict=True), strict=True)
    )
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _example(shown: PageRun, place: int, image: Tensor | None) -> tuple[str, str, str, str]:
    run = shown.run
    point = run.x_adv[place].detach().cpu()
    difference = None if image is None else perturbation_of(image, point, shown.bounds)
    names, said = run.header.classes, (run.rows[name][place].as_py() for name in ("clean_label", "adversarial_label"))
    clean, wrong = (statistics.class_name(names, label) for label in said)
    return (
        f"{int(run.index[place])}",
        _picture(None if image is None else picture_of(image, shown.bounds), clean),
        _picture(picture_of(point, shown.bounds), f"{wrong}, distance {float(run.radius[place]):.4g}"),
        _picture(difference.picture, f"x {difference.factor:.3g}") if difference else "",
    )


def _picture(png: str | None, caption: str) -> str:
    text = html.escape(caption)
    return text if png is None else f'<img src="data:image/png;base64,{png}" alt="{text}" style="{STYLE}"><br>{text}'
