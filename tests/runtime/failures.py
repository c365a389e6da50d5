"""What goes wrong on a rank, as jobs for its process: each returns what was raised."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pipesched.runtime import Runtime
from pipesched.runtime.devices import take_device
from pipesched.runtime.training_data import moved
from pipesched.runtime.unpipelined import WIDTH, ResidualBlock, batch, blocks, loss_of
from tests.runtime.models import stand_apart
from tests.runtime_ranks import DEVICE


class Raised(NamedTuple):
    """The class and the text of an exception, and the threads that are left."""

    kind: str
    text: str
    threads: int


class Planned(Exception):
    """What a module raises on purpose."""


class Bad(torch.nn.Module):  # type: ignore[misc]
    """Does something at the forward of a microbatch, or at its backward."""

    def __init__(self, act: Callable[[], None], at: int, *, backward: bool = False) -> None:
        super().__init__()
        self.inner, self.act, self.at, self.calls, self.in_backward = ResidualBlock().double(), act, at, 0, backward

    def forward(self, data: Any) -> Any:
        value = self.inner(data)
        if self.calls == self.at:
            if self.in_backward:
                value.register_hook(lambda _: self.act())
            else:
                self.act()
        self.calls += 1
        return value


class Shorter(torch.nn.Module):  # type: ignore[misc]
    """Leaves rows out, from a call on."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.inner, self.at, self.calls = ResidualBlock().double(), at, 0

    def forward(self, data: Any) -> Any:
        self.calls += 1
        return self.inner(data)[int(self.calls > self.at) :]


def fail() -> None:
    """Raise."""
    raise Planned("as planned")


def die() -> None:
    """End the process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def stages_with(what: str, stages: int) -> list[Any]:
    """The model, with something wrong in its second stage."""
    modules = blocks(stages, torch.float64)
    if what == "raises":
        modules[1] = Bad(fail, 2)
    elif what == "raises in a backward":
        modules[1] = Bad(fail, 0, backward=True)
    elif what == "is killed":
        modules[1] = Bad(die, 2)
    elif what == "does not fit":
        modules[1] = torch.nn.Linear(5, 5).double()
    elif what == "changes its output":
        modules[1] = Shorter(6)
    elif what == "BatchNorm":
        modules[1] = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH)).double()
    return modules


def attempt_apart(rank: int, group: Any, source: Any, stages: int, microbatches: int, what: str) -> Raised:
    """Train as `attempt` does, with messages by NCCL."""
    stand_apart(rank)
    return attempt(rank, group, source, stages, microbatches, what)


def attempt(rank: int, group: Any, source: Any, stages: int, microbatches: int, what: str) -> Raised:
    """Train on a rank, and return what was raised."""
    threads, device = threading.active_count(), take_device(rank, DEVICE)
    data, target, _ = moved(batch(microbatches, torch.float64), device)
    modules = [module.to(device) for module in stages_with(what, stages)]
    kind, text = "nothing", ""
    try:
        given = "no such file" if what == "reads another file" and rank == 1 else source
        run = Runtime(given, {stage: modules[stage] for stage in range(stages) if stage % 4 == rank}, loss_of, group)
        wrong = data[:-1] if what == "a microbatch less" else data
        for _ in range(2 if what == "changes its output" else 1):
            run.step(wrong if rank == 0 else None, target)
        run.close()
    except Exception as error:
        kind, text = type(error).__name__, str(error)
    return Raised(kind, text, threading.active_count() - threads)
