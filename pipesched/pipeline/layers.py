"""A model by its layers: what one of them costs, what the first and the last stage have beside them, and the layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

from pipesched.checks import require_name, require_sequence, require_type, require_whole
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Costs, exact_tuple
from pipesched.pipeline.device_costs import at_speed
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.quantities import Exact, canonical, ticks_per_unit, to_fraction

BALANCED, EQUAL, GIVEN = "balanced", "equal", "given"
RULES = (BALANCED, EQUAL, GIVEN)
TIMES = ("forward", "backward_input", "backward_weight", "recompute", "overlap", "offload", "reload")
SIZES = ("activation", "static")
WORK = ("forward", "backward_input", "backward_weight")  # the times of a forward and a backward
OPTIONAL = ("overlap", "offload", "reload")  # None where the model has none


@dataclass(frozen=True)
class LayerCosts:
    """The times and the memory of one layer, or of what a stage has beside its layers: an embedding, a head.

    Times are in the user's time unit; `activation` (of one microbatch) and `static` in the memory unit. `overlap`,
    `offload` and `reload` are None where the model has none. Raises ConfigError, about the field at fault, for what is
    no number from 0 on.
    """

    forward: Exact = 0
    backward_input: Exact = 0
    backward_weight: Exact = 0
    recompute: Exact = 0
    overlap: Exact | None = None
    offload: Exact | None = None
    reload: Exact | None = None
    activation: Exact = 0
    static: Exact = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name not in OPTIONAL:
                object.__setattr__(self, field.name, exact_tuple((value,), field.name, 1, "")[0])

    @property
    def work(self) -> Fraction:
        """The time of a forward and a backward of one microbatch."""
        return sum(map(self.amount, WORK), Fraction(0))

    @property
    def is_nothing(self) -> bool:
        """Whether all of it is zero."""
        return not any(getattr(self, field.name) for field in fields(self))

    def amount(self, key: str) -> Fraction:
        """Return one of the fields as a fraction; 0 for None."""
        return to_fraction(getattr(self, key) or 0)


@dataclass(frozen=True)
class Layers:
    """The layers of a model, which are alike, and how many of them each stage has.

    `layer` is what one of them costs, `first` and `last` what the first and the last stage have beside their layers.
    `layout` lists the layers of each stage; `rule` says where it is from. "given" holds for one number of stages;
    "balanced" and "equal" are found again for another number, or another placement. Raises ConfigError, about the field
    at fault, for what is none of these.
    """

    layer: LayerCosts
    first: LayerCosts
    last: LayerCosts
    layout: tuple[int, ...]
    rule: str = GIVEN

    def __post_init__(self) -> None:
        for key in ("layer", "first", "last"):
            require_type(getattr(self, key), LayerCosts, "LayerCosts", key)
        counts = require_sequence(self.layout, "layout")
        layout = tuple(require_whole(count, "layout", entry=entry) for entry, count in enumerate(counts))
        object.__setattr__(self, "layout", layout)
        require_name(RULES, self.rule, "rule", "rule")
        require_filled(layout, self.first, self.last)

    @property
    def count(self) -> int:
        """The number of layers."""
        return sum(self.layout)

    @property
    def resolution(self) -> int:
        """The ticks in a time unit that make the times of every layout whole."""
        parts = (self.layer, self.first, self.last)
        return ticks_per_unit([part.amount(key) for part in parts for key in TIMES])

    def resolution_at(self, speeds: Iterable[Fraction]) -> int:
        """Return the ticks in a time unit that make the times of every layout whole on devices of these speeds."""
        columns = [getattr(part, key) for part in (self.layer, self.first, self.last) for key in TIMES]
        values = {one for column in columns for one in (column if isinstance(column, tuple) else (column or 0,))}
        return ticks_per_unit([at_speed(to_fraction(value), speed) for speed in {*speeds} for value in values])

    def beside(self, stage: int, stages: int, key: str) -> Fraction:
        """Return what a stage out of `stages` has of `key` beside its layers."""
        first = self.first.amount(key) if stage == 0 else Fraction(0)
        return first + (self.last.amount(key) if stage == stages - 1 else Fraction(0))

    def amounts(self, key: str) -> tuple[Exact, ...]:
        """Return what each stage of the layout has of `key`, a field of LayerCosts."""
        each, stages = self.layer.amount(key), len(self.layout)
        return tuple(
            canonical(count * each + self.beside(stage, stages, key)) for stage, count in enumerate(self.layout)
        )

    def make(self, costs: Costs, memory: Memory) -> bool:
        """Return whether the costs and the memory of the stages are what the layout makes of the layers."""
        columns = {key: getattr(costs, key) for key in TIMES} | {key: getattr(memory, key) for key in SIZES}
        shares = (costs.p2p, memory.retain, memory.checkpoint)
        is_made = all(column is None or column == self.amounts(key) for key, column in columns.items())
        return is_made and all(len({*share}) <= 1 for share in shares)


def least_counts(stages: int, first: LayerCosts, last: LayerCosts) -> tuple[int, ...]:
    """Return the fewest layers that each stage may have: one, or none where it has something beside its layers."""
    least = [1] * stages
    for stage, part in ((0, first), (stages - 1, last)):
        if not part.is_nothing:
            least[stage] = 0
    return tuple(least)


def require_filled(layout: Sequence[int], first: LayerCosts, last: LayerCosts) -> None:
    """Raise ConfigError for a layout without a stage, or with a stage that has nothing to do."""
    if not layout:
        raise ConfigError("must list the layers of each stage", "layout")
    for stage, (count, least) in enumerate(zip(layout, least_counts(len(layout), first, last), strict=True)):
        if count < least:
            raise ConfigError(f"stage {stage} has nothing to do: it needs at least one layer", "layout", entry=stage)
