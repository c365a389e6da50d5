"""How sure an estimate is: intervals of its time and memory, and the evidence that it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pipesched.estimation.trust.speed import Interval, SpeedRatio, Standing


class OutsideField(NamedTuple):
    """A field of a setup that lies outside what was measured: its value, and in words what was."""

    field: str
    value: int | str
    measured: str


class NearRun(NamedTuple):
    """A published run near a setup: `apart` is the spread of their difference.

    `tokens_per_second_per_gpu` was published; `error` is by how much the estimate of that run's rate is off.
    """

    run: str
    source: str
    url: str
    apart: float
    tokens_per_second_per_gpu: float
    error: float


class Evidence(NamedTuple):
    """Whether a setup lies inside what was measured, which fields do not, and the published runs nearest to it."""

    outside: tuple[OutsideField, ...]
    nearest: tuple[NearRun, ...]

    @property
    def inside(self) -> bool:
        """Whether each field lies inside."""
        return not self.outside


@dataclass(frozen=True)
class Trust:
    """How sure an estimate is, on what evidence.

    `time` of the step in milliseconds, `tokens_per_second_per_gpu`, and `memory` of the fullest device in GB. `spread`
    is the standard deviation of the logarithm of the time. `sure`: the upper end of every device's memory is within its
    budget. `own` are the runs of one's own that count, `like` the source whose effect does.
    """

    level: float
    time: Interval
    tokens_per_second_per_gpu: Interval
    memory: Interval
    spread: float
    sure: bool
    evidence: Evidence
    standing: Standing = field(repr=False, compare=False)
    own: int = 0
    like: str | None = None

    def against(self, other: Trust) -> SpeedRatio:
        """Return the time of the step over that of another, of the same model on as many GPUs. Raises ConfigError."""
        return self.standing.against(other.standing)
