"""One environment for all tests: one thread per worker, fixed seeds, no clock."""

import random
from pathlib import Path

import hypothesis
import pytest
import torch

from runfolders import Place, make_place

# xdist runs one worker per core; more threads in each would only make them wait for each other.
torch.set_num_threads(1)


class _TorchRandom:
    """torch's generator as Hypothesis wants it, so that every example starts from the same state."""

    def seed(self, value: int) -> None:
        torch.manual_seed(value)

    def getstate(self) -> torch.Tensor:
        return torch.get_rng_state()

    def setstate(self, state: torch.Tensor) -> None:
        torch.set_rng_state(state)


TORCH_RANDOM = _TorchRandom()  # Hypothesis keeps only a weak reference
hypothesis.register_random(TORCH_RANDOM)

# The same examples on every machine, and no deadline: a loaded machine is not a wrong result.
hypothesis.settings.register_profile("pwcf", derandomize=True, deadline=None)
hypothesis.settings.load_profile("pwcf")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a small model and data, for runs."""
    return make_place(tmp_path, 24)
