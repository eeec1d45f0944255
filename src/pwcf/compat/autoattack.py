"""``AutoAttack`` as scripts for fra31/auto-attack call it (Croce and Hein 2020), run by ``pwcf.evaluate``."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwcf.compat.autoattack_settings import NAMES, ConfiguredAttack, SuiteSettings, configure
from pwcf.compat.sequential import Attempt, Batches, SequentialRunner, in_its_own_mode
from pwcf.compat.state import EvaluationState, Saver, digest_of, model_digest
from pwcf.metrics import distance64
from pwcf.models import Classifier
from pwcf.models.loading import fingerprint
from pwcf.problems import MaxLoss

METRICS = {"Linf": "linf", "L2": "l2", "L1": "l1"}
VERSIONS = {
    "standard": ("apgd-ce", "apgd-t", "fab-t", "square"),
    "plus": ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"),
    "rand": ("apgd-ce", "apgd-dlr"),
    "lmn": ("lmn",),
    "custom": (),
}
# The original's: a black box that gains more than this on gradients tells that they mislead.
SUSPICIOUS = 0.002

Labelled = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Logger:
    """As the original's."""

    log_path: str | os.PathLike[str] | None

    def log(self, line: str) -> None:
        """Print a line, and append it to the file."""
        print(line)
        if self.log_path is not None:
            with open(self.log_path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


class AutoAttack:
    """Robust accuracy within eps by attacks in turn, each on what is still robust. Every point is verified.

    Args:
        model: from inputs in [0, 1] to logits; a ``pwcf.Classifier`` may have other bounds, and normalise.
        norm: "Linf", "L2" or "L1".
        eps: largest norm of a perturbation.
        seed: None draws one for every evaluation.
        verbose: print, and write into ``log_path``, how it goes.
        attacks_to_run: names, with version "custom".
        version: "standard", "plus", "rand", "custom"; "lmn" is our attack alone.
        is_tf_model: TensorFlow models are not supported.
        device: where the model is; None: where its parameters are, or the images if it has none.
        log_path: a file that lines are appended to.

    After an evaluation ``last_runs`` has the verified answers, ``found_by`` which attack broke each sample.
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor] | Classifier,
        norm: str = "Linf",
        eps: float = 0.3,
        seed: int | None = None,
        verbose: bool = True,
        attacks_to_run: Sequence[str] = (),
        version: str = "standard",
        is_tf_model: bool = False,
        device: str | torch.device | None = None,
        log_path: str | os.PathLike[str] | None = None,
    ) -> None:
        if is_tf_model:
            raise NotImplementedError("is_tf_model: TensorFlow models are not supported; give a PyTorch model")
        if norm not in METRICS:
            raise ValueError(f"norm: expected one of {', '.join(METRICS)}, found {norm!r}")
        if version not in VERSIONS:
            raise ValueError(f"version: expected one of {', '.join(VERSIONS)}, found {version!r}")
        if version != "custom" and len(attacks_to_run):
            raise ValueError("attacks_to_run: overridden unless version='custom'; set it afterwards, or leave it out")
        self.model, self.norm, self.epsilon, self.seed = model, norm, eps, seed
        self.verbose, self.version, self.device, self.log_path = verbose, version, device, log_path
        self.is_tf_model, self.logger = is_tf_model, Logger(log_path)
        self.attacks_to_run = list(attacks_to_run)
        self._suite = SuiteSettings()
        self.apgd, self.apgd_targeted = self._suite.apgd, self._suite.apgd_targeted
        self.fab, self.square, self.lmn = self._suite.fab, self._suite.square, self._suite.lmn
        for settings in vars(self._suite).values():
            settings.bind(self._perturb)
        self.last_runs: list[Attempt] = []
        self.found_by: list[str] = []
        if version != "custom":
            self.set_version(version)

    def set_version(self, version: str = "standard") -> None:
        """Attacks and settings as published."""
        if version not in VERSIONS or version == "custom":
            known = ", ".join(name for name in VERSIONS if name != "custom")
            raise ValueError(f"version: expected one of {known}, found {version!r}")
        self._log(f"setting parameters for {version} version")
        self.attacks_to_run = list(VERSIONS[version])
        if version == "rand":
            self.apgd.n_restarts, self.apgd.eot_iter = 1, 20
        elif version in ("standard", "plus"):
            standard, l1 = version == "standard", self.norm == "L1"
            self.apgd.n_restarts = 1 if standard and not l1 else 5
            self.apgd_targeted.n_target_classes = 5 if standard and l1 else 9
            self.fab.n_restarts = 1 if standard else 5
            self.apgd_targeted.n_restarts = 1
            self.fab.n_target_classes = 9
            self.square.n_queries = 5000

    def run_standard_evaluation(
        self,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int = 250,
        return_labels: bool = False,
        state_path: str | os.PathLike[str] | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor | Labelled:
        """(n, ...) the points, and the images where nothing was found; with ``return_labels`` also the model's labels.

        Where the model answered otherwise in the verification than in the search (a limit on queries, randomness), the
        sample stays robust, and its point is the one that was seen misclassified.

        ``state_path``: a file from which an interrupted evaluation goes on, to the result it would have had.
        """
        self._log(f"using {self.version} version including {', '.join(self.attacks_to_run)}.")
        self.last_runs = []
        x_adv, y_adv, state = self._evaluate(
            x_orig, y_orig, batch_size or bs, self.attacks_to_run, state_path, self._log
        )
        self.found_by = state.found_by
        self._look_back(x_orig, x_adv, state, batch_size or bs)
        return (x_adv, y_adv) if return_labels else x_adv

    def run_standard_evaluation_individual(
        self,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int = 250,
        return_labels: bool = False,
        *,
        batch_size: int | None = None,
    ) -> dict[str, Tensor | Labelled]:
        """The same for each attack by itself, on all samples."""
        self._log(f"using {self.version} version including {', '.join(self.attacks_to_run)}")
        self.last_runs, self.found_by = [], []
        found: dict[str, Tensor | Labelled] = {}
        for name in self.attacks_to_run:
            x_adv, y_adv, state = self._evaluate(x_orig, y_orig, batch_size or bs, [name], None, lambda line: None)
            found[name] = (x_adv, y_adv) if return_labels else x_adv
            gap = "\t \t" if name == "fab" else "\t"
            self._log(
                f"robust accuracy by {name.upper()} {gap} {state.robust_accuracy:.2%} "
                f"\t (time attack: {state.seconds:.1f} s)"
            )
        return found

    def clean_accuracy(self, x_orig: Tensor, y_orig: Tensor, bs: int = 250) -> float:
        """Share of the samples that the model gives their labels."""
        right, _, _ = Batches.to_the_model(self.model, x_orig, y_orig, bs, self.device).first_look(1)
        accuracy = float(right.double().mean())
        self._log(f"clean accuracy: {accuracy:.2%}")
        return accuracy

    def get_logits(self, x: Tensor) -> Tensor:
        return self.model(x)

    def get_seed(self) -> int:
        """Like the original's, but no clock: two evaluations in one second are not alike."""
        return secrets.randbits(31) if self.seed is None else int(self.seed)

    def _perturb(self, name: str, x: Tensor, y: Tensor | None) -> Tensor:
        """One attack by itself, on all samples in one batch."""
        if y is None:
            with torch.inference_mode(False):
                said = Batches.to_the_model(self.model, x, torch.zeros(len(x)).long(), max(len(x), 1), self.device)
                y = said.first_look(1)[1].to(x.device)
        self.last_runs, self.found_by = [], []
        return self._evaluate(x, y, max(len(x), 1), [name], None, lambda line: None)[0]

    def _evaluate(
        self,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int,
        names: Sequence[str],
        state_path: str | os.PathLike[str] | None,
        log: Callable[[str], None],
    ) -> tuple[Tensor, Tensor, EvaluationState]:
        if not names:
            raise ValueError(f"attacks_to_run: expected names out of {', '.join(NAMES)}, found none")
        problem, saver = MaxLoss(METRICS[self.norm], float(self.epsilon)), Saver(state_path)
        # Scripts call this under no_grad(), or in inference mode; attacks need gradients.
        with torch.inference_mode(False), torch.enable_grad():
            batches = Batches.to_the_model(self.model, x_orig, y_orig, bs, self.device)
            uncalled = "" if state_path is None else fingerprint(batches.classifier, "", own=True)
            looks = max(configure(name, self._suite, 2).eot for name in names)
            if looks > 1:
                batches = replace(batches, classifier=in_its_own_mode(batches.classifier))
            right, said, classes = batches.first_look(looks)
            attacks = [configure(name, self._suite, classes) for name in names]
            origin = {} if state_path is None else self._origin(batches, attacks, uncalled)
            state = saver.restore(origin)
            if state is None:
                state = EvaluationState.begin(origin, self.get_seed(), right, said, names)
                log(f"initial accuracy: {state.clean_accuracy:.2%}")
                saver.save(state, surely=True)
            else:
                log(f"initial accuracy: {state.clean_accuracy:.2%}")
                finished = ", ".join(state.done) or "no attack"
                log(f"resumed from {state_path}: {finished} finished, robust accuracy {state.robust_accuracy:.2%}")
            self.last_runs += SequentialRunner(batches, problem, state, saver, log).run(names, attacks)
            saver.save(state, surely=True)
        return state.adversarial(x_orig), state.labels.to(y_orig), state

    def _origin(self, batches: Batches, attacks: Sequence[ConfiguredAttack], uncalled: str) -> dict[str, str]:
        """What must be the same for an evaluation to be resumed, in words; ``uncalled``: the model before any call."""
        return {
            "norm": self.norm,
            "eps": repr(float(self.epsilon)),
            "version": self.version,
            "attacks_to_run": "; ".join(map(repr, attacks)),
            "seed": repr(self.seed),
            "the data": digest_of([batches.images, batches.labels]),
            "the model": model_digest(batches.classifier, uncalled),
        }

    def _look_back(self, x_orig: Tensor, x_adv: Tensor, state: EvaluationState, bs: int) -> None:
        """What the original says in the end."""
        before = [value for name, value in state.accuracy.items() if name not in ("clean", "square")]
        if before and (gain := min(before) - state.accuracy.get("square", 1.0)) > SUSPICIOUS:
            warnings.warn(
                f"Square, which sees no gradients, broke {gain:.2%} more than the attacks that do: gradients may be "
                "masked, and the robust accuracy too high. Give it more queries, or adapt an attack to the defence.",
                stacklevel=3,
            )
        if not len(x_adv):
            return
        metric = MaxLoss(METRICS[self.norm], 0.0).metric
        largest = max(
            float(distance64(metric, x, z).max())
            for x, z in zip(torch.split(x_orig, bs), torch.split(x_adv, bs), strict=True)
        )
        self._log(
            f"max {self.norm} perturbation: {largest:.5f}, nan in tensor: {int(x_adv.isnan().sum())}, "
            f"max: {x_adv.max():.5f}, min: {x_adv.min():.5f}"
        )
        self._log(f"robust accuracy: {state.robust_accuracy:.2%}")

    def _log(self, line: str) -> None:
        if self.verbose:
            self.logger.log(line)
