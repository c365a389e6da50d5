"""The durations of operations: in the user's units as given, and in integer ticks for everything that computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from pipesched.checks import WIDTH, require_flag, require_sequence, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.quantities import Exact, canonical, in_range, ticks_per_unit, to_fraction

BRIEF = 32  # letters of a list of numbers in the text of an object
PER_STAGE = ("forward", "backward_input", "backward_weight", "recompute", "overlap", "offload", "reload")


class Ticks(NamedTuple):
    """What operations last and edges cost, as integers: `per_unit` ticks are one of the user's time units.

    `p2p` is the latency of each boundary on the way of forwards, `p2p_back` on that of gradients.
    """

    per_unit: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    backward_input: tuple[int, ...]
    backward_weight: tuple[int, ...]
    recompute: tuple[int, ...]
    overlap: tuple[int, ...] | None
    p2p: tuple[int, ...]
    p2p_back: tuple[int, ...]
    offload: tuple[int, ...] | None
    reload: tuple[int, ...] | None

    def hop(self, before: int, after: int) -> int:
        """Return the latency from one stage to a neighbour: forwards to the next one, gradients to the one before."""
        return self.p2p[before] if before < after else self.p2p_back[after]

    def of(self, letter: str) -> tuple[int, ...]:
        """Return the duration of a kind of operation, stage by stage; empty for transfers that have no cost."""
        lengths: tuple[int, ...] | None = getattr(self, KINDS[letter].cost)
        return lengths or ()


@dataclass(frozen=True)
class Costs(Displayable):
    """Durations in the user's time unit, one for each of the S stages.

    `split` says that the backward is given as its halves, so that it may run as I and W. `overlap` is the duration of a
    pair F&B, by the stage of its forward (None: the sum of its parts); `p2p` the latency of each of the S-1 boundaries;
    `offload` and `reload` that of a transfer of one activation (None: it cannot be offloaded). `resolution`, a power of
    ten, is the least number of ticks in a time unit.

    Raises ConfigError, about the field at fault, for lists of other lengths and for entries that are no such numbers.
    """

    forward: tuple[Exact, ...]
    backward_input: tuple[Exact, ...]
    backward_weight: tuple[Exact, ...]
    recompute: tuple[Exact, ...]
    overlap: tuple[Exact, ...] | None = None
    p2p: tuple[Exact, ...] = ()
    offload: tuple[Exact, ...] | None = None
    reload: tuple[Exact, ...] | None = None
    split: bool = False
    resolution: int = field(default=1, compare=False)

    def __post_init__(self) -> None:
        stages = len(require_sequence(self.forward, "forward"))
        for key in PER_STAGE:
            if getattr(self, key) is not None or key not in ("overlap", "offload", "reload"):
                object.__setattr__(self, key, exact_tuple(getattr(self, key), key, stages, "one a stage"))
        object.__setattr__(self, "p2p", exact_tuple(self.p2p, "p2p", stages - 1, "one a boundary between stages"))
        if (self.offload is None) != (self.reload is None):
            missing = "offload" if self.offload is None else "reload"
            raise ConfigError("offload and reload are given together or not at all", missing)
        require_flag(self.split, "split")
        if 10 ** (len(str(require_whole(self.resolution, "resolution", least=1))) - 1) != self.resolution:
            raise ConfigError(f"must be a power of ten, not {shown(self.resolution)}", "resolution")
        self._require_decimals()

    def _require_decimals(self) -> None:
        for key in (*PER_STAGE, "p2p"):
            try:
                ticks_per_unit(map(to_fraction, getattr(self, key) or ()))
            except ValueError as error:
                raise ConfigError(f"times must be decimals; {error}", key) from None

    def __repr__(self) -> str:
        forward, backward = one_or_all(self.forward, BRIEF), one_or_all(self.backward, BRIEF)
        return f"Costs({forward=!s}, {backward=!s}, stages={self.stages})"

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.forward)

    @property
    def backward(self) -> tuple[Exact, ...]:
        """The full backward B of each stage: both halves."""
        pairs = zip(self.backward_input, self.backward_weight, strict=True)
        return tuple(canonical(to_fraction(half) + to_fraction(other)) for half, other in pairs)

    @cached_property
    def ticks(self) -> Ticks:
        """The costs as integers, scaled by the smallest power of ten that makes all of them whole (or `resolution`)."""
        columns = self.fractions
        scale = max(ticks_per_unit([value for column in columns.values() for value in column or ()]), self.resolution)
        ticks: dict[str, Any] = {key: column and whole(column, scale) for key, column in columns.items()}
        halves = zip(ticks["backward_input"], ticks["backward_weight"], strict=True)
        return Ticks(scale, **ticks, backward=tuple(map(sum, halves)), p2p_back=ticks["p2p"])

    @property
    def fractions(self) -> dict[str, tuple[Fraction, ...] | None]:
        """The times of each key exactly, and the latencies; None for what the problem has not."""
        columns = {key: getattr(self, key) for key in (*PER_STAGE, "p2p")}
        return {key: None if column is None else tuple(map(to_fraction, column)) for key, column in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)


def whole(values: Iterable[Fraction], scale: int) -> tuple[int, ...]:
    """Return times in ticks, of which `scale` are a time unit."""
    return tuple(int(value * scale) for value in values)


def exact_tuple(values: object, key: str, count: int, each: str) -> tuple[Exact, ...]:
    """Return `count` values as exact numbers. Raises ConfigError, about `key`, for anything but numbers from 0 on."""
    numbers = require_sequence(values, key)
    if len(numbers) != count:
        raise ConfigError(f"needs {count} numbers ({each}); this has {len(numbers)}", key)
    checked = []
    for entry, value in enumerate(numbers):
        try:
            number = in_range(to_fraction(value))
        except ValueError as error:
            raise ConfigError(f"must be a number, not {shown(value)} ({error})", key, entry=entry) from None
        if number < 0:
            raise ConfigError(f"must be at least 0, not {shown(value)}", key, entry=entry)
        checked.append(canonical(number))
    return tuple(checked)


def one_or_all(values: Sequence[Exact] | None, most: int = WIDTH) -> str:
    """Return the text of numbers, of at most `most` letters: of a single one where all are equal."""
    if not values:
        return shown(values)
    return shown(values[0] if all(value == values[0] for value in values) else tuple(values), most)


def fields_of(instance: object) -> dict[str, Any]:
    """Return the fields of a frozen dataclass without what it has cached: its state for pickle."""
    names: dict[str, Any] = getattr(instance, "__dataclass_fields__")  # noqa: B009  mypy does not know it of object
    return {name: getattr(instance, name) for name in names}
