"""What a self-test found: a row for each plan that was trained, and the plan that is wrong, if any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any, NamedTuple

from pipesched.pipeline.plan import Plan

APART_AT_MOST = {"float64": 1e-9, "float32": 1e-4}  # losses and gradients: what the order of sums changes of them
HEAD = f"{'plan':<37}{'losses':>8}{'gradients':>10}{'bytes':>9}{'planned':>9}{'s':>7}"


class SelfTestRow(NamedTuple):
    """A plan on so many ranks in a type of numbers: how far losses and gradients are from those without a pipeline.

    `peak_bytes` are the live bytes of the activations of each rank, `planned_bytes` what the plan holds there,
    `allocated_bytes` what a GPU had allocated besides at the begin of a step (None on CPUs), each at their peak.
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
        """What is wrong, if anything is."""
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
        """Yield the lines of a table."""
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
