"""`self_test`: train a small model by plans with every kind of operation, and hold it against PyTorch by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import isfinite
from time import monotonic
from typing import Any, NamedTuple

import torch

from pipesched.checks import require_callable, require_name, require_whole
from pipesched.errors import ConfigError, RankFailed
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.run import run
from pipesched.runtime.devices import CPU, CUDA, kind_of_device
from pipesched.runtime.profiling import StageProfile
from pipesched.runtime.rank_processes import rank_processes
from pipesched.runtime.unpipelined import APART_AT_MOST, ROWS, STEPS, activation_bytes, compare_rank
from pipesched.schedulers.options import labelled

HEAD = f"{'plan':<37}{'losses':>8}{'gradients':>10}{'bytes':>9}{'planned':>9}{'s':>7}"
PATIENCE = 300.0  # seconds for a plan that takes one: what takes longer hangs, even where many ranks share a core
RANKS = (2, 4)
MOST_RANKS = 64


class SelfTestRow(NamedTuple):
    """A plan on so many ranks in a type of numbers: how far losses and gradients are from those without a pipeline.

    `peak_bytes` are the live bytes of the activations of each rank, `planned_bytes` what the plan holds there.
    `allocated_bytes` are what a GPU had allocated besides at the begin of a step (None on CPUs). Each are at their
    peak.
    """

    ranks: int
    dtype: str
    plan: str
    losses: float
    gradients: float
    peak_bytes: Sequence[int]
    planned_bytes: Sequence[int]
    allocated_bytes: Sequence[int] | None
    seconds: float

    @property
    def fault(self) -> str | None:
        most = APART_AT_MOST[self.dtype]
        for what, apart in (("losses", self.losses), ("gradients", self.gradients)):
            if apart > most:
                return f"{what} differ by {apart:.2g} from those without a pipeline, more than {most:g}"
        for rank, (peak, planned) in enumerate(zip(self.peak_bytes, self.planned_bytes, strict=True)):
            if peak > planned:
                return f"rank {rank} holds {peak:,} bytes of activations at its peak; the plan has {planned:,}"
        return None

    def __str__(self) -> str:
        peak, planned = max(self.peak_bytes), max(self.planned_bytes)
        apart = f"{self.losses:>8.1g}{self.gradients:>10.1g}"
        return f"{self.plan:<37}{apart}{peak:>9,}{planned:>9,}{self.seconds:>7.2f}"


@dataclass(frozen=True)
class SelfTest:
    """The plans that a self-test trained, on CPUs or `gpus`, by a version of PyTorch; up to the first that is wrong.

    `failure` says what is wrong with that plan, and `plan` is its text; both are None where all are right.
    """

    device: str
    gpus: int
    torch: str
    rows: tuple[SelfTestRow, ...]
    failure: str | None = None
    plan: str | None = None

    def lines(self) -> Iterator[str]:
        yield f"PyTorch {self.torch} on {self.device}"
        for (ranks, dtype), rows in groupby(self.rows, key=lambda row: (row.ranks, row.dtype)):
            shared = f" (they share {self.gpus} GPU, so NCCL is not tested)" if 0 < self.gpus < ranks else ""
            yield f"\n{ranks} ranks{shared}, {dtype}: losses and gradients at most {APART_AT_MOST[dtype]:g} apart"
            yield HEAD
            yield from map(str, rows)

    def document(self) -> dict[str, Any]:
        """Return the document, as an object that JSON holds; a difference without limit is null."""
        rows = [row._asdict() for row in self.rows]
        for row in rows:
            row |= {key: row[key] if isfinite(row[key]) else None for key in ("losses", "gradients")}
        return {
            "format": "pipesched.self_test",
            "version": 1,
            **{key: getattr(self, key) for key in ("device", "gpus", "torch")},
            "passed": self.failure is None,
            "failure": self.failure,
            "plan": self.plan,
            "rows": rows,
        }


def text_of(plan: Plan) -> str:
    """Return what each device of a plan runs, and its transfers, a line each."""
    lines = [f"device {device}: {' '.join(map(str, plan.slots(device)))}" for device in range(len(plan.orders))]
    for number, lanes in enumerate(plan.lanes):
        for what, lane in zip(("offloads", "loads"), lanes, strict=True):
            if lane:
                lines.append(f"{what} {number}: {' '.join(str(plan.index.op(one)) for one in lane)}")
    return "\n".join(lines)


class _PlanTrial(NamedTuple):
    """A plan to train: stages a device, what is recomputed and offloaded, and whether rows of microbatches differ."""

    algorithm: str
    chunks: int = 1
    recompute: str | int | None = None
    offload: str | int | None = None
    differ: bool = False

    @property
    def name(self) -> str:
        return labelled(self.algorithm, self._asdict()) + ", unequal rows" * self.differ

    def sizes(self, ranks: int) -> list[tuple[int]] | None:
        """Return the rows of each microbatch, where they differ."""
        return [(ROWS * (microbatch % 4 + 1) // 2,) for microbatch in range(2 * ranks)] if self.differ else None

    def schedule(self, ranks: int, stages: Sequence[StageProfile]) -> Schedule:
        """Return the schedule, in which activations take what first, middle and last stages take."""
        first, middle, last = stages
        factors = [Fraction(rows, ROWS) for (rows,) in self.sizes(ranks) or [(ROWS,)] * 2 * ranks]
        each = [first, *[middle] * (self.chunks * ranks - 2), last]
        times: dict[str, Any] = dict.fromkeys(("forward", "backward_input", "backward_weight", "offload"), 1)
        problem = make_problem(
            devices=ranks,
            stages=self.chunks * ranks,
            microbatches=2 * ranks,
            sizes={"work": factors, "activation": factors},
            **times,
            activation=[one.activation for one in each],
            retain=[Fraction(round(one.retain * one.activation), one.activation) for one in each],  # whole bytes
            checkpoint=[Fraction(round(one.checkpoint * one.activation), one.activation) for one in each],
        )
        return run(problem, self.algorithm, recompute=self.recompute, offload=self.offload).schedule


TRIALS = (
    _PlanTrial("naive"),
    _PlanTrial("1f1b"),
    _PlanTrial("1f1b", recompute="full"),
    _PlanTrial("1f1b", offload="full"),
    _PlanTrial("interleaved", 2, differ=True),
    _PlanTrial("interleaved", 2, "full", 2),
    _PlanTrial("zb-h1", offload="full"),
    _PlanTrial("zb-v", 2),
    _PlanTrial("zb-v", 2, "full"),
    _PlanTrial("dualpipe-v", 2, offload="full"),
    _PlanTrial("bitpipe", 2, "full", 1),
    _PlanTrial("dualpipe", 1, "full", 1),
)
"""Between them every kind of operation, pairs, chunks, a V, two copies, all kinds in one plan, and unequal rows."""


def self_test(
    device: str | None = None, ranks: int | None = None, *, listener: Callable[[str], None] | None = None
) -> SelfTest:
    """Train a small model by a dozen plans, and hold losses, gradients and bytes against those without a pipeline.

    Processes are started on this machine. They train with recomputation, offload, two copies of the weights, split
    backwards and chunks, in 64 and in 32 bits. The first plan that is wrong ends the test.

    Args:
        device: "cpu" or "cuda"; default: CUDA where it is.
        ranks: An even number of them, for two copies of the weights; default: 2, and 4 where each has a GPU or on CPUs.
        listener: Called with the name of what is trained next.

    Returns:
        A SelfTest: what was found for each plan, and what is wrong, if anything is.

    Raises:
        ConfigError: For a device that is not there, and another number of ranks.
        RankFailed: For processes that cannot train anything.
    """
    kind = kind_of_device() if device is None else require_name((CPU, CUDA), device, "device", "device")
    if kind == CUDA and not torch.cuda.is_available():
        raise ConfigError(f"PyTorch {torch.__version__} finds no GPU here", "device")
    if ranks is not None and require_whole(ranks, "ranks", least=2, most=MOST_RANKS) % 2:
        raise ConfigError(f"must be even, as two copies of the weights need pairs of ranks, not {ranks}", "ranks")
    require_callable(listener, "listener")
    rows, gpus = list[SelfTestRow](), torch.cuda.device_count() if kind == CUDA else 0
    where = f"{gpus} x {torch.cuda.get_device_name(0)}" if gpus else CPU
    fault = None
    for count in usual_ranks(kind, gpus) if ranks is None else [ranks]:
        fault = fault or _first_fault(count, kind, rows, listener or (lambda _: None))
    return SelfTest(where, gpus, torch.__version__, tuple(rows), *(fault or ()))


def usual_ranks(kind: str, gpus: int) -> Sequence[int]:
    """Return how many ranks are tried where nothing is said: each its own GPU, or two that share one."""
    return RANKS if kind == CPU else [count for count in RANKS if count <= gpus] or RANKS[:1]


def _first_fault(count: int, kind: str, rows: list[SelfTestRow], tell: Callable[[str], None]) -> tuple[str, str] | None:
    """Train each plan on so many ranks, and add its row; of the first wrong one return what is wrong, and its text."""
    with rank_processes(count, kind) as call:
        for dtype in APART_AT_MOST:
            group = f"{count} ranks, {dtype}"
            tell(group)
            stages = call(activation_bytes, kind, dtype, seconds=PATIENCE)[0]
            for trial in TRIALS:
                tell(f"{group}: {trial.name}")
                schedule, begin = trial.schedule(count, stages), monotonic()
                try:
                    found = call(compare_rank, schedule, kind, dtype, None, STEPS, trial.sizes(count), seconds=PATIENCE)
                except RankFailed as error:
                    return f"{trial.name} on {group}: {error}", text_of(schedule.plan)
                row = SelfTestRow(
                    count,
                    dtype,
                    trial.name,
                    max(one.losses for one in found),
                    max(one.gradients for one in found),
                    [one.report["peak_bytes"] for one in found],
                    [round(peak) for peak in schedule.peak_memory],
                    [one.allocated for one in found] if kind == CUDA else None,
                    monotonic() - begin,
                )
                rows.append(row)
                if row.fault is not None:
                    return f"{trial.name} on {group}: {row.fault}", text_of(schedule.plan)
    return None
