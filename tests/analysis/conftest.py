"""Runs in folders that the tests of analyses share."""

from __future__ import annotations

import pytest

from runfolders import Place, make_place


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = make_place(tmp_path_factory.mktemp("runs"), 20)
    assert made.run("l2", metric="l2", budget=200, chunk=8) == 0
    assert made.run("l1", metric="l1", budget=200, chunk=20, limit=12) == 0
    assert made.run("loss", question="max-loss", metric="l2", eps=0.2, budget=200) == 0
    return made
