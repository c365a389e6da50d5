"""The result: of each schedule how its makespan is distributed, how often it is shortest, what slow devices cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, overload

from pipesched.analysis.robust.variation import Variation
from pipesched.checks import joined, require_label, require_number, require_sequence, require_text, require_type, shown
from pipesched.display import Displayable
from pipesched.pipeline.costs import BRIEF

FIGURES = ("makespan", "mean", "std", "p50", "p95", "p99", "best_share")


@dataclass(frozen=True)
class RobustnessRow:
    """One schedule of a robustness, or the `reason` why it does not apply; times are in the user's unit.

    `makespan` is that of the costs as they are; `mean`, `std` (of n - 1) and the percentiles are those of the samples,
    `best_share` is the share of samples in which no other was shorter (several shortest ones share it). `stragglers`
    are the makespans with each device slow. `over` has `device`, `memory` and `budget` of each device that exceeds it;
    such a row takes no part in the best share, which is None. `makespans` are the samples, none of what was read from a
    document. Raises ConfigError, about the field at fault, for a value of another type.
    """

    algorithm: str
    makespan: int | float = 0
    mean: float = 0.0
    std: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    best_share: float | None = 0.0
    stragglers: tuple[int | float, ...] = ()
    reason: str = ""
    over: tuple[Mapping[str, Any], ...] = ()
    makespans: tuple[float, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        require_text(self.algorithm, "algorithm")
        require_text(self.reason, "reason")
        for key in FIGURES:
            if key != "best_share" or self.best_share is not None:
                require_number(getattr(self, key), key)
        for key in ("stragglers", "over", "makespans"):
            object.__setattr__(self, key, tuple(require_sequence(getattr(self, key), key)))
        for makespan in self.stragglers:
            require_number(makespan, "stragglers")

    def __repr__(self) -> str:
        what = f"mean {self.mean:.6g}, p95 {self.p95:.6g}" if self.applicable else shown(self.reason)
        return f"RobustnessRow({shown(self.algorithm, BRIEF)}, {what})"

    @property
    def applicable(self) -> bool:
        """Whether there is a schedule."""
        return not self.reason

    @property
    def fits(self) -> bool:
        """Whether no device exceeds its budget."""
        return not self.over

    @property
    def worst_device(self) -> int | None:
        """The device that costs most when it is slow, the first of several; None where nothing is known."""
        return self.stragglers.index(max(self.stragglers)) if self.stragglers else None

    @property
    def worst_makespan(self) -> int | float:
        """The makespan when that device is slow (that of the costs as they are where nothing is known)."""
        return max(self.stragglers, default=self.makespan)

    @property
    def price(self) -> float:
        """What the worst slow device costs: (its makespan - makespan) / makespan."""
        return (self.worst_makespan - self.makespan) / self.makespan if self.makespan else 0.0


@dataclass(frozen=True, repr=False)
class Robustness(Displayable, Sequence[RobustnessRow]):
    """Rows in the order asked for, and how durations varied: the parameters of `robustness`.

    `robustness["1f1b"]` is the row of an algorithm. `time_unit` is the label of times. Raises ConfigError, about the
    field at fault.
    """

    rows: tuple[RobustnessRow, ...]
    noise: int | float = 0.05
    device_noise: int | float = 0
    straggler: int | float = 1.2
    samples: int = 1000
    seed: int = 0
    time_unit: str = ""

    def __post_init__(self) -> None:
        require_label(self.time_unit, "time_unit")
        object.__setattr__(self, "rows", tuple(require_sequence(self.rows, "rows")))
        for row in self.rows:
            require_type(row, RobustnessRow, "a RobustnessRow", "rows")
        for one in fields(self.variation):
            object.__setattr__(self, one.name, getattr(self.variation, one.name))

    @property
    def variation(self) -> Variation:
        """How durations vary."""
        return Variation(self.noise, self.device_noise, self.straggler, self.samples, self.seed)

    def __repr__(self) -> str:
        texts = [f"{row.algorithm} {row.mean:.6g}" if row.applicable else f"{row.algorithm} n/a" for row in self.rows]
        return f"Robustness({joined(texts)})"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RobustnessRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, key: int | str) -> RobustnessRow: ...

    @overload
    def __getitem__(self, key: slice) -> Sequence[RobustnessRow]: ...

    def __getitem__(self, key: int | str | slice) -> RobustnessRow | Sequence[RobustnessRow]:
        if not isinstance(key, str):
            return self.rows[key]
        return {row.algorithm: row for row in reversed(self.rows)}[key]
