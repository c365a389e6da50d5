"""The model of a step: a problem on its integer grid, as tables by stage and unit.

A unit is one slice of one microbatch. A table has a row a stage (or a boundary between stages) and a column a unit.
Where all units are alike its columns are one, seen several times (stride 0). Rules, lowering, bounds and the check read
these tables, so that none of them asks whether microbatches differ, are sliced, or go two ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipesched.core.arrays import Ints, column, np
from pipesched.pipeline.kinds import GRADIENT_LETTERS, KINDS
from pipesched.pipeline.unit_costs import Grains, Route, Ticks
from pipesched.pipeline.units import FORWARD_ONLY

COSTS = {kind.cost for kind in KINDS.values()}


@dataclass(frozen=True, eq=False)
class StepModel:
    """The passes of a problem whose placement is settled, in ticks and grains.

    `where[stage, unit]` is the device of a stage: two copies of the weights are other columns. `ticks[cost]` is what an
    operation of that cost lasts (the keys are `Kind.cost`), `overlap` a pair by stage and unit of its forward (None:
    the sum of its parts). `there` and `back` are the latencies of boundaries for forwards and for gradients, 0 inside a
    device. Units are plain where microbatches are alike and go forwards and backwards.
    """

    ways: Sequence[Route]
    lasts: Ticks
    held: Grains
    mode: str
    is_plain: bool
    rounds: int = 1

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.held.static)

    @property
    def slices(self) -> int:
        """The number of slices of each microbatch."""
        return self.held.slices

    @property
    def microbatches(self) -> int:
        """The number of microbatches."""
        return self.units // self.slices

    @property
    def around(self) -> int:
        """The latency from the last stage to the first one of the next round."""
        return 0 if self.where[0, 0] == self.where[-1, 0] else self.lasts.mean["around"][0]

    @property
    def units(self) -> int:
        """The number of units."""
        return self.held.units

    @cached_property
    def unlike(self) -> tuple[Ints, Ints]:
        """Units that stand for all, with how many each: where microbatches of a direction are alike, of the first."""
        groups: dict[object, list[int]] = {}
        for way in self.ways:
            groups.setdefault(way.devices, []).extend(way.microbatches)
        first = np.zeros(self.microbatches, dtype=np.int64)
        for own in groups.values():
            first[own] = own[0]
        if self.rounds > 1:  # microbatches are alike in each
            first = np.arange(0, self.units, self.units // self.rounds)
            return first, np.full(self.rounds, self.units // self.rounds)
        if not (
            self.is_plain
            or all((self._by_microbatch(one) == self._by_microbatch(one)[:, first]).all() for one in self._tables)
        ):
            return np.arange(self.units), np.ones(self.units, dtype=np.int64)
        units = [own[0] * self.slices + part for own in groups.values() for part in range(self.slices)]
        return column(units), column([len(own) for own in groups.values() for _ in range(self.slices)])

    @property
    def _tables(self) -> Iterator[Ints]:
        """All that units may differ in."""
        yield from self.ticks.values()
        yield from (self.there, self.back, *self.sizes.values(), *(() if self.overlap is None else (self.overlap,)))

    @cached_property
    def _zeros(self) -> Ints:
        return np.zeros((self.stages, self.units), dtype=np.int64)

    @cached_property
    def where(self) -> Ints:
        """The device of each stage and unit."""
        if len(self.ways) == 1:
            return np.broadcast_to(np.array(self.ways[0].devices)[:, None], (self.stages, self.units))
        counts = [len(way.microbatches) * self.slices for way in self.ways]
        there: Ints = np.repeat(np.array([way.devices for way in self.ways]).T, counts, axis=1)
        return there

    @cached_property
    def ticks(self) -> Mapping[str, Ints]:
        """What operations last, by cost; costs that the problem has not are 0."""
        return {cost: self.lasts.each(cost) if cost in self.lasts.rows else self._zeros for cost in COSTS}

    @cached_property
    def overlap(self) -> Ints | None:
        """What pairs last by the stage and unit of their forward; None: the sum of their parts."""
        return self.lasts.each("overlap") if "overlap" in self.lasts.rows else None

    @cached_property
    def there(self) -> Ints:
        """The latency of each boundary for forwards."""
        return self._hops("p2p")

    @cached_property
    def back(self) -> Ints:
        """The latency of each boundary for gradients."""
        return self._hops("p2p_back")

    def _hops(self, name: str) -> Ints:
        hops: Ints = np.where(self.where[1:] == self.where[:-1], 0, self.lasts.each(name))
        return hops

    @cached_property
    def sizes(self) -> Mapping[str, Ints]:
        """What an activation holds, by column: activation, retained, checkpointed, cached (keys and values)."""
        return {name: self.held.each(name) for name in self.held.rows}

    def column(self, name: str | None) -> Ints:
        """Return a column of the table of kinds (`takes`, `gives`, `forward_gives`), zeros for None."""
        whole, held, kept = (self.sizes[key] for key in ("activation", "retained", "checkpointed"))
        if name == "released":
            whole, held = held, whole
        if name in ("released", "caught"):
            more: Ints = np.maximum(held - whole, 0)
            return more
        if name == "recomputed":
            return whole - kept
        return self._zeros if name is None else self.sizes[name]

    def takes(self, letter: str) -> Ints:
        """Return what the starts of a kind take: its column, and the gradients of keys and values.

        The last slice's backward, which comes first, takes those of all other slices.
        """
        own = self.column(KINDS[letter].takes)
        if letter not in GRADIENT_LETTERS or self.slices == 1 or self.mode == FORWARD_ONLY:
            return own
        cached = self._by_microbatch(self.sizes["cached"])
        more = np.zeros(cached.shape, dtype=cached.dtype)
        more[:, :, -1] = cached[:, :, :-1].sum(axis=2)
        return own + more.reshape(self.stages, self.units)

    def gives(self, letter: str) -> Ints:
        """Return what the ends of a kind give back: its column, and keys and values or their gradients.

        Of forwards alone, each gives back all but keys and values, the last slice's those of the whole microbatch, and
        that of the last round those of all rounds.
        """
        cached = self._by_microbatch(self.sizes["cached"])
        if self.mode == FORWARD_ONLY:
            own: Ints = self._by_microbatch(self.sizes["activation"]) - cached
            flight = self.microbatches // self.rounds
            own[:, -flight:, -1] += cached[:, -flight:].sum(axis=2) * self.rounds
            return own.reshape(self.stages, self.units)
        if letter not in GRADIENT_LETTERS or self.slices == 1:
            return self.column(KINDS[letter].gives)
        more: Ints = cached.copy()
        more[:, :, -1] = 0
        freed: Ints = self.column(KINDS[letter].gives) + more.reshape(self.stages, self.units)
        return freed

    def _by_microbatch(self, table: Ints) -> Ints:
        """Return a table with an axis of microbatches and one of their slices."""
        parts: Ints = table.reshape(len(table), self.microbatches, self.slices)
        return parts
