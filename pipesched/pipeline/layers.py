"""A model by its layers: what one of them costs, what the first and the last stage have beside them, and the layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

from pipesched.checks import require_flag, require_name, require_sequence, require_type, require_whole
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Costs, exact_tuple
from pipesched.pipeline.device_costs import at_speed
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.quantities import Exact, canonical, ticks_per_unit, to_fraction

BALANCED, EQUAL, GIVEN = "balanced", "equal", "given"
RULES = (BALANCED, EQUAL, GIVEN)
TIMES = ("forward", "backward_input", "backward_weight", "recompute", "overlap", "offload", "reload")
SIZES = ("activation", "static")
SHARES = ("retain", "checkpoint")
WORK = ("forward", "backward_input", "backward_weight")  # the times of a forward and a backward
OPTIONAL = ("overlap", "offload", "reload")  # None where the model has none
Amount = Exact | tuple[Exact, ...]  # of every layer, or of each


@dataclass(frozen=True)
class LayerCosts:
    """The times and the memory of one layer, or of what a stage has beside its layers: an embedding, a head.

    Where layers differ a field lists the values of all; a list of equal ones becomes one number. Times are in the
    user's time unit; `activation` (of one microbatch) and `static` in the memory unit. `overlap`, `offload` and
    `reload` are None where the model has none, `retain` and `checkpoint` where all stages have those of the problem's
    memory. Raises ConfigError, about the field at fault, for what is no number from 0 on.
    """

    forward: Amount = 0
    backward_input: Amount = 0
    backward_weight: Amount = 0
    recompute: Amount = 0
    overlap: Amount | None = None
    offload: Amount | None = None
    reload: Amount | None = None
    activation: Amount = 0
    static: Amount = 0
    retain: Amount | None = None
    checkpoint: Amount | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name not in (*OPTIONAL, *SHARES):
                object.__setattr__(self, field.name, _amount(value, field.name))

    @property
    def work(self) -> Fraction:
        """The time of a forward and a backward of one microbatch, of a layer that is like all others."""
        return sum(map(self.amount, WORK), Fraction(0))

    @property
    def is_nothing(self) -> bool:
        """Whether it takes no time and no memory."""
        return not any(getattr(self, key) for key in (*TIMES, *SIZES))

    @property
    def lengths(self) -> dict[str, int]:
        """The number of layers that each list is of, by its field."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {key: len(value) for key, value in values if isinstance(value, tuple)}

    @property
    def is_cut_by_counts(self) -> bool:
        """Whether work and memory of stages follow from the numbers of their layers."""
        return self.lengths.keys().isdisjoint((*WORK, *SIZES))

    def amount(self, key: str) -> Fraction:
        """Return one of the fields as a fraction, of a layer that is like all others; 0 for None."""
        return to_fraction(getattr(self, key) or 0)

    @property
    def backward(self) -> Amount:
        """The time of a full backward: both halves."""
        halves = [
            value if isinstance(value, tuple) else (value,) for value in (self.backward_input, self.backward_weight)
        ]
        most = max(map(len, halves))
        columns = [half * most if len(half) < most else half for half in halves]
        sums = tuple(canonical(to_fraction(one) + to_fraction(other)) for one, other in zip(*columns, strict=True))
        return sums if most > 1 else sums[0]

    def sums(self, key: str, count: int) -> Sequence[Fraction]:
        """Return what the first 0, 1, .. of `count` layers have of a field together."""
        value = getattr(self, key)
        return prefix_sums(value) if isinstance(value, tuple) else [self.amount(key) * n for n in range(count + 1)]


def _amount(value: object, key: str) -> Amount:
    """Return one number, or the numbers of a list that are not all the same. Raises ConfigError about `key`."""
    if not isinstance(value, (list, tuple)):
        return exact_tuple((value,), key, 1, "")[0]
    numbers = exact_tuple(value, key, len(value), "one a layer")
    return numbers[0] if len({*numbers}) == 1 else numbers


@lru_cache(maxsize=256)
def prefix_sums(values: Sequence[Exact]) -> Sequence[Fraction]:
    """Return the sums of the first 0, 1, .. values."""
    return tuple(accumulate(map(to_fraction, values), initial=Fraction(0)))


@dataclass(frozen=True)
class Layers:
    """The layers of a model, and how many of them each stage has.

    `layer` is what one of them costs, or lists of what each costs; `first` and `last` what the first and the last stage
    have beside their layers. `layout` lists the layers of each stage; `rule` says where it is from. "given" holds for
    one number of stages; "balanced" and "equal" are found again for another number, or another placement. `p2p` is the
    latency of each boundary between layers, None where all boundaries of stages have one. `blocks` says that stages
    were given, which count as layers. Raises ConfigError, about the field at fault, for what is none of these.
    """

    layer: LayerCosts
    first: LayerCosts
    last: LayerCosts
    layout: tuple[int, ...]
    rule: str = GIVEN
    p2p: tuple[Exact, ...] | None = None
    blocks: bool = False

    def __post_init__(self) -> None:
        for key in ("layer", "first", "last"):
            require_type(getattr(self, key), LayerCosts, "LayerCosts", key)
        counts = require_sequence(self.layout, "layout")
        layout = tuple(require_whole(count, "layout", entry=entry) for entry, count in enumerate(counts))
        object.__setattr__(self, "layout", layout)
        require_name(RULES, self.rule, "rule", "rule")
        require_flag(self.blocks, "blocks")
        require_filled(layout, self.first, self.last)
        for key in ("first", "last"):
            if getattr(self, key).lengths:
                raise ConfigError("is of one stage: it takes no lists", key)
        if self.p2p is not None:
            between = "one a boundary between layers"
            object.__setattr__(self, "p2p", exact_tuple(self.p2p, "p2p", max(self.count - 1, 0), between))
        for key, length in self.layer.lengths.items():
            if length != self.count:
                raise ConfigError(f"lists {length} layers; there are {self.count}", "layer", entry=key)

    @property
    def count(self) -> int:
        """The number of layers."""
        return sum(self.layout)

    @property
    def resolution(self) -> int:
        """The ticks in a time unit that make the times of every layout whole."""
        values = (getattr(part, key) for part in (self.layer, self.first, self.last) for key in TIMES)
        listed = [value if isinstance(value, tuple) else (value or 0,) for value in values]
        return ticks_per_unit(map(to_fraction, {value for column in (*listed, self.p2p or ()) for value in column}))

    def resolution_at(self, speeds: Iterable[Fraction]) -> int:
        """Return the ticks in a time unit that make the times of every layout whole on devices of these speeds."""
        columns = [getattr(part, key) for part in (self.layer, self.first, self.last) for key in TIMES]
        values = {one for column in columns for one in (column if isinstance(column, tuple) else (column or 0,))}
        return ticks_per_unit([at_speed(to_fraction(value), speed) for speed in {*speeds} for value in values])

    def beside(self, stage: int, stages: int, key: str) -> Fraction:
        """Return what a stage out of `stages` has of `key` beside its layers."""
        first = self.first.amount(key) if stage == 0 else Fraction(0)
        return first + (self.last.amount(key) if stage == stages - 1 else Fraction(0))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first layer of each stage, and the one behind its last."""
        return [*pairwise(accumulate(self.layout, initial=0))]

    def amounts(self, key: str) -> tuple[Exact, ...]:
        """Return what each stage of the layout has of `key`, a field of LayerCosts that adds up."""
        listed, stages = getattr(self.layer, key), len(self.layout)
        if isinstance(listed, tuple):
            sums = prefix_sums(listed)
            inside = [sums[end] - sums[begin] for begin, end in self.spans]
        else:
            each = self.layer.amount(key)
            inside = [count * each for count in self.layout]
        return tuple(canonical(amount + self.beside(stage, stages, key)) for stage, amount in enumerate(inside))

    def shares(self, key: str) -> tuple[Exact, ...] | None:
        """Return the mean `retain` or `checkpoint` of each stage, by activation; None where layers have none.

        It is the plain mean where no activation is more than 0.
        """
        listed, count = getattr(self.layer, key), self.count
        if listed is None:
            return None
        parts = [*map(to_fraction, listed if isinstance(listed, tuple) else (listed,) * count)]
        sums = self.layer.sums("activation", count)
        sizes = [end - begin for begin, end in pairwise(sums)]
        last, means = len(self.layout) - 1, []
        for stage, (begin, end) in enumerate(self.spans):
            weighed = [*zip(sizes[begin:end], parts[begin:end], strict=True)]
            beside = [part for part, at in ((self.first, 0), (self.last, last)) if at == stage]
            weighed += [(part.amount("activation"), part.amount(key)) for part in beside if not part.is_nothing]
            means.append(_mean(weighed))
        return tuple(means)

    @property
    def latencies(self) -> tuple[Exact, ...] | None:
        """The latency of each boundary between stages, by the layers that it stands between; None where all are alike.

        Before the first layer it is that of the first boundary between layers, behind the last one that of the last.
        """
        if self.p2p is None:
            return None
        most = len(self.p2p) - 1
        return tuple(self.p2p[min(max(begin - 1, 0), most)] if self.p2p else 0 for begin, _ in self.spans[1:])

    def make(self, costs: Costs, memory: Memory) -> bool:
        """Return whether the costs and the memory of the stages are what the layout makes of the layers."""
        columns = {key: getattr(costs, key) for key in TIMES} | {key: getattr(memory, key) for key in SIZES}
        is_made = all(column is None or column == self.amounts(key) for key, column in columns.items())
        shares = {key: getattr(memory, key) for key in SHARES}
        made = [(costs.p2p, self.latencies), *((column, self.shares(key)) for key, column in shares.items())]
        return is_made and all(len({*column}) <= 1 if own is None else column == own for column, own in made)


def _mean(weighed: Sequence[tuple[Fraction, Fraction]]) -> Exact:
    """Return the mean of parts, each behind its weight; the plain one where no weight is more than 0."""
    if not any(weight for weight, _ in weighed):
        weighed = [(Fraction(1), part) for _, part in weighed]
    return canonical(
        sum((weight * part for weight, part in weighed), Fraction(0)) / sum(weight for weight, _ in weighed)
    )


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
