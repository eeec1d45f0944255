"""``pwcf attacks``, ``pwcf metrics`` and ``pwcf zoo``: what there is."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from pwcf._common.text import first_line
from pwcf._common.wording import eps_text
from pwcf.cli.console import Json, console, print_json, table

if TYPE_CHECKING:
    from pwcf.zoo import Card


def add_to(app: typer.Typer) -> None:
    app.command("attacks", help="List attacks and presets.")(_attacks)
    app.command("metrics", help="List distances, and which can be measured here.")(_metrics)
    app.command("zoo", help="List the networks and images that come with pwcf.")(_zoo)


def _attacks(json: Json = False) -> None:
    from pwcf.attacks import ATTACKS, PRESETS, as_attack

    attacks = {name: as_attack(name).about for name in ATTACKS}
    presets = {
        name: {
            "min-radius": [one.name for one in preset.min_radius],
            "max-loss": [one.name for one in preset.max_loss],
            "budget": preset.budget,
        }
        for name, preset in PRESETS.items()
    }
    if json:
        print_json({"attacks": attacks, "presets": presets})
        return
    out = console()
    shown = table(["attack", "what it is"], list(attacks.items()))
    shown.columns[1].justify = "left"
    out.print(shown)
    lines = [
        [name, ", ".join(each["min-radius"]), ", ".join(each["max-loss"]), str(each["budget"])]  # type: ignore[arg-type]
        for name, each in presets.items()
    ]
    out.print()
    shown = table(["preset", "min-radius", "max-loss", "passes for each"], lines)
    shown.columns[1].justify = shown.columns[2].justify = "left"
    out.print(shown)


def _metrics(json: Json = False) -> None:
    from pwcf.metrics import NAMED

    lines = [["l1, l1.5, l2, l8, linf, ...", "yes", "any l_p with p >= 1"]]
    for name, make in NAMED.items():
        try:
            lines.append([name, "yes", make().about or first_line(inspect.getdoc(make) or "")])
        except (ImportError, FileNotFoundError) as error:
            lines.append([name, "no", first_line(error).partition(". ")[0]])
    lines.append(["module:function", "yes", "your own: (reference, candidate) -> one distance a sample"])
    if json:
        print_json([{"name": name, "here": here == "yes", "about": what} for name, here, what in lines])
        return
    shown = table(["metric", "here", "what it is, or what it needs"], lines)
    shown.columns[2].justify = "left"
    console().print(shown)


def _zoo(json: Json = False) -> None:
    from pwcf import zoo

    cards = [zoo.card(name) for name in zoo.names()]
    images, _ = zoo.stored_images()
    if json:
        shape = list(images.shape[1:])
        data = {"name": f"zoo:{zoo.DATA}", "samples": len(images), "shape": shape, "classes": zoo.CLASSES}
        networks = [{**asdict(card), "name": f"zoo:{card.name}"} for card in cards]
        print_json(
            {"networks": networks, "architectures": zoo.architectures(), "data": [data | {"classes": zoo.CLASSES}]}
        )
        return
    out = console()
    heads = ["network", "trained for", "clean", *(f"{metric} {eps_text(eps)}" for metric, eps in cards[0].eps.items())]
    out.print(table(heads, [_of_card(card) for card in cards]))
    out.print(
        f"\nClean accuracy on the 10,000 test images; robust accuracy, within so much in\n"
        f"each metric, on zoo:{zoo.DATA}, the first {len(images)} of them.\n"
        f"Architectures, for pwcf train and with --weights: {', '.join(f'zoo:{name}' for name in zoo.architectures())}."
    )


def _of_card(card: Card) -> list[str]:
    recipe = card.recipe
    goal = "-" if recipe.metric is None or recipe.eps is None else f"{recipe.metric} {eps_text(recipe.eps)}"
    shares = (card.clean_accuracy, *card.robust_accuracy_200.values())
    return [f"zoo:{card.name}", goal, *(f"{share:.1%}" for share in shares)]
