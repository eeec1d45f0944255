"""Where a run comes from: what was asked of what, with what, where, and how to do it again."""

from __future__ import annotations

import shlex
from typing import Any

from pwcf.report.page.gallery import Named
from pwcf.runs import Header
from pwcf.runs.figures import question_of


def provenance(each: Named) -> dict[str, Any]:
    header = each.run.header
    made = header.made
    packages = made.get("packages", {})
    pairs = {
        "folder": each.path.resolve().name,
        "question": question_of(header),
        "model": header.model.about,
        "model digest": header.model.fingerprint,
        "data": header.data.about,
        "data digest": header.data.fingerprint,
        "samples": f"{len(each.run.status)} of {header.samples}",
        "input shape": " x ".join(map(str, header.shape)),
        "distance measured by": header.metric,
        "budget": f"{header.budget} passes a sample",
        "seed": str(header.settings.seed),
        "created": str(made.get("created", "")),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items()),
        "Python": str(made.get("python", "")),
        "machine": ", ".join(str(made[name]) for name in ("system", "processor") if made.get(name)),
        "cores, threads": f"{made.get('cores', '?')}, {made.get('threads', '?')}",
    }
    return {
        "pairs": [[name, value] for name, value in pairs.items() if value],
        "attacks": [[one.name, one.about] for one in header.attacks],
        "settings": [[name, _value(value)] for name, value in vars(header.settings).items()],
        "command": command_of(header),
    }


def command_of(header: Header) -> str:
    """The command that was given, as it may be given again."""
    words = ["pwcf", "run"]
    for name, value in header.asked.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, shlex.quote(_value(value))]
    return " ".join(words)


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    return "" if value is None else str(value)
