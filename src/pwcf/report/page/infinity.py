"""Infinite radii for JSON, which has no word for them: what is beyond all that was found is not what is unknown."""

from __future__ import annotations

import math
from typing import Any


def sent(value: Any) -> Any:
    """A number, or lists of them: infinity as "inf"."""
    if isinstance(value, list):
        return [sent(one) for one in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
