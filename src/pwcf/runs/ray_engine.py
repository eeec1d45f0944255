"""An engine on a Ray cluster: the model is shipped once, chunks are tasks, the chunk of a lost worker is retried."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from pwcf._common.text import first_line
from pwcf.models import Classifier
from pwcf.runs.engines import Worker
from pwcf.runs.resolve import Reseeded, ResolvedSettings
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import Chunk, Shard

# How often a chunk is tried again after its worker was lost.
RETRIES = 5
# Chunks that wait for each worker, so that none is idle while results are recorded.
AHEAD = 2
# Seconds for a cluster to answer at its address.
ANSWER_WITHIN = 10
# How a conversation in HTTP/2 begins, which Ray's ports speak; whoever speaks it answers at once.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
# Seconds between looks at the head while chunks are worked on, and how many must find nobody. Ray itself waits for a
# minute, and then ends the process without a word.
LOOK_EVERY, LOOKS = 5.0, 3


class OnRay:
    """Tasks on a cluster that exists (``address``), or on one of this machine that ends with the run."""

    def __init__(self, settings: Settings, resolved: ResolvedSettings, classifier: Classifier) -> None:
        self.ray = _ray()
        self._begin(settings)
        self._head, self._missed = str(self.ray.get_runtime_context().gcs_address), 0
        self._gpus = 0 if settings.devices[0] == "cpu" else 1
        resources = self.ray.cluster_resources()
        self.workers = settings.workers or max(1, int(resources.get("GPU" if self._gpus else "CPU", 1)))
        # On somebody's cluster so many workers and no more; on our own there are no more, and none is to be idle.
        shared = settings.address is not None and settings.workers is not None
        self._at_once = self.workers if shared else AHEAD * self.workers
        _ship_by_value(resolved, classifier, self.ray)
        self._worker = self.ray.put(Worker(settings, resolved, classifier.to("cpu"), settings.devices[0]))

    def shards(self, chunks: Iterable[Chunk]) -> Iterator[Shard]:
        ray = self.ray
        task = ray.remote(_work).options(
            num_cpus=1, num_gpus=self._gpus, max_retries=RETRIES, retry_exceptions=False, name="pwcf chunk"
        )
        waiting, more = iter(chunks), True
        under_way: set[Any] = set()
        while more or under_way:
            while more and len(under_way) < self._at_once:
                chunk = next(waiting, None)
                more = chunk is not None
                if chunk is not None:
                    under_way.add(task.remote([self._worker], chunk))
            if not under_way:
                return
            done, _ = ray.wait(list(under_way), num_returns=1, timeout=LOOK_EVERY)
            self._check_head(bool(done))
            for reference in done:
                under_way.discard(reference)
                yield self._result(reference)

    def _check_head(self, alive: bool) -> None:
        """Raise a RunError when the head of the cluster has not been there for several looks."""
        self._missed = 0 if alive or _listens(self._head) else self._missed + 1
        if self._missed >= LOOKS:
            raise RunError(
                f"Ray: the head of the cluster at {self._head} is gone; what was recorded is kept, run the same "
                "command again"
            )

    def _result(self, reference: Any) -> Shard:
        try:
            shard: Shard = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, RunError) else error
            raise RunError(str(cause).strip().rpartition("\n")[2]) from None
        except self.ray.exceptions.RayError as error:
            raise RunError(
                f"Ray: {first_line(error)}; what was recorded is kept, run the same command again"
            ) from error
        return shard

    def _begin(self, settings: Settings) -> None:
        if self.ray.is_initialized():
            return
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if settings.address is None:
            self.ray.init(num_cpus=settings.workers, include_dashboard=False, **quiet)
            return
        _check_answers(settings.address)
        try:
            self.ray.init(address=settings.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            if settings.address == "auto":
                raise RunError(_no_cluster(settings.address, error)) from error
            # Something answers there. Ray tells of a missing token in its log alone.
            raise RunError(
                f"address: {settings.address!r} answers, but Ray could not join ({first_line(error)}); is it Ray's "
                "port, is its version the same, and is RAY_AUTH_MODE=token set here and there if the cluster "
                "asks for a token?"
            ) from error


def _check_answers(address: str) -> None:
    """Ray itself tries for minutes, and then ends the process."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":  # speaks to nobody who does not
                return
            connection.sendall(GREETING)
            connection.recv(1)
    except TimeoutError as error:
        raise RunError(f"address: {address!r} takes connections but does not answer; is it Ray's port?") from error
    except (OSError, OverflowError) as error:
        raise RunError(_no_cluster(address, error)) from error


def _listens(address: str) -> bool:
    """Whether somebody takes connections there."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return True  # nothing is known
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_WITHIN).close()
    except OSError:
        return False
    return True


def _no_cluster(address: str, error: Exception) -> str:
    return f"address: no Ray cluster at {address!r} ({first_line(error)}); start one with: ray start --head"


# In one of Ray's processes: the worker it was sent, unpacked once for all of its chunks.
_received: dict[str, Worker] = {}


def _work(sent: list[Any], chunk: Chunk) -> Shard:
    """``sent``: a list of one reference, which Ray would else unpack for every chunk."""
    (reference,) = sent
    if (key := reference.hex()) not in _received:
        _received.clear()
        _received[key] = importlib.import_module("ray").get(reference)
    return _received[key](chunk)


def _ship_by_value(resolved: ResolvedSettings, classifier: Classifier, ray: Any) -> None:
    """Code that lies beside the user's command is not to be found on other machines: it travels with the model."""
    parts: list[Any] = list(classifier.model.modules()) if isinstance(classifier.model, nn.Module) else []
    metric = resolved.problem.metric
    parts += [classifier.model, metric, getattr(metric, "function", None)]
    for attack in resolved.attacks:
        own = attack.attack if isinstance(attack, Reseeded) else attack
        parts += [own, getattr(own, "call", None)]
    names = {getattr(part, "__module__", None) or type(part).__module__ for part in parts}
    names |= {type(part).__module__ for part in parts}
    for module in (sys.modules.get(name) for name in sorted(names)):
        if module is not None and not _is_installed(str(getattr(module, "__file__", None) or "")):
            ray.cloudpickle.register_pickle_by_value(module)


def _is_installed(file: str) -> bool:
    """Whether other machines have it, if they are set up alike: libraries, Python itself, pwcf."""
    installed = {*map(Path, sysconfig.get_paths().values()), Path(__file__).parents[1]}
    return not file or any(place in Path(file).parents for place in installed)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise RunError(f"engine: ray needs Ray: pip install 'pwcf[ray]' ({error})") from error
