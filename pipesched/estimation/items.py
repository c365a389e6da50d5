"""The items of a model in order: embedding, layers, MTP layers, head; each with its times and its memory on a rank.

`Items(setup).each` makes them, of the terms in times.py and memory.py; a `Stage` is some side by side, with their sums.
A layer with experts is in pieces, which stand first (attention, dispatch, experts, combine). In a pair F&B one stage
hides messages of the other: `pair_time`, last, is how long that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby
from math import lcm
from typing import NamedTuple

from pipesched.core.bounds import JobPiece, least_length
from pipesched.estimation.communication import DISPATCH_AND_COMBINE
from pipesched.estimation.memory import (
    EXPERTS,
    LOW,
    ItemMemory,
    embedding_memory,
    head_memory,
    layer_memory,
    logits,
    mtp_memory,
)
from pipesched.estimation.model import ModelShape
from pipesched.estimation.setup import SELECTIVE, Setup
from pipesched.estimation.terms import AGAIN, ATTENTION, PER_MS, RECOMPUTE, Term, Terms, total
from pipesched.estimation.times import OPERATIONS, ItemTimes, embedding_times, head_times, layer_times, mtp_times
from pipesched.pipeline.problem.placement import Placement

MACHINES = ("of compute", "of network")  # of a rank
COMPUTE, NETWORK = range(2)
MIXING, DISPATCH, ROUTED, COMBINE, OUTPUT = FORTH = ("attention", "dispatch", "experts", "combine", "head")
OWNERS: dict[str, tuple[str, ...]] = {  # a term of a layer with experts: the pieces that have equal parts of it
    DISPATCH_AND_COMBINE: (DISPATCH, COMBINE),
    **dict.fromkeys(("experts up", "experts down", "shared experts up", "shared experts down"), (ROUTED,)),
    "tensor-parallel communication of experts": (ROUTED,),
    **dict.fromkeys(("elementwise", "numbers in few bits", "kernels", "waits for the host"), (MIXING, ROUTED)),
    **dict.fromkeys(("head", "loss"), (OUTPUT,)),
}  # all others: attention
OWNERS |= {f"{AGAIN}{name}": pieces for name, pieces in OWNERS.items()}


class ItemPiece(NamedTuple):
    """A part of an operation: what it is, its machine, its microseconds, and the names of what it is the sum of."""

    name: str
    machine: int
    time: int
    formula: str


class ItemPieces(NamedTuple):
    """The pieces of a forward, of a backward (the forward turned round), and of a forward again, in their order."""

    forward: tuple[ItemPiece, ...]
    backward: tuple[ItemPiece, ...]

    @property
    def again(self) -> tuple[ItemPiece, ...]:
        return tuple(piece._replace(name=f"{AGAIN}{piece.name}") for piece in self.forward)

    @property
    def jobs(self) -> tuple[tuple[JobPiece, ...], ...]:
        return tuple(map(_jobs, self))

    @property
    def network(self) -> int:
        """The microseconds on the network, which a pair may hide."""
        return sum(piece.time for piece in (*self.forward, *self.backward) if piece.machine == NETWORK)


def _jobs(pieces: Iterable[ItemPiece]) -> tuple[JobPiece, ...]:
    return tuple(JobPiece(piece.machine, piece.time) for piece in pieces)


_Part = tuple[str, int, float, str]  # a piece before its time is rounded: name, machine, milliseconds, formula


def _parts(names: Sequence[str], terms: Iterable[Term], prefix: str = "") -> list[_Part]:
    """Return the parts of these names, in their order, among which terms are divided; a single one has them all."""
    shares: dict[str, list[tuple[Term, int]]] = {name: [] for name in names}
    for term in terms:
        owners = OWNERS.get(term.name, (MIXING,)) if len(names) > 1 else names
        for owner in owners:
            shares[owner].append((term, len(owners)))
    return [
        (
            f"{prefix}{name}",
            NETWORK if name in (DISPATCH, COMBINE) else COMPUTE,
            sum(float(term.value) / count for term, count in own),
            " + ".join(term.name if count == 1 else f"{term.name} / {count}" for term, count in own),
        )
        for name, own in shares.items()
    ]


def _pieces(parts: Sequence[_Part], terms: Terms) -> tuple[ItemPiece, ...]:
    """Return the parts of an operation in whole microseconds that sum up to those of all its terms."""
    whole = round(float(total(terms)) * PER_MS)
    ends = [min(round(value * PER_MS), whole) for value in accumulate(part[2] for part in parts)]
    ends[-1] = whole
    spans = zip(parts, (0, *ends), ends, strict=False)
    return tuple(ItemPiece(name, machine, end - begin, text) for (name, machine, _, text), begin, end in spans)


EMBEDDING, LAYER, MTP, HEAD = KINDS = ("embedding", "layer", "mtp", "head")
GB = 10**9
SUMMED = ("work", "alone", "states")  # properties of an item that stages have the sum of
STATES = ("weights", "gradients", "optimizer")
KINDS_OF = {"experts": EXPERTS, "low": LOW}  # of parameters: of experts, and of other weights in low precision


@dataclass(frozen=True)
class Item:
    """A part of a model that one stage holds whole: its kind, and what its times and its memory are made of."""

    kind: str
    times: ItemTimes
    memory: ItemMemory

    def time(self, operation: str) -> int:
        """Return how long an operation of one microbatch takes, in microseconds."""
        return round(float(total(getattr(self.times, operation))) * PER_MS)

    @cached_property
    def work(self) -> int:
        """The microseconds of a forward and a backward of one microbatch."""
        return sum(map(self.time, OPERATIONS))

    @cached_property
    def pieces(self) -> ItemPieces:
        """What its forward and its backward are made of, in order: attention, dispatch, experts, combine.

        A backward begins with what is recomputed. Then, from the last part to the first, come the gradient of each and
        its weights.
        """
        kind, times = self.kind, self.times
        has_network = any(term.name == DISPATCH_AND_COMBINE for term in times.forward)
        forth = FORTH if has_network else (kind,)
        back = forth[::-1]
        again = [term for term in times.backward_input if term.kind == RECOMPUTE]
        own = [term for term in times.backward_input if term.kind != RECOMPUTE]
        inputs = _pieces([*_parts(forth, again, AGAIN), *_parts(back, own, "gradient of ")], times.backward_input)
        weights = _pieces(_parts(back, times.backward_weight, "weights of "), times.backward_weight)
        turned = zip(inputs[len(forth) :], weights, strict=True)
        forward = _pieces(_parts(forth, times.forward), times.forward)
        backward = (*inputs[: len(forth)], *chain.from_iterable(turned))
        return ItemPieces(*(tuple(piece for piece in pieces if piece.time) for pieces in (forward, backward)))

    @property
    def alone(self) -> int:
        """The microseconds of a forward and a backward that no pair hides: those off the network of experts."""
        return self.work - self.pieces.network

    def size(self, what: str) -> Fraction:
        """Return a number of a rank: bytes or parameters by the fields of ItemMemory, or parameters of KINDS_OF."""
        if what in KINDS_OF:
            return Fraction(total(term for term in self.memory.parameters if term.kind == KINDS_OF[what]))
        return Fraction(total(getattr(self.memory, what)))

    @property
    def states(self) -> Fraction:
        return sum(map(self.size, STATES), Fraction(0))


@dataclass(frozen=True)
class Stage:
    """Items `begin`..`end`-1 of a model as one stage, of which the layers in `again` are recomputed each backward."""

    items: Items
    begin: int
    end: int

    @property
    def held(self) -> tuple[Item, ...]:
        return self.items.each[self.begin : self.end]

    def count(self, kind: str) -> int:
        return sum(item.kind == kind for item in self.held)

    @cached_property
    def again(self) -> Sequence[int]:
        """The items that are recomputed by themselves: the slowest ones, so that a layer more takes no less."""
        full, items = self.items.setup.training.full_layers or 0, self.items
        begin, end = max(self.begin, 1), min(self.end, items.outputs)  # behind the embedding, before the head
        if items.setup.model.kinds:
            slowest = sorted(range(begin, end), key=lambda number: -items.each[number].time("recompute"))
            return sorted(slowest[:full])
        if items.is_first_slower:
            return range(begin, min(end, begin + full))
        return range(max(begin, end - full), end)

    def _sum_again(self, what: str) -> Fraction:
        """Return the sum of a time or a size of the layers that are recomputed by themselves."""
        again = self.again
        if isinstance(again, range):
            return self.items.sum_of(what, again.start, again.stop) if again else Fraction(0)
        return sum((self.items.sum_of(what, number, number + 1) for number in again), Fraction(0))

    def time(self, operation: str) -> int:
        """Return how long an operation of one microbatch takes, in microseconds."""
        own = self.items.sum_of(operation, self.begin, self.end)
        return int(own + (self._sum_again("recompute") if operation == "backward_input" else 0))

    @property
    def work(self) -> int:
        """The microseconds of a forward and a backward of one microbatch."""
        return int(self.items.sum_of("work", self.begin, self.end) + self._sum_again("recompute"))

    def size(self, what: str) -> Fraction:
        """Return a number of a rank: bytes or parameters by the fields of ItemMemory, `logits`, `experts` or `low`."""
        if what == "logits":
            return self.items.logits if self.end > self.items.outputs else Fraction(0)
        own = self.items.sum_of(what, self.begin, self.end)
        return own - (self._sum_again("activation") - self._sum_again("checkpoint") if what == "activation" else 0)

    @property
    def states(self) -> Fraction:
        return self.items.sum_of("states", self.begin, self.end)

    def terms(self, what: str) -> Terms:
        """Return what an operation or a size of it is made of: its items and recompute, several alike as one."""
        found: dict[tuple[str, float | Fraction], int] = {}
        is_time = what in ItemTimes._fields
        for item in self.held:
            value: float | Fraction = item.time(what) / PER_MS if is_time else item.size(what)
            found[item.kind, value] = found.get((item.kind, value), 0) + 1
        unit = " ms" if is_time else ""
        terms = []
        for (kind, value), count in found.items():
            name, text = f"{count} x {kind}" if count > 1 else kind, f"{count} x {float(value):.6g}{unit}"
            terms += [Term(name, count * value, text, kind, count)] if value else []
        for item, alike in groupby(self.items.each[number] for number in self.again):
            count = len([*alike])
            if what == "backward_input":
                each = item.time("recompute") / PER_MS
                terms.append(Term(f"forward of {count} layers again", count * each, f"{count} x {each:.6g} ms"))
            elif what == "activation":
                freed = item.size("activation") - item.size("checkpoint")
                text = f"-{count} x {float(freed):.6g}"
                terms.append(Term(f"{count} layers keep their inputs only", -count * freed, text))
        return tuple(terms)


@dataclass(frozen=True)
class Items:
    """All items of the model of a setup. Layers that are alike are the same object."""

    setup: Setup
    _known: dict[str, tuple[list[int], int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def each(self) -> tuple[Item, ...]:
        setup, model = self.setup, self.setup.model
        kinds: dict[tuple[ModelShape, bool], Item] = {}
        for layer in range(model.layers):
            key = model.of(layer), model.has_experts(layer)
            if key not in kinds:
                alike, experts = setup.of_layer(layer), key[1]
                kinds[key] = Item(LAYER, layer_times(alike, experts=experts), layer_memory(alike, experts=experts))
        layers = (kinds[model.of(layer), model.has_experts(layer)] for layer in range(model.layers))
        joined = (Item(MTP, mtp_times(setup), mtp_memory(setup, first=not number)) for number in range(model.mtp))
        embedding = Item(EMBEDDING, embedding_times(setup), embedding_memory(setup))
        return (embedding, *layers, *joined, Item(HEAD, head_times(setup), head_memory(setup)))

    def __len__(self) -> int:
        return len(self.each)

    def sum_of(self, what: str, begin: int, end: int) -> Fraction:
        """Return the sum of a time, a size, `work`, `alone` or `states` of items `begin`..`end`-1."""
        if what not in self._known:  # the sums of the first items, in whole parts of a unit: faster than fractions
            of = Item.time if what in ItemTimes._fields else Item.size if what not in SUMMED else getattr
            values = {key: Fraction(of(item, what)) for key, item in {id(item): item for item in self.each}.items()}
            unit = lcm(*{value.denominator for value in values.values()})
            parts = {key: int(value * unit) for key, value in values.items()}  # alike layers are one
            self._known[what] = list(accumulate((parts[id(item)] for item in self.each), initial=0)), unit
        sums, unit = self._known[what]
        return Fraction(sums[end] - sums[begin], unit)

    @cached_property
    def outputs(self) -> int:
        """The first item that makes logits: an MTP layer, or the head."""
        return next(number for number, item in enumerate(self.each) if item.kind in (MTP, HEAD))

    @cached_property
    def is_first_slower(self) -> bool:
        """Whether the forward of the first layer takes no less than that of the last."""
        return self.each[1].time("recompute") >= self.each[self.outputs - 1].time("recompute")

    @cached_property
    def logits(self) -> Fraction:
        return Fraction(total(logits(self.setup)))


def copies_sent(stages: Sequence[Stage]) -> tuple[int, ...]:
    """Return how many hidden states of a token each stage sends on: that of the layers, and of MTP layers so far."""
    return tuple(accumulate((stage.count(MTP) for stage in stages), initial=1))[1:]


def core_time(stage: Stage, operation: str) -> int:
    """Return the microseconds of the core in an operation of one microbatch, recompute included."""
    setup = stage.items.setup
    own = sum(_item_core(item, operation, setup) for item in stage.held)
    if operation != "backward_input":
        return own
    return own + sum(_item_core(stage.items.each[number], "recompute", setup) for number in stage.again)


def _item_core(item: Item, operation: str, setup: Setup) -> int:
    terms: Terms = getattr(item.times, operation)
    core = _of_kind(terms, ATTENTION)
    if any(term.kind == RECOMPUTE for term in terms):  # of the core alone, or of a whole forward
        selective = setup.training.recompute == SELECTIVE
        core += _of_kind(terms, RECOMPUTE) if selective else _of_kind(item.times.forward, ATTENTION)
    return min(round(core * PER_MS), item.time(operation))


def _of_kind(terms: Terms, kind: str) -> float:
    return float(total(term for term in terms if term.kind == kind))


def hides_experts(setup: Setup) -> bool:
    """Return whether pairs hide something: dispatch and combine of experts that other ranks have."""
    return setup.model.experts is not None and setup.parallel.expert > 1


def forward_pieces(stage: Stage) -> list[ItemPiece]:
    """Return the pieces of a forward, layer by layer."""
    return [piece for item in stage.held for piece in item.pieces.forward]


def backward_pieces(stage: Stage) -> list[ItemPiece]:
    """Return the pieces of a backward, from the last layer to the first; layers that are recomputed come twice."""
    found: list[ItemPiece] = []
    for number in range(stage.end - 1, stage.begin - 1, -1):
        own = stage.items.each[number].pieces
        found += (*own.again, *own.backward) if number in stage.again else own.backward
    return found


def partner(stages: Sequence[Stage], placement: Placement, number: int) -> int:
    """Return the stage whose backward runs with a forward: its mirror, or that of the longest pair there."""
    devices, last = placement.devices, placement.last
    is_v = last > 0 and len(devices) == 2 * (last + 1) and devices == devices[::-1]
    if len(placement.ways) > 1 or is_v:
        return len(stages) - 1 - number
    there = placement.stages_on(devices[number])
    return max(there, key=lambda other: pair_time(stages[number], stages[other]))


_least_length = lru_cache(maxsize=4096)(least_length)


def pair_time(forward: Stage, backward: Stage) -> int:
    """Return the least microseconds of a forward of a stage and a backward of another at once."""
    return _least_length(_jobs(forward_pieces(forward)), _jobs(backward_pieces(backward)))
