"""Attacks one after the other, each on what the ones before have left robust."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.compat.averaged import averaged, knowingly_random
from pwcf.compat.batches import Batches, classes_of
from pwcf.compat.plans import Plan
from pwcf.compat.state import EvaluationState, Saver
from pwcf.evaluation import Run, evaluate
from pwcf.problems import MaxLoss


@dataclass(frozen=True)
class Attempt:
    """One attack on one batch."""

    attack: str
    samples: Tensor
    """(m,) numbers of the samples it broke"""
    run: Run
    """verified answers and evidence about these"""
    tried: int
    """samples in the batch"""
    passes: int
    """forward + backward passes of all of them together"""


@dataclass(frozen=True)
class InTurn:
    """The attacks of one evaluation."""

    batches: Batches
    problem: MaxLoss
    state: EvaluationState
    saver: Saver
    log: Callable[[str], None]

    def run(self, names: Sequence[str], plans: Sequence[Plan]) -> list[Attempt]:
        """All that are not done yet, as long as there is something to be broken."""
        attempts: list[Attempt] = []
        for name, plan in list(zip(names, plans, strict=True))[len(self.state.done) :]:
            if not bool(self.state.robust.any()):
                break
            attempts += self._attack(name, plan)
            self.state.finish(name)
            self.saver.save(self.state, surely=True)
            self.log(
                f"robust accuracy after {name.upper()}: {self.state.robust_accuracy:.2%} "
                f"(total time {self.state.seconds:.1f} s)"
            )
        return attempts

    def _attack(self, name: str, plan: Plan) -> list[Attempt]:
        state, attempts = self.state, []
        batches = torch.split((state.robust & ~state.tried).nonzero().squeeze(1), self.batches.size)
        for number, batch in enumerate(batches, 1):
            started = time.perf_counter()
            left = batch
            for repeat in range(plan.repeats):
                if len(left):
                    attempts.append(self._once(name, plan, left, _another(state.seed, repeat)))
                    left = left[state.robust[left]]
            state.tried[batch] = True
            state.seconds += time.perf_counter() - started
            self.saver.save(state)
            broken = len(batch) - len(left)
            self.log(f"{name} - {number}/{len(batches)} - {broken} out of {len(batch)} successfully perturbed")
        return attempts

    def _once(self, name: str, plan: Plan, rows: Tensor, seed: int) -> Attempt:
        images, labels = self.batches.of(rows)
        model = averaged(self.batches.classifier, plan.eot)
        with knowingly_random(plan.eot):
            run = evaluate(
                model, images, labels, self.problem, attacks=[plan.attack], budget=plan.budget, seed=seed,
                batch=max(1, self.batches.size // plan.eot),
            )  # fmt: skip
        broken = run.adversarial.nonzero().squeeze(1)
        passes = int(run.passes.total.sum())
        points = run.x_adv[broken.to(images.device)]
        said = classes_of(model, points, labels[broken.to(images.device)]).cpu()
        self.state.broke(name, rows[broken], points.to(self.batches.images.device), said)
        return Attempt(name, rows[broken], run.select(broken), len(rows), passes)


def _another(seed: int, number: int) -> int:
    """Towards 0: seeds have 64 bits."""
    return seed + (number if seed < 0 else -number)
