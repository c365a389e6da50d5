"""A model by its layers (`Layers`): what each costs, what end stages have beside them, the layout; `read_layers`.

A problem calls `read_layers` with the parameters of `make_problem`, then `stage_values` for what each stage has:
`Layers.amounts` adds up a key, forward say, over its layers. An amount is a number of every layer, or a tuple with one
of each. A `layout` is how many layers each stage has; cutting.py finds the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from pipesched.checks import (
    require_flag,
    require_mapping,
    require_name,
    require_sequence,
    require_type,
    require_whole,
    shown,
)
from pipesched.errors import ConfigError
from pipesched.pipeline.layers.layout_text import StageItems, megatron_text, stages_of_counts
from pipesched.pipeline.problem.costs import (
    AVERAGED,
    COSTS,
    HALVES,
    MEMORY_KEYS,
    PER_STAGE,
    SIZES,
    STATIC_PARTS,
    STEP_TIMES,
    Costs,
    Entry,
    Memory,
    added,
    at_speed,
    entries_of,
    exact_tuple,
    fractions_of,
    in_one,
    scaled,
    taken,
)
from pipesched.pipeline.problem.model import Units
from pipesched.pipeline.problem.quantities import (
    Exact,
    Unit,
    canonical,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    is_listed,
    is_several,
    length_text,
    ticks_per_unit,
    to_fraction,
)
from pipesched.pipeline.problem.units import SHARED, Slices

BEST, BALANCED, EQUAL, GIVEN = "best", "balanced", "equal", "given"
RULES = (BEST, BALANCED, EQUAL, GIVEN)
TIMES = (*PER_STAGE, *STEP_TIMES)
PARTS = ("layer", "first", "last", "mtp")
WORK = ("forward", "backward_input", "backward_weight")  # the times of a forward and a backward
OPTIONAL = tuple(name for name in TIMES if COSTS[name].optional)  # None where the model has none
_OF_LAYER = (*PER_STAGE, *(name for name in SIZES if name not in STATIC_PARTS), *AVERAGED, *STEP_TIMES, *STATIC_PARTS)
T = TypeVar("T")
Amount = Exact | tuple[Entry, ...]  # of every layer, or of each


def _with_amounts(record: type[T]) -> type[T]:
    """Return a record with a field for each key that layers have: those that stages add up, and shares."""
    record.__annotations__ = dict.fromkeys(_OF_LAYER, "Amount | None")
    for name in _OF_LAYER:
        setattr(record, name, None if name in (*OPTIONAL, *AVERAGED) else 0)
    return record


@dataclass(frozen=True)
@_with_amounts
class LayerCosts:
    """The times and the memory of one layer, or of what a stage has beside its layers: an embedding, a head.

    Its fields follow from the keys that `Costs` and `Memory` declare for stages; none stands here.

    Where layers differ a field lists the values of all; a list of equal ones becomes one number. Where microbatches
    differ too, an entry of a list holds one for each of them, as a stage's does. Times are in the user's time unit;
    `activation` is of one microbatch, in the memory unit as all sizes. Costs that a model may lack are None where it
    lacks them; so are `retain` and `checkpoint` where all stages have those of the problem's memory. Raises
    ConfigError, about the field at fault, for what is no number from 0 on.
    """

    if TYPE_CHECKING:

        def __init__(self, **amounts: Amount | None) -> None: ...
        def __getattr__(self, key: str) -> Any: ...

    def __post_init__(self) -> None:
        for field in fields(self):
            key, value = field.name, getattr(self, field.name)
            if value is None and key in (*OPTIONAL, *AVERAGED):
                continue
            if not isinstance(value, (list, tuple)):
                amount: Amount = exact_tuple((value,), key, 1, "")[0]
            else:
                amount = exact_tuple(value, key, len(value), "one a layer", by_row=True)
                if len({*amount}) == 1 and not isinstance(amount[0], tuple):
                    amount = amount[0]
            object.__setattr__(self, key, amount)

    @property
    def work(self) -> Fraction:
        """The time of a forward and a backward of one microbatch, of a layer that is like all others."""
        return sum(map(self.amount, WORK), Fraction(0))

    @property
    def is_nothing(self) -> bool:
        return not any(getattr(self, key) for key in (*TIMES, *SIZES))

    @property
    def lengths(self) -> dict[str, int]:
        """The number of layers that each list is of, by its field."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {key: len(value) for key, value in values if isinstance(value, tuple)}

    @property
    def is_cut_by_counts(self) -> bool:
        """Whether work and memory of stages follow from the numbers of their layers."""
        return self.lengths.keys().isdisjoint((*WORK, "whole", *SIZES))

    def amount(self, key: str) -> Fraction:
        """Return one of the fields as a fraction, of a layer that is like all others; 0 for None."""
        return to_fraction(getattr(self, key) or 0)

    @property
    def backward(self) -> Amount:
        """The time of a full backward: `whole`, or both halves."""
        whole: Amount | None = self.whole
        return summed([self.backward_input, self.backward_weight]) if whole is None else whole

    def sums(self, key: str, count: int) -> Sequence[Fraction]:
        """Return what the first 0, 1, .. of `count` layers have of a field together, of all microbatches of a table."""
        value = getattr(self, key)
        return prefix_sums(value) if isinstance(value, tuple) else [self.amount(key) * n for n in range(count + 1)]

    @property
    def is_table(self) -> bool:
        """Whether some layer has a number of its own for each microbatch."""
        return any(rows_of(getattr(self, field.name)) > 1 for field in fields(self))


def summed(amounts: Sequence[Amount], factor: Fraction = Fraction(1)) -> Amount:
    """Return the sum of numbers times a factor: one number, or where any is a list one for each layer."""
    lists = [amount for amount in amounts if isinstance(amount, tuple)]
    count = len(lists[0]) if lists else 1
    columns = [amount if isinstance(amount, tuple) else (amount,) * count for amount in amounts]
    sums = tuple(scaled(added(parts), factor) for parts in zip(*columns, strict=True))
    return sums if lists else sums[0]


def rows_of(amount: Amount | None) -> int:
    """Return how many microbatches the entries of a list are of, 1 where there is no entry for each."""
    entries = amount if isinstance(amount, tuple) else ()
    return max((len(entry) for entry in entries if isinstance(entry, tuple)), default=1)


@lru_cache(maxsize=256)
def prefix_sums(values: tuple[Entry, ...]) -> Sequence[Fraction]:
    """Return the sums of the first 0, 1, .. values, of all microbatches where some entry has one for each."""
    count = rows_of(values)
    sums = (sum(entries_of(value, count), Fraction(0)) for value in values)
    return tuple(accumulate(sums, initial=Fraction(0)))


@dataclass(frozen=True)
class Layers:
    """The layers of a model, and how many of them each stage has.

    A layout that is "given" holds for one number of stages. By another rule it is found again for another number, or
    another placement; "best", until `run` knows the algorithm, is as "balanced". Raises ConfigError, about the field at
    fault, for what is none of these.
    """

    layer: LayerCosts  # what one of them costs, or lists of what each costs
    first: LayerCosts  # what the first stage has beside its layers
    last: LayerCosts  # what the last stage has beside them: each loss
    layout: tuple[int, ...]  # the layers of each stage
    rule: str = GIVEN  # where the layout is from
    p2p: tuple[Entry, ...] | None = None  # the latency between layers; None where all boundaries of stages have one
    blocks: bool = False  # stages were given, which count as layers
    mtp: LayerCosts = LayerCosts()  # a layer of multi-token prediction
    items: tuple[StageItems, ...] = ()  # what each stage has, where some have such layers, or several a loss

    def __post_init__(self) -> None:
        for key in PARTS:
            require_type(getattr(self, key), LayerCosts, "LayerCosts", key)
        counts = require_sequence(self.layout, "layout")
        layout = tuple(require_whole(count, "layout", entry=entry) for entry, count in enumerate(counts))
        object.__setattr__(self, "layout", layout)
        require_name(RULES, self.rule, "rule", "rule")
        require_flag(self.blocks, "blocks")
        if not layout:
            raise ConfigError("must list the layers of each stage", "layout")
        items = tuple(require_sequence(self.items, "items"))
        counts = [one.layers if isinstance(one, StageItems) else None for one in items]
        if items and counts != [*layout]:
            raise ConfigError("must be StageItems with the layers of `layout`", "items")
        object.__setattr__(self, "items", items)
        for key in PARTS[1:]:
            if getattr(self, key).lengths:
                raise ConfigError("is of one stage: it takes no lists", key)
        if self.p2p is not None:
            between = "one a boundary between layers"
            object.__setattr__(self, "p2p", exact_tuple(self.p2p, "p2p", max(self.count - 1, 0), between, by_row=True))
        for key, length in self.layer.lengths.items():
            if length != self.count:
                raise ConfigError(f"lists {length} layers; there are {self.count}", "layer", entry=key)

    @property
    def count(self) -> int:
        return sum(self.layout)

    @cached_property
    def resolution(self) -> int:
        """The ticks in a time unit that make the times of every layout whole."""
        return max(self.resolution_at([Fraction(1)]), ticks_per_unit(map(to_fraction, in_one(self.p2p or ()))))

    def resolution_at(self, speeds: Iterable[Fraction]) -> int:
        """Return the ticks in a time unit that make the times of every layout whole on devices of these speeds."""
        columns = [getattr(getattr(self, part), key) for part in PARTS for key in TIMES]
        values = {one for column in columns for one in in_one(column if isinstance(column, tuple) else (column or 0,))}
        return ticks_per_unit([at_speed(to_fraction(value), speed) for speed in {*speeds} for value in values])

    def beside(self, stage: int, stages: int, key: str) -> Fraction:
        """Return what a stage out of `stages` has of `key` beside its layers."""
        return sum((part.amount(key) for part in self.parts_beside(stage, stages)), Fraction(0))

    def parts_beside(self, stage: int, stages: int) -> list[LayerCosts]:
        """Return what a stage out of `stages` has beside its layers: each part as often as it is there."""
        own = self.items[stage] if self.items else StageItems(stage == 0, 0, 0, stage == stages - 1)
        return [self.first] * own.embedding + [self.mtp] * own.mtp + [self.last] * own.head

    @property
    def parts_said(self) -> tuple[str, ...]:
        """The parts that a config of these layers has: `mtp` where some stage has such a layer."""
        return PARTS if any(stage.mtp for stage in self.items) else PARTS[:-1]

    @property
    def layout_said(self) -> list[int] | str:
        """The layout as a config has it: a text where a list does not say it."""
        return megatron_text(self.items) if self.items else [*self.layout]

    @property
    def stage_items(self) -> tuple[StageItems, ...]:
        return self.items or stages_of_counts(self.layout)

    @cached_property
    def spans(self) -> Sequence[tuple[int, int]]:
        """The first layer of each stage, and the one behind its last."""
        return [*pairwise(accumulate(self.layout, initial=0))]

    def at(self, spans: Sequence[tuple[int, int]]) -> Layers:
        """Return the same layers with these spans of stages, which need not stand side by side: to be summed alone."""
        other = copy(self)
        vars(other)["spans"] = spans
        return other

    def amounts(self, key: str) -> tuple[Entry, ...]:
        """Return what each stage of the layout has of `key`, a field of LayerCosts that adds up."""
        found, stages = self.of_spans(key, self.spans), len(self.layout)
        for stage in range(stages) if self.items else {0, stages - 1}:
            if beside := self.beside(stage, stages, key):
                found[stage] = added((found[stage], canonical(beside)))
        return tuple(found)

    def of_spans(self, key: str, spans: Iterable[tuple[int, int]]) -> list[Entry]:
        """Return what the layers of each span have of `key`, a field of LayerCosts that adds up."""
        sums, listed = self._sums.get(key), getattr(self.layer, key)
        if sums is not None:
            return [canonical(sums[end] - sums[begin]) for begin, end in spans]
        if isinstance(listed, tuple):
            return [added(listed[begin:end]) for begin, end in spans]
        each = self.layer.amount(key)
        return [canonical((end - begin) * each) for begin, end in spans]

    @cached_property
    def _sums(self) -> dict[str, Sequence[Fraction]]:
        """What the first 0, 1, .. layers have of each field that lists one number a layer."""
        rows = {key: getattr(self.layer, key) for key in self.layer.lengths}
        return {key: prefix_sums(row) for key, row in rows.items() if rows_of(row) == 1}

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
        means, times = [], rows_of(self.layer.activation)
        for stage, (begin, end) in enumerate(self.spans):
            weighed = [*zip(sizes[begin:end], parts[begin:end], strict=True)]
            beside = self.parts_beside(stage, len(self.layout))
            weighed += [(times * part.amount("activation"), part.amount(key)) for part in beside if not part.is_nothing]
            means.append(weighed_mean(weighed))
        return tuple(means)

    @property
    def latencies(self) -> tuple[Entry, ...] | None:
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
        shares = {key: getattr(memory, key) for key in AVERAGED}
        made = [(costs.p2p, self.latencies), *((column, self.shares(key)) for key, column in shares.items())]
        return is_made and all(len({*column}) <= 1 if own is None else column == own for column, own in made)

    def taken(self, order: Sequence[int]) -> Layers:
        """Return the layers with the numbers of these microbatches, in this order, where there is one for each."""
        if not self.layer.is_table and rows_of(self.p2p) == 1:
            return self
        columns = {field.name: getattr(self.layer, field.name) for field in fields(self.layer)}
        listed = {key: taken(column, order) for key, column in columns.items() if isinstance(column, tuple)}
        layer: LayerCosts = replace(self.layer, **listed)
        return replace(self, layer=layer, p2p=None if self.p2p is None else taken(self.p2p, order))

    def weighed(self, units: Units) -> Layers:
        """Return the layers as cuts weigh them: the work of the mean microbatch, and the activation of the largest."""
        if units.sizes is None and not self.layer.is_table:
            return self
        work, held = units.factors("work"), units.factors("activation")

        def weigh(key: str, entry: Entry) -> Exact:
            factors, each = held if key == "activation" else work, entries_of(entry, units.microbatches)
            products = [one * by for one, by in zip(each, factors, strict=True)]
            return canonical(max(products) if key == "activation" else sum(products, Fraction(0)) / len(products))

        parts: dict[str, Any] = {}
        for name in PARTS:
            amounts = {key: getattr(getattr(self, name), key) for key in (*WORK, "activation")}
            made: dict[str, Any] = {
                key: tuple(weigh(key, one) for one in amount) if isinstance(amount, tuple) else weigh(key, amount)
                for key, amount in amounts.items()
            }
            parts[name] = replace(getattr(self, name), **made)
        return replace(self, **parts, p2p=None)


def weighed_mean(weighed: Sequence[tuple[Fraction, Fraction]]) -> Exact:
    """Return the mean of parts, each behind its weight; the plain one where all are 0; 0 of no parts."""
    if not any(weight for weight, _ in weighed):
        weighed = [(Fraction(1), part) for _, part in weighed] or [(Fraction(1), Fraction(0))]
    whole = sum((weight * part for weight, part in weighed), Fraction(0))
    return canonical(whole / sum(weight for weight, _ in weighed))


def least_counts(stages: int, first: LayerCosts, last: LayerCosts) -> tuple[int, ...]:
    """Return the fewest layers that each stage may have: one, or none where it has something beside its layers."""
    least = [1] * stages
    for stage, part in ((0, first), (stages - 1, last)):
        if not part.is_nothing:
            least[stage] = 0
    return tuple(least)


def equal_layout(count: int, least: Sequence[int]) -> tuple[int, ...]:
    """Return `count` layers in equal numbers; where these cannot be, the first stages have one more.

    `least` are the fewest layers of each stage (see least_counts), which are no more than `count` together.
    """
    each, more = divmod(count, len(least))
    if each:
        return tuple(each + (stage < more) for stage in range(len(least)))
    spare = count - sum(least)
    return tuple(1 if number or (stage == 0 and spare) else 0 for stage, number in enumerate(least))


_FIELDS = [field.name for field in fields(LayerCosts) if field.name not in ("forward", "whole")]
KEYS = ("forward", "backward", *_FIELDS)
MOST_LAYERS = 10_000


class Blocks(dict[str, Any]):
    """Stages that count as layers: the parameter `layer`, in which an entry may hold one number for each microbatch."""


def read_layers(
    given: Mapping[str, Any], microbatches: int, devices: int, stages: int, time: Unit, size: Unit
) -> Layers | None:
    """Return the layers of a model, with a layout of that many stages; one that is to be balanced is equal until then.

    None where neither `layers` nor lists of what each costs are `given`, the parameters of make_problem. `time` and
    `size` are the units of the problem. Raises ConfigError, about the parameter at fault.
    """
    entries = {key: _entries(key, given[key], time, size, microbatches) for key in PARTS}
    count = _count(given, entries["layer"])
    if count is None:
        for key in (*PARTS, "layout"):
            if given[key] is not None:
                raise ConfigError("has no effect without `layers`, the number of layers", key)
        return None
    _require_alike(entries, given)
    for key in STEP_TIMES:  # a stage may have them beside its layers alone
        if any(key in part for part in entries.values()):
            entries["layer"].setdefault(key, 0)
    defaults: dict[str, Amount] = {"forward": 1, "activation": canonical(Fraction(devices, count))}
    layer = _costs(entries["layer"], defaults, entries["layer"])
    shares: dict[str, Amount] = {  # of what stands beside the layers
        key: canonical(exact_number(key, given[key], None, MEMORY_KEYS[key].number.most))
        for key in AVERAGED
        if key in entries["layer"]
    }
    parts: dict[str, Any] = {
        key: _costs({**shares, **entries[key]}, {"forward": 0}, entries["layer"]) for key in PARTS[1:]
    }
    layers = Layers(
        layer, layout=(count,), rule=GIVEN, p2p=_latencies(given, microbatches, count, stages, time), **parts
    )
    made = _laid_out(given["layout"], layers, stages, devices)
    if (given["mtp"] is None) != all(stage.mtp == 0 for stage in made.items):
        if given["mtp"] is None:
            raise ConfigError("has m, a layer of multi-token prediction: give what one costs in `mtp`", "layout")
        raise ConfigError("has no effect without m (MTP layers) in `layout`, Megatron-LM's text: E|t*4|t*3m|L", "mtp")
    return made


def _count(given: Mapping[str, Any], layer: Mapping[str, Amount]) -> int | None:
    """Return the number of layers: as given, or the length of the lists; None for neither. Raises ConfigError."""
    lengths = {key: len(value) for key, value in layer.items() if isinstance(value, tuple)}
    if given["layers"] is not None:
        count, what = count_of("layers", given["layers"]), "`layers` is"
    elif lengths:
        first, count = next(iter(lengths.items()))
        what = f"`layer.{first}` lists"
    else:
        return None
    if count > MOST_LAYERS:
        where = {"key": "layers"} if given["layers"] is not None else {"key": "layer", "entry": next(iter(lengths))}
        raise ConfigError(f"must be at most {MOST_LAYERS:,}, not {count}", **where)
    for key, length in lengths.items():
        if length != count:
            raise ConfigError(f"lists {length} layers; {what} {count}", "layer", entry=key)
    return count


def _latencies(
    given: Mapping[str, Any], microbatches: int, count: int, stages: int, time: Unit
) -> tuple[Entry, ...] | None:
    """Return the latency of each boundary between layers; None for one number, and for a list by a given layout."""
    p2p = given["p2p"]
    if not is_listed(p2p):
        return None
    entries, is_laid_out = first_entries(p2p, MOST_LAYERS), is_several(given["layout"])
    if is_laid_out and len(entries) == stages - 1:
        return None
    if len(entries) != count - 1:
        what = "layer" if given["layers"] is None else "layers"
        needed = f"{count - 1} numbers (one a boundary between layers: `{what}` says {count})"
        needed += f" or {stages - 1} (between stages: `layout` lists {stages})" if is_laid_out else ""
        found = length_text(p2p, entries, MOST_LAYERS)
        raise ConfigError(f"must be one number, or a list of {needed}; this one has {found}", "p2p")
    between = "one a boundary between layers"
    latencies = exact_numbers("p2p", entries, count - 1, between, time, microbatches=microbatches)
    return latencies if len({*latencies}) > 1 or rows_of(latencies) > 1 else None


def _laid_out(layout: Any, layers: Layers, stages: int, devices: int) -> Layers:
    """Return layers with a layout that is given, or with equal counts until a rule finds it. Raises ConfigError."""
    count, first, last = layers.count, layers.first, layers.last
    if is_several(layout):
        given = [one.layers if isinstance(one, StageItems) else one for one in layout]
        if len(entries := first_entries(given, stages)) != stages:
            found = length_text(given, entries, stages)
            raise ConfigError(f"lists the layers of {found} stages; there are {stages}", "layout")
        numbers = [exact_number("layout", value, None) for value in entries]
        wrong = next((one for one, number in zip(entries, numbers, strict=True) if number.denominator != 1), None)
        if wrong is not None:
            raise ConfigError(f"must be whole numbers, not {shown(wrong)}", "layout")
        counts = tuple(map(int, numbers))
        if not counts:
            raise ConfigError("must list the layers of each stage", "layout")
        if sum(counts) != count:
            raise ConfigError(f"lists {sum(counts)} layers; `layers` is {count}", "layout")
        is_plain = layout == stages_of_counts(counts) or not isinstance(layout[0], StageItems)
        return replace(layers, layout=counts, items=() if is_plain else tuple(layout))
    if layout is not None and not isinstance(layout, str):
        what = f"must be {BEST}, {BALANCED}, {EQUAL}, a list of the layers of each stage, or a text such as Et*2|t*2L"
        what += f", not {shown(layout)}"
        raise ConfigError(what, "layout")
    rule = BEST if layout is None else require_name((BEST, BALANCED, EQUAL), layout, "layout", "layout")
    least = least_counts(stages, first, last)
    if count >= sum(least):
        return replace(layers, layout=equal_layout(count, least), rule=rule)
    if count < sum(least_counts(devices, first, last)) or stages <= devices:
        raise ConfigError(f"must be at least {sum(least)} for {stages} stages, not {count}", "layers")
    return replace(layers, layout=(1,) * count + (0,) * (stages - count), rule=rule)


def stage_values(model: Layers, given: Mapping[str, Any], across: Mapping[str, Any], slices: Slices) -> dict[str, Any]:
    """Return the values of the stages that layers make, by the parameters of make_problem.

    Those `across` (`p2p`, `retain` and `checkpoint`) are as the layers make them, else as they were given. Raises
    ConfigError for one that is given by stages too, and for lists and parts of the work in slices that hold for one
    number of stages, where others may be cut.
    """
    found, by_stage = dict[str, Any](), len(model.layout) - 1 if model.rule == GIVEN else None
    for key, value in across.items():
        made = model.latencies if key == "p2p" else model.shares(key)
        if made is not None:
            found[key] = [*map(fractions_of, made)]
        elif key == "p2p" and is_listed(value) and len(value) == model.count - 1 and len(value) != by_stage:
            found[key] = [*value, 0][0]  # of layers, and all the same
        elif not is_several(value) or model.rule == GIVEN:
            found[key] = value
        else:
            raise ConfigError("must be one number: a list holds for one layout, and none is given", key)
    if wrong := next((key for key, value in given.items() if value is not None), None):
        raise ConfigError("is one a stage; with `layers`, give it in `layer`, `first` and `last`", wrong)
    for key in given:
        field = "whole" if key == "backward" else key
        absent = getattr(model.layer, field) is None
        found[key] = None if absent else [*map(fractions_of, model.amounts(field))]
    for key in SHARED:
        rows = len(getattr(slices, key))
        if rows > 1 and (model.rule != GIVEN or rows != len(model.layout)):
            what = "must be one list: lists by stage hold for one layout, and none is given"
            raise ConfigError(what, "slices", entry=f"work.{key}")
    return found


def _entries(part: str, given: Any, time: Unit, size: Unit, microbatches: int) -> dict[str, Amount]:
    """Return the numbers of a part (layer, first, ..) by their names. Raises ConfigError about it."""
    what = "numbers by their names (forward, backward, activation, static, ..)"
    numbers: dict[str, Amount] = {}
    for name, value in ({} if given is None else require_mapping(given, what, part)).items():
        try:
            require_name(KEYS, name, "key")
            if value is None:
                continue
            unit = None if name in AVERAGED else size if name in SIZES else time
            most = MEMORY_KEYS[name].number.most if name in AVERAGED else None
            if not is_several(value) or part != "layer":
                numbers[name] = canonical(exact_number(name, value, unit, most))
                continue
            entries = first_entries(value, MOST_LAYERS)
            if not entries or len(entries) > MOST_LAYERS:
                raise ConfigError(f"must list 1 to {MOST_LAYERS:,} layers", name)
            rows = microbatches if isinstance(given, Blocks) else None
            numbers[name] = exact_numbers(name, entries, len(entries), "one a layer", unit, most, microbatches=rows)
        except ConfigError as error:
            place = f"{name}[{error.entry}]" if isinstance(error.entry, int) else name
            raise ConfigError(error.message, part, entry=place) from None
    if "reload" in numbers and "offload" not in numbers:
        raise ConfigError("is the way back from host memory; `offload` is needed too", part, entry="reload")
    halves = [half for half in HALVES if half in numbers]
    if len(halves) == 1:
        other = HALVES[halves[0] == HALVES[0]]
        raise ConfigError(f"is half of the backward; `{other}` is needed too", part, entry=halves[0])
    return numbers


def _require_alike(entries: Mapping[str, Mapping[str, Amount]], given: Mapping[str, Any]) -> None:
    """Raise ConfigError where `first` or `last` has what `layer` lacks, or gives the backward in another way.

    So do lists that are `given` of stages, of what each layer has.
    """
    layer = entries["layer"]
    by_halves = HALVES[0] in layer
    for key in PARTS[1:]:
        for name in (*(one for one in OPTIONAL if one not in STEP_TIMES), *HALVES, *AVERAGED):
            if name in entries[key] and name not in layer:
                raise ConfigError("is not given for a `layer`; give it there too", key, entry=name)
        if by_halves and "backward" in entries[key] and "backward" not in layer:
            raise ConfigError("is given by its halves for a `layer`; give these", key, entry="backward")
    for key in AVERAGED:
        if key in layer and is_several(given[key]):
            raise ConfigError(f"must be one number beside `layer.{key}`: that of what stands beside the layers", key)


def _costs(entries: Mapping[str, Amount], defaults: Mapping[str, Amount], layer: Mapping[str, Amount]) -> LayerCosts:
    """Return the costs of a part, every default filled in; what `layer` does not give is left out."""
    forward = entries.get("forward", defaults["forward"])
    half = summed([entries["backward"]], Fraction(1, 2)) if "backward" in entries else forward
    halves = {name: entries.get(name, half) for name in HALVES}
    whole = entries.get("backward", summed([*halves.values()]))
    offload = entries.get("offload", 0)
    optional = {**dict.fromkeys(OPTIONAL, 0), "whole": whole, "overlap": summed([forward, whole])}
    optional |= {"offload": offload, "reload": offload}
    known = {*layer, *["reload"] * ("offload" in layer), *["whole"] * ({*HALVES, "backward"} <= {*layer})}
    given = {name: entries.get(name, default) for name, default in optional.items() if name in known}
    return LayerCosts(
        forward=forward,
        **halves,
        recompute=entries.get("recompute", forward),
        activation=entries.get("activation", defaults.get("activation", 0)),
        **{key: entries.get(key, 0) for key in ("static", *STATIC_PARTS)},
        **given,
        **{key: entries[key] for key in AVERAGED if key in entries},
    )
