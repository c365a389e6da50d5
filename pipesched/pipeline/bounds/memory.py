"""What a budget of memory asks of any order: a floor, room that I needs, capacity edges, and residences of activations.

Where more than its activation is retained of a microbatch (`retain` above 1), the start of I takes memory, and only its
W frees some. A device full of activations could then start no I, so every F leaves that room.

Capacity edges are precedences that follow from a memory budget. With microbatches in order (a symmetry: they are
alike), the start of F(s,j) proves how many microbatches must have left the device. Of the chunks c' <= c that a device
holds up to stage s = s_c, microbatch j holds all, none has freed more than j microbatches, and an earlier chunk has
freed no more I (or B) than a later one. With capacity R, sizes a, the sums A_c of the sizes of the chunks 0..c, and
what W frees r:

    F(s_c, j) after I or B(s_c', j - 1 - (R - A_c) // A_c')
    F(s_c, j) after W(s_c', j - 1 - (R - A_c) // r_c')

Where every F leaves room for the next I of the device, R is less by the least that an I takes there, and r_c' is a_c',
which any microbatch holds until its W.

With one stage a device and nothing freed in halves, these edges are the whole budget: one of k activations means F(s,j)
after (s,j-k) is freed. They lengthen heads and tails, so that Jackson's bound counts the budget.

A residence is how long an activation, or a part of it, stays in a device's memory. An activation is there from the
start of F to the end of B, or of I; what is retained then, to the end of W. Where that is more than the activation, the
rest is there from the start of I. Recompute and offload change what lies between F and B (or I). The gradients of the
keys and values of a slice are there from the start of the last slice's B (or I) to the end of its own. Of forwards
alone, all but keys and values is there during F, and these to the end of the last slice's, in the last round.

The chunks of a device (its stages) have activations that are each kept, offloaded or recomputed. A
`ResidencyInequality` is one that the numbers of these actions keep in any schedule of a given length: the sum, over
chunks and actions, of count x cost is at most `slope` x length + `offset`. All times are ticks, all sizes grains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from operator import add
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.core.arrays import Ints, column, in_range, np, round_up, total
from pipesched.core.bounds import may_hold, memory_area
from pipesched.core.tasks import Edges
from pipesched.errors import ConfigError, NoSchedule, Remedy
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem, alike, differs
from pipesched.pipeline.problem.quantities import in_units, plain, rounded
from pipesched.pipeline.problem.units import FORWARD_ONLY


def least_held(problem: Problem) -> Problem:
    """Return `problem` as whole backwards hold it, where each may run whole: no gradients are caught at weights."""
    if not problem.costs.chooses:
        return problem
    return replace(problem, memory=replace(problem.memory, retain=tuple(min(one, 1) for one in problem.memory.retain)))


def least_capacity(problem: Problem, device: int, allowed: MemorySavings = KEEP_ONLY) -> int:
    """Return the activation memory, in grains, that a device needs for any order at all.

    The stage that runs needs its whole activation, and with a split backward what its I takes beside it, while the
    earlier stages of the same device hold theirs of that microbatch: all of it, a checkpoint if it may be recomputed,
    nothing if it may be offloaded. Of several directions, a device runs one at a time, and of each
    a single stage. The microbatch that needs most counts; its slices run one after another.
    """
    stages = problem.settled_placement.stages_on(device)
    here = problem.model.where[np.ix_(column(stages), problem.model.unlike[0][:: problem.model.slices])] == device
    kept = np.where(here, _kept(problem, stages, allowed), 0)
    beside = column([_beside(problem, stage) for stage in stages])[:, None]
    needed: list[int] = (kept.cumsum(axis=0) - kept + _peaks(problem, stages) + beside)[here].tolist()
    return max(needed, default=0)


def _beside(problem: Problem, stage: int) -> int:
    """Return what of the step a stage holds beside the activations of its backward: whole weights, and gradients."""
    # of a split backward it is W that needs the gradients, which may run once other activations are gone
    if not problem.has_step:
        return 0
    grains, has_whole = problem.step_grains, not problem.costs.split and problem.mode != FORWARD_ONLY
    return grains.weights[stage] + (grains.gradients[stage] if has_whole else 0)


def _sizes(problem: Problem, stages: Sequence[int], name: str) -> Ints:
    """Return a column of StepModel.sizes, by stage, microbatch and slice; one microbatch for all that are alike."""
    model = problem.model
    sizes = model.sizes[name][np.ix_(column(stages), model.unlike[0])]
    return in_range(sizes, 4 * total(sizes.ravel())).reshape(len(stages), -1, model.slices)


def _peaks(problem: Problem, stages: Sequence[int]) -> Ints:
    """Return what stages hold of each microbatch at its highest, if they run no other one meanwhile."""
    # before the backward of the slice that runs first, the last; where all run forwards alone, in some forward
    whole, retained, cached = (_sizes(problem, stages, name) for name in ("activation", "retained", "cached"))
    if problem.mode == FORWARD_ONLY:
        held = cached.cumsum(axis=2) - cached + whole + (problem.rounds - 1) * cached
    else:
        cached[:, :, -1] = 0
        held = (whole + cached).cumsum(axis=2)
        held = held + np.maximum(retained - whole, 0) if problem.costs.split else held
    most: Ints = held.max(axis=2)
    return most


def _kept(problem: Problem, stages: Sequence[int], allowed: MemorySavings) -> Ints:
    """Return the least that stages hold of each microbatch between its forward and its backward, as `_peaks`."""
    whole = _sizes(problem, stages, "checkpointed" if allowed.recompute else "activation").sum(axis=2)
    kept: Ints = whole * 0 if allowed.offload or problem.mode == FORWARD_ONLY else whole
    return kept


def require_least_capacity(problem: Problem, allowed: MemorySavings = KEEP_ONLY) -> None:
    """Raise NoSchedule, with changes that would help, when a device's capacity is below its floor."""
    scale, unit = problem.grains.per_unit, problem.memory.unit
    for device, capacity in enumerate(problem.capacity_grains):
        floor = least_capacity(problem, device, allowed)
        if capacity is None or capacity >= floor:
            continue
        static = problem.static_grains(device)
        least = in_units(floor + static, scale)
        budget = in_units(capacity + static, scale)
        typed = shown(plain(rounded(Fraction(floor + static, scale), up=True)))
        would_fit = [Remedy(f"a budget of {typed} {unit} on device {device}", "budget")]
        largest = int(_peaks(problem, problem.settled_placement.stages_on(device)).max())  # any order must hold it
        if largest <= capacity and len(problem.settled_placement.ways) == 1:
            would_fit.append(Remedy("fewer stages a device", "stages"))
        actions = {"recompute": MemorySavings(recompute=True)}
        if problem.costs.offload is not None:
            actions["offload"] = MemorySavings(offload=True)
        for name, action in actions.items():
            if least_capacity(problem, device, action) <= capacity:
                would_fit.append(Remedy(f"solve with `{name}`", name))
        whose = "its largest" if differs(problem) else "one"
        raise NoSchedule(
            f"device {device} needs a budget of at least {typed} {unit} to run {whose} microbatch,"
            f" and its budget is {shown(budget)}",
            device=device,
            floor=least,
            budget=budget,
            would_fit=would_fit,
        )


def least_headroom(problem: Problem, device: int, index: OpIndex) -> int:
    """Return the grains that at least are free on a device whenever it starts an F: what the next I there takes.

    Nothing, where I and W take no time at all: then it is there and gone within an instant.
    """
    if "B" in index.letters or "I" not in index.letters:
        return 0
    mean, caught = problem.ticks.mean, problem.grains.largest["caught"]
    halves = zip(mean["backward_input"], mean["backward_weight"], strict=True)
    takes_time = [first + last > 0 for first, last in halves]
    stages = problem.settled_placement.stages_on(device)
    return min((caught[stage] if takes_time[stage] else 0 for stage in stages), default=0)


def forward_headrooms(problem: Problem, index: OpIndex) -> list[int]:
    """Return for each operation the grains that are to stay free beside what it takes: with F, what any I there takes.

    With slices, what any B or I takes, gradients of keys and values too. Empty where no backward takes memory.
    """
    caught = taken_by_backwards(problem, index)
    if not any(caught):
        return []
    stages_on = problem.settled_placement.stages_on
    most = column([max((caught[stage] for stage in stages_on(device)), default=0) for device in range(problem.devices)])
    rooms: list[int] = most[problem.model.where].ravel().tolist()
    return rooms + [0] * (index.passes - len(rooms))


def taken_by_backwards(problem: Problem, index: OpIndex) -> Sequence[int]:
    """Return the most that the start of a B or I takes on each stage."""
    most: list[int] = problem.model.takes(index.gradient).max(axis=1).tolist()
    return most


def order_edges(problem: Problem, index: OpIndex, rows: Sequence[range] = ()) -> Iterator[Edges]:
    """Yield the edges that put microbatches that are alike in order, in some rows of operations, or in all.

    They cost nothing without offload and recompute: equal operations wait alike, so sorting those of a row by
    microbatch breaks no rule. Microbatches that go other ways, or differ in any cost or size, have no order.
    """
    pairs = [pair for group in alike(problem) for pair in _runs(group)]
    parts = [(index.in_units(before), index.in_units(after)) for before, after in pairs]
    for row in rows or (row for kind in index.letters for row in index.rows(kind)):
        yield from (Edges(row[before], row[after]) for before, after in parts)


def _runs(group: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Yield numbers of a group with the next ones: those of neighbours together, and from each such run to the next."""
    start = 0
    for place, number in enumerate(group):
        if place + 1 == len(group) or group[place + 1] != number + 1:
            if place > start:
                yield range(group[start], number), range(group[start] + 1, number + 1)
            if place + 1 < len(group):
                after = group[place + 1]
                yield range(number, number + 1), range(after, after + 1)
            start = place + 1


def capacity_edges(problem: Problem, index: OpIndex) -> Iterator[Edges]:
    """Yield the edges that follow from the budget of each device; none where microbatches are not alike."""
    if not problem.are_alike:
        return
    for device, capacity in enumerate(problem.capacity_grains):
        if capacity is None:
            continue
        stages = problem.settled_placement.stages_on(device)
        largest = problem.grains.largest
        held = list(accumulate(largest["activation"][stage] for stage in stages))
        room = capacity - least_headroom(problem, device, index)
        for chunk, stage in enumerate(stages):
            if not _takes_time(problem, stage, index):
                continue
            left = room - held[chunk]
            for earlier, sizes in zip(stages[: chunk + 1], held, strict=False):
                yield from _after_free(index, stage, earlier, index.gradient, left, sizes)
                if index.last != index.gradient:
                    rest = min(largest["retained"][earlier], largest["activation"][earlier])
                    yield from _after_free(index, stage, earlier, index.last, left, rest)


def _takes_time(problem: Problem, stage: int, index: OpIndex) -> bool:
    """Return whether an activation is held for longer than an instant; if not, the start of its F proves nothing."""
    return problem.ticks.mean["forward"][stage] + problem.ticks.of(index.gradient)[stage] > 0


def _after_free(index: OpIndex, stage: int, freeing: int, kind: str, left: int, size: int) -> Iterator[Edges]:
    """Yield F(stage, j) after kind(freeing, j - 1 - left // size), as an edge of all j."""
    behind = 1 + left // size if size and left >= 0 else index.microbatches
    if behind < index.microbatches:
        yield Edges(index.row(kind, freeing)[:-behind], index.row("F", stage)[behind:])


def says_all(problem: Problem, device: int, index: OpIndex) -> bool:
    """Return whether the capacity edges of a device are its whole budget: for one stage, freed at once."""
    largest = problem.grains.largest
    stages = problem.settled_placement.stages_on(device) if problem.are_alike else []
    if len(stages) != 1 or not _takes_time(problem, stages[0], index):
        return False
    return index.last == index.gradient or largest["retained"][stages[0]] in (0, largest["activation"][stages[0]])


class Residence(NamedTuple):
    """A stay of `size` grains on a device, from the start (or end) of the task `first` to the end of task `last`."""

    first: int
    from_end: bool
    last: int
    size: int


class Held(NamedTuple):
    """What is held of the activation of a unit, in grains: all of it, then what I leaves, or with R what F leaves.

    `cached` is the part that keys and values are.
    """

    activation: int
    retained: int
    checkpointed: int
    cached: int


def held(problem: Problem, stage: int, unit: int) -> Held:
    """Return what a stage holds of a unit."""
    sizes = problem.model.sizes
    return Held(*(int(sizes[name][stage, unit]) for name in Held._fields))


def late_residences(sizes: Held, gradient: int, last: int) -> list[Residence]:
    """Return the residences of an activation from the start of `gradient` on: its B or I. `last` is its B, or W."""
    size, retained = sizes.activation, sizes.retained
    if last == gradient or retained >= size:
        return [Residence(gradient, False, last, size if last == gradient else retained)]
    return [Residence(gradient, False, gradient, size), Residence(gradient, True, last, retained)]


def residences(problem: Problem, index: OpIndex, device: int) -> list[Residence]:
    """Return the residences on a device where activations are kept."""
    model, slices = problem.model, index.slices
    found: list[Residence] = []
    for stage in problem.settled_placement.stages_on(device):
        sizes = np.stack([model.sizes[name][stage] for name in Held._fields], axis=-1).tolist()
        for unit in np.flatnonzero(model.where[stage] == device).tolist():
            forward, own = index.row("F", stage)[unit], Held(*sizes[unit])
            if problem.mode == FORWARD_ONLY:
                found.append(Residence(forward, False, forward, own.activation - own.cached))
                later = model.rounds - 1 - unit // slices // problem.batches
                last = forward - unit % slices + slices - 1 + later * problem.batches * slices
                found.append(Residence(forward, False, last, own.cached))
                continue
            gradient, last = (index.counterpart(forward, kind) for kind in (index.gradient, index.last))
            whole, *others = late_residences(own, gradient, last)
            more = whole._replace(size=whole.size - own.activation)  # what I takes beside the activation
            found += [Residence(forward, False, whole.last, own.activation), more, *others]
            last_slice = gradient - index.owner_of(gradient) % slices + slices - 1
            if gradient != last_slice:
                found.append(Residence(last_slice, False, gradient, own.cached))
    return [stay for stay in found if stay.size]


def require_recompute(problem: Problem) -> None:
    """Raise ConfigError about `recompute` for a problem in which no activation can be recomputed.

    Raises NotApplicable where its costs hold a recompute already, by what it was derived from.
    """
    require_kept(problem, "recompute")
    if problem.cutter is not None:
        problem.cutter.require_recompute()


def require_offload(problem: Problem) -> None:
    """Raise ConfigError about `offload` for a problem in which no activation can be offloaded."""
    require_kept(problem, "offload")
    if problem.costs.offload is None:
        section = "costs" if problem.layers is None else "layer"
        raise ConfigError(f"needs `{section}.offload`, which says what one transfer takes", "offload")


def require_kept(problem: Problem, key: str) -> None:
    """Raise ConfigError, about `key`, for a problem whose activations are of slices, or of forward passes alone."""
    if problem.slices.are_several:
        raise ConfigError("goes with whole microbatches, not with `slices`", key)
    if problem.mode == FORWARD_ONLY:
        raise ConfigError("has no effect with `mode` forward, in which no activation waits for its backward", key)


FEW = 4  # chunks of a device, each of which is looked at alone too

Pieces = tuple[int, ...]  # the least lengths of the times at which an activation is there


class ResidencyCosts(NamedTuple):
    """What each activation of a chunk adds to a row, by the action."""

    keep: int
    offload: int
    recompute: int


class ResidencyInequality(NamedTuple):
    """An inequality on counts, for a length: sum of count x cost <= slope x length + offset.

    It holds where the length is at least `least`.
    """

    costs: tuple[ResidencyCosts, ...]  # one a chunk
    slope: int
    offset: int
    least: int = 0


class ResidencyChunk(NamedTuple):
    """A stage on a device, for so many `microbatches`: durations, sizes, and its place in the step.

    `head` is the earliest start of F, `tail` and `last_tail` follow the end of B (or I) and that of W (or B again),
    `path` leads from the start of F to the end of B or I. `retained` is 0 where the backward is whole. Where the
    microbatches differ these are the least of all, and `largest` is the most that one of them holds.
    """

    stage: int
    microbatches: int
    head: int
    tail: int
    last_tail: int
    path: int
    forward: int
    gradient: int
    weight: int
    recompute: int
    offload: int
    reload: int
    size: int
    checkpointed: int
    retained: int
    largest: int

    @property
    def again(self) -> int:
        """The least time from the start of F to the end of B or I where the forward runs again between."""
        return max(self.path, self.forward + self.recompute + self.gradient)


class ResidencyScope(NamedTuple):
    """What of a stay counts: up to the end of W (else of I), and between F and R too, where a checkpoint is left."""

    with_weight: bool
    with_checkpoint: bool

    def ends_late(self, chunk: ResidencyChunk) -> bool:
        """Return whether a stay lasts to the end of W."""
        return self.with_weight and chunk.retained > 0

    def weight(self, chunk: ResidencyChunk) -> int:
        """Return the ticks that a stay lasts after B or I, at least."""
        return chunk.weight if self.ends_late(chunk) else 0

    def tail(self, chunk: ResidencyChunk) -> int:
        """Return the ticks after a stay."""
        return chunk.last_tail if self.ends_late(chunk) else chunk.tail

    def last(self, chunk: ResidencyChunk) -> int:
        """Return the duration of the operation that ends a stay."""
        return chunk.weight if self.ends_late(chunk) else chunk.gradient

    def least_held(self, chunk: ResidencyChunk, allowed: MemorySavings) -> int:
        """Return the least that is held of an activation while it is there."""
        held = [chunk.size]
        if self.ends_late(chunk):
            held.append(chunk.retained)
        if allowed.recompute and self.with_checkpoint:
            held.append(chunk.checkpointed)
        return min(held)

    def arriving(self, chunk: ResidencyChunk, allowed: MemorySavings) -> int:
        """Return what is held of an activation as it comes, by F, L or R: all of it, unless that is for an instant."""
        takes_time = chunk.forward and chunk.gradient
        return chunk.size if takes_time else self.least_held(chunk, allowed)

    def pieces(self, chunk: ResidencyChunk) -> tuple[Pieces, Pieces, Pieces]:
        """Return the least lengths of what an activation is there for: kept, offloaded, recomputed."""
        end = chunk.gradient + self.weight(chunk)
        again: Pieces = (chunk.again + self.weight(chunk),)
        if not self.with_checkpoint:
            again = (chunk.forward, chunk.recompute + end)
        away = (chunk.forward + chunk.offload, chunk.reload + end)
        return (chunk.path + self.weight(chunk),), away, again


class DeviceResidencies(NamedTuple):
    """The chunks of one device, its capacity (None: no limit), and what may be done with their activations.

    With `alone` the length is that from the first start of the device to its own last end, else that of the step. With
    `paired` a forward and a backward may run at once.
    """

    device: int
    chunks: tuple[ResidencyChunk, ...]
    capacity: int | None
    allowed: MemorySavings
    alone: bool = False
    paired: bool = False

    def views(self) -> list[ResidencyScope]:
        """Return every view of the stays that differs."""
        late = (False, True) if any(chunk.retained for chunk in self.chunks) else (False,)
        whole = (True, False) if self.allowed.recompute else (True,)
        return [ResidencyScope(with_weight, with_checkpoint) for with_weight in late for with_checkpoint in whole]

    def rest(self, heads: Sequence[int], tails: Sequence[int]) -> int:
        """Return what is left of no length: less the least head and the least tail."""
        return 0 if self.alone else -min(heads) - min(tails)

    def area_bound(self) -> int:
        """Return core.bounds.memory_area: the least that activations take of memory x time, whatever is done to them.

        Activations leave with B or I; what is retained then stays for W's own time at the least, and what the start of
        I takes, for I's own.
        """
        view, held, area = ResidencyScope(True, True), [chunk for chunk in self.chunks if chunk.size], 0
        for chunk in self.chunks:
            costs = _area_of(view, chunk)
            saved = [getattr(costs, action) for action, is_allowed in self.allowed._asdict().items() if is_allowed]
            area += chunk.microbatches * min([costs.keep, *saved])
        heads, tails = [chunk.head for chunk in held], [view.tail(chunk) for chunk in held]
        return memory_area(area, self.capacity or 1, min(heads, default=0), min(tails, default=0))

    def rows(self) -> Iterator[ResidencyInequality]:
        """Yield every row: areas, stays, lanes and work."""
        if self.capacity is not None:
            for view in self.views():
                if view.with_checkpoint:
                    yield from self._area(view, self.capacity)
                yield from self._weighted(view, self.capacity)
                for slots in self.slots(view):
                    yield slots.area()
        if self.allowed.offload:
            yield from self._lanes()
        if not self.paired:
            yield from self._work()

    def slots(self, view: ResidencyScope) -> Iterator[Slots]:
        """Yield the slots for all chunks, and where there are a few, for each alone."""
        if self.capacity is None:
            return
        held = [chunk for chunk in self.chunks if view.least_held(chunk, self.allowed)]
        for chunks in [held, *([chunk] for chunk in held)] if 1 < len(held) <= FEW else [held]:
            if not chunks:
                return
            least = min(view.least_held(chunk, self.allowed) for chunk in chunks)
            most = 1 + (self.capacity - min(view.arriving(chunk, self.allowed) for chunk in chunks)) // least
            if 0 < most < sum(chunk.microbatches for chunk in chunks):
                yield Slots(self, view, tuple(chunks), most)

    def costs(self, chunks: Sequence[ResidencyChunk], costs: Sequence[ResidencyCosts]) -> tuple[ResidencyCosts, ...]:
        """Return the costs of some chunks as those of all chunks: the others have none."""
        of = dict(zip(chunks, costs, strict=True))
        return tuple(of.get(chunk, ResidencyCosts(0, 0, 0)) for chunk in self.chunks)

    def ramps(self, view: ResidencyScope, chunks: Sequence[ResidencyChunk], most: int, each: int) -> tuple[int, int]:
        """Return what the first and the last activations leave unused of `most`, in ticks, and how long that lasts.

        They come one F after another, with `each` at most, and go one backward after another.
        """
        steps = (most - 1) // each if each else 0
        unused = sum(most - number * each for number in range(1, steps + 1))
        step = min(chunk.forward for chunk in chunks) + min(view.last(chunk) for chunk in chunks)
        return unused * step, steps * step

    def between(self, view: ResidencyScope, chunks: Sequence[ResidencyChunk]) -> int:
        """Return `rest` for the stays of some chunks."""
        return self.rest([chunk.head for chunk in chunks], [view.tail(chunk) for chunk in chunks])

    def _area(self, view: ResidencyScope, capacity: int) -> Iterator[ResidencyInequality]:
        """Yield the area that activations take, which is at most capacity x time."""
        held = [chunk for chunk in self.chunks if chunk.size]
        if not held:
            return
        rest = self.between(view, held)
        each = max(chunk.largest for chunk in held)
        unused, lasts = self.ramps(view, held, capacity, each)
        costs = self.costs(held, [_area_of(view, chunk) for chunk in held])
        yield ResidencyInequality(costs, capacity, capacity * rest)
        yield ResidencyInequality(costs, capacity, capacity * rest - unused, lasts - rest)

    def _weighted(self, view: ResidencyScope, capacity: int) -> Iterator[ResidencyInequality]:
        """Yield the area of the least that each activation holds, where chunks differ."""
        # the activation that came last was there as a whole, beside the least of every other
        held = [(chunk, view.least_held(chunk, self.allowed)) for chunk in self.chunks]
        held = [(chunk, least) for chunk, least in held if least]
        if len({(chunk.size, least) for chunk, least in held}) < 2:
            return
        chunks = [chunk for chunk, _ in held]
        most = capacity - min(view.arriving(chunk, self.allowed) - least for chunk, least in held)
        costs = [ResidencyCosts(*(least * sum(pieces) for pieces in view.pieces(chunk))) for chunk, least in held]
        yield ResidencyInequality(self.costs(chunks, costs), most, most * self.between(view, chunks))

    def _lanes(self) -> Iterator[ResidencyInequality]:
        """Yield what both lanes carry from the end of an F on, until a load, or the backward behind it, is due."""
        begins = [chunk.forward + (0 if self.alone else chunk.head) for chunk in self.chunks]
        ends = [chunk.gradient + (0 if self.alone else chunk.tail) for chunk in self.chunks]
        out, back = [chunk.offload for chunk in self.chunks], [chunk.reload for chunk in self.chunks]
        for times, heads, tails in ((out, begins, [*map(add, ends, back)]), (back, [*map(add, begins, out)], ends)):
            rest = -min(heads) - min(tails)
            yield ResidencyInequality(tuple(ResidencyCosts(0, time, 0) for time in times), 1, rest, -rest)

    def _work(self) -> Iterator[ResidencyInequality]:
        """Yield the work of the device, recomputes among it; with and without the weight gradients."""
        heads = [chunk.head for chunk in self.chunks]
        for with_weight in {False, any(chunk.weight for chunk in self.chunks)}:
            work = [chunk.forward + chunk.gradient + (chunk.weight if with_weight else 0) for chunk in self.chunks]
            tails = [chunk.last_tail if with_weight else chunk.tail for chunk in self.chunks]
            again = zip(work, self.chunks, strict=True)
            costs = tuple(ResidencyCosts(time, time, time + chunk.recompute) for time, chunk in again)
            yield ResidencyInequality(costs, 1, self.rest(heads, tails))


class Slots(NamedTuple):
    """Places for activations of some chunks: at no time more than `most` are there.

    The activation that came last took its whole size, by F, L or R, beside at least `ResidencyScope.least_held` of
    every other. So stays are jobs without interruption on `most` machines.
    """

    window: DeviceResidencies
    view: ResidencyScope
    chunks: tuple[ResidencyChunk, ...]
    most: int

    def area(self) -> ResidencyInequality:
        """Return the sum of all stays, which is at most `most` x time."""
        costs = [ResidencyCosts(*map(sum, self.view.pieces(chunk))) for chunk in self.chunks]
        rest = self.window.between(self.view, self.chunks)
        unused, lasts = self.window.ramps(self.view, self.chunks, self.most, 1)
        return ResidencyInequality(
            self.window.costs(self.chunks, costs), self.most, self.most * rest - unused, lasts - rest
        )

    def rows_at(self, length: int) -> Iterator[tuple[tuple[ResidencyCosts, ...], int]]:
        """Yield for each length of a stay how many that long fit: costs and limit of rows for one length of the step.

        Slot i, counted from 0, is used only where i others are, so i operations later than the first.
        """
        time = length + self.window.between(self.view, self.chunks)
        step = max(min(chunk.forward for chunk in self.chunks), min(self.view.last(chunk) for chunk in self.chunks))
        free = [time - number * step for number in range(self.most) if time >= number * step]
        pieces = [self.view.pieces(chunk) for chunk in self.chunks]
        for least in {piece for one in pieces for action in one for piece in action if piece}:
            counts = [ResidencyCosts(*(sum(piece >= least for piece in action) for action in one)) for one in pieces]
            yield self.window.costs(self.chunks, counts), sum(each // least for each in free)


def _area_of(view: ResidencyScope, chunk: ResidencyChunk) -> ResidencyCosts:
    """Return memory x time of an activation by action, at least."""
    size, kept = chunk.size, chunk.checkpointed
    end = max(chunk.retained - size, 0) * chunk.gradient + (chunk.retained * chunk.weight if view.with_weight else 0)
    around = chunk.forward + chunk.gradient
    return ResidencyCosts(
        size * chunk.path + end,
        size * (around + chunk.offload + chunk.reload) + end,
        kept * chunk.again + (size - kept) * (around + chunk.recompute) + end,
    )


MOST_DOUBLINGS = 60


def shortest(window: DeviceResidencies, least: int, quantum: int) -> int:
    """Return the least length in ticks, a multiple of `quantum` from `least` on, that is not refuted for this device.

    No schedule is shorter than that, if none is shorter than `least`.
    """
    counts = _Counts(window)
    refuted, step = round_up(least, quantum), quantum
    if counts.may_be(refuted):
        return least
    for _ in range(MOST_DOUBLINGS):
        if counts.may_be(refuted + step):
            break
        refuted, step = refuted + step, 2 * step
    else:
        return refuted
    open_ = refuted + step
    while open_ - refuted > quantum:
        middle = refuted + (open_ - refuted) // (2 * quantum) * quantum
        refuted, open_ = (refuted, middle) if counts.may_be(middle) else (middle, open_)
    return open_


class _Counts:
    """The inequalities on the numbers of actions on a device."""

    def __init__(self, window: DeviceResidencies) -> None:
        self.chunks = window.chunks
        allowed = [action for action in ("offload", "recompute") if getattr(window.allowed, action)]
        self.actions = [(number, action) for number in range(len(self.chunks)) for action in allowed]
        self.rows = [*window.rows()]
        self.slots = [slots for view in window.views() for slots in window.slots(view)]

    def may_be(self, length: int) -> bool:
        """Return False if no numbers of actions keep all inequalities for a length."""
        numbers = sorted({number for number, _ in self.actions})  # no chunk has more actions than activations
        rows = [[int(number == chunk) for number, _ in self.actions] for chunk in numbers]
        limits = [self.chunks[number].microbatches for number in numbers]
        for costs, most in self._inequalities(length):
            kept = sum(chunk.microbatches * cost.keep for chunk, cost in zip(self.chunks, costs, strict=True))
            rows.append([getattr(costs[number], action) - costs[number].keep for number, action in self.actions])
            limits.append(most - kept)
            if limits[-1] < 0 and all(entry >= 0 for entry in rows[-1]):
                return False
        # Without the rows that hold whatever the numbers are.
        needed = [both for both in zip(rows, limits, strict=True) if both[1] < 0 or any(one > 0 for one in both[0])]
        return not self.actions or may_hold([row for row, _ in needed], [limit for _, limit in needed])

    def _inequalities(self, length: int) -> Iterator[tuple[tuple[ResidencyCosts, ...], int]]:
        for row in self.rows:
            if length >= row.least:
                yield row.costs, row.slope * length + row.offset
        for slots in self.slots:
            yield from slots.rows_at(length)
