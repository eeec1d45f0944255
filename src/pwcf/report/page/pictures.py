"""Inputs as small pictures: PNG files in base64, written by hand so that no image library is needed."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf.analysis import amplified

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
SIDE = 96
"""pictures with a longer side are averaged down to it: a page has hundreds of them"""
LEVELS = 15
"""steps of a perturbation to either side of zero: enough to see, and a third of the bytes that 127 take"""


@dataclass(frozen=True)
class Perturbation:
    """A difference made visible."""

    picture: str
    factor: float
    """by so much it is amplified: the largest change is full scale"""


def note_on(shape: tuple[int, ...]) -> str | None:
    """What a reader must know about pictures of inputs of this shape; None if they are what one expects."""
    if not are_images(shape):
        return f"Inputs of shape {' x '.join(map(str, shape))} are no images: there are no pictures of them."
    notes = []
    if shape[0] not in (1, 3):
        notes.append(f"inputs have {shape[0]} channels, the pictures show their mean")
    if _step(shape) > 1:
        notes.append(f"inputs of {shape[2]} x {shape[1]} pixels are shown {_step(shape)} times smaller")
    return "; ".join(notes).capitalize() + "." if notes else None


def are_images(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and min(shape) > 0 and min(shape[1:]) > 1


def values_of(shape: tuple[int, ...]) -> int:
    """Numbers in a picture of such an input; 0 if there is none."""
    if not are_images(shape):
        return 0
    step = _step(shape)
    return (3 if shape[0] == 3 else 1) * -(-shape[1] // step) * -(-shape[2] // step)


def picture_of(image: Tensor, bounds: tuple[float, float]) -> str:
    """An input (c, h, w) within bounds."""
    lower, upper = bounds
    shown = (_visible(image) - lower) / (upper - lower)
    return _png((shown * 255).round().clamp(0, 255).to(torch.uint8).numpy())


def perturbation_of(image: Tensor, point: Tensor, bounds: tuple[float, float]) -> Perturbation | None:
    """What was added, so that the largest change is full scale: grey inputs from blue to red, colour around grey."""
    difference = _visible(point.double() - image.double())
    largest = float(difference.abs().max())
    if not 0 < largest < float("inf"):
        return None
    shown, factor = amplified(difference / (bounds[1] - bounds[0]))
    steps = ((shown - 0.5) * 2 * LEVELS).round().to(torch.int64)  # -LEVELS ... LEVELS
    if len(steps) == 1:
        picture = _png((steps + LEVELS).to(torch.uint8).numpy(), _DIVERGING)
    else:
        picture = _png((127.5 + steps * (127.5 / LEVELS)).round().to(torch.uint8).numpy())
    return Perturbation(picture, factor)


def _visible(image: Tensor) -> Tensor:
    """(1 or 3, h, w), not too large."""
    shown = image.detach().cpu().double()
    if shown.shape[0] not in (1, 3):
        shown = shown.mean(0, keepdim=True)
    if (step := _step(tuple(shown.shape))) > 1:
        shown = torch.nn.functional.avg_pool2d(shown[None], step, ceil_mode=True)[0]
    return shown


def _step(shape: tuple[int, ...]) -> int:
    return max(1, -(-max(shape[1:]) // SIDE))


def _diverging() -> bytes:
    """Blue through a light grey to red, as distinct for colour-blind eyes as two hues can be."""
    ends = np.array([[5, 80, 160], [242, 242, 242], [178, 36, 20]], dtype=float)
    colours = []
    for step in range(-LEVELS, LEVELS + 1):
        share = (abs(step) / LEVELS) ** 0.7  # small changes are to be seen too
        colours.append(ends[1] + share * (ends[0 if step < 0 else 2] - ends[1]))
    return np.array(colours).round().astype(np.uint8).tobytes()


_DIVERGING = _diverging()


def _png(planes: Pixels, palette: bytes | None = None) -> str:
    """(1 or 3, h, w) as a PNG in base64. Of the format's row filters the one that packs best."""
    channels, height, width = planes.shape
    rows = np.ascontiguousarray(planes.transpose(1, 2, 0)).reshape(height, width * channels)
    filters = (0,) if palette else (0, 2, 4)
    packed = min((zlib.compress(_filtered(rows, channels, kind), 9) for kind in filters), key=len)
    kind = 3 if palette else (0 if channels == 1 else 2)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    parts += [(b"PLTE", palette)] if palette else []
    parts += [(b"IDAT", packed), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )
    return base64.b64encode(file).decode()


def _filtered(rows: Pixels, channels: int, kind: int) -> bytes:
    """Each row after its filter's number: 0 as it is, 2 less the row above, 4 less Paeth's guess."""
    left, above, corner = (np.zeros(rows.shape, dtype=np.int16) for _ in range(3))
    left[:, channels:], above[1:], corner[1:, channels:] = rows[:, :-channels], rows[:-1], rows[:-1, :-channels]
    guess = left + above - corner
    to_left, to_above, to_corner = (np.abs(guess - each) for each in (left, above, corner))
    paeth = np.where(
        (to_left <= to_above) & (to_left <= to_corner), left, np.where(to_above <= to_corner, above, corner)
    )
    taken = {0: np.zeros_like(left), 2: above, 4: paeth}[kind]
    body = (rows.astype(np.int16) - taken).astype(np.uint8)
    return np.hstack([np.full((len(rows), 1), kind, dtype=np.uint8), body]).tobytes()
