"""What a budget of memory asks of any order: a floor, room for each I, capacity edges, and residences of activations.

They stand in this order: `require_least_capacity` refuses a budget below the floor. `forward_headrooms` is the room,
then come `capacity_edges` and `residences`, and last the inequalities of a device, by which `shortest` bounds a length.

Kinds are those of ops.py: F forward, B backward, I and W its halves. Where more than its activation is retained of a
microbatch (`retain` above 1), the start of I takes memory, and only its W frees some. A device full of activations
could then start no I, so every F leaves that room.

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
from itertools import accumulate, product
from operator import add
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.core.arrays import Ints, column, in_range, np, total
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
    is_gone = allowed.offload or problem.mode == FORWARD_ONLY  # between forward and backward
    held, peaks = _held(problem, stages, "checkpointed" if allowed.recompute else "activation")
    kept = np.where(here, held * (not is_gone), 0)
    needed = kept.cumsum(axis=0) - kept + peaks
    if problem.has_step:  # whole weights, and gradients beside the activations of a whole backward
        # of a split one it is W that needs the gradients, which may run once other activations are gone
        grains, has_whole = problem.step_grains, not problem.costs.split and problem.mode != FORWARD_ONLY
        beside = [grains.weights[stage] + grains.gradients[stage] * has_whole for stage in stages]
        needed = needed + column(beside)[:, None]
    return max(needed[here].tolist(), default=0)


def _held(problem: Problem, stages: Sequence[int], between: str = "activation") -> tuple[Ints, Ints]:
    """Return what stages hold of each microbatch between its passes, and at its highest, if they run no other one.

    One microbatch stands for all that are alike; `between` is a column of StepModel.sizes.
    """
    model = problem.model
    columns = (model.sizes[name][np.ix_(column(stages), model.unlike[0])]
               for name in ("activation", "retained", "cached", between))  # fmt: skip
    exact = (in_range(sizes, 4 * total(sizes.ravel())) for sizes in columns)
    whole, retained, cached, kept = (sizes.reshape(len(stages), -1, model.slices) for sizes in exact)
    # before the backward of the slice that runs first, the last; where all run forwards alone, in some forward
    if problem.mode == FORWARD_ONLY:
        held = cached.cumsum(axis=2) - cached + whole + (problem.rounds - 1) * cached
    else:
        cached[:, :, -1] = 0
        held = (whole + cached).cumsum(axis=2)
        held = held + np.maximum(retained - whole, 0) if problem.costs.split else held
    return kept.sum(axis=2), held.max(axis=2)


def require_least_capacity(problem: Problem, allowed: MemorySavings = KEEP_ONLY) -> None:
    """Raise NoSchedule, with changes that would help, when a device's capacity is below its floor."""
    scale, unit = problem.grains.per_unit, problem.memory.unit
    for device, capacity in enumerate(problem.capacity_grains):
        floor = least_capacity(problem, device, allowed)
        if capacity is None or capacity >= floor:
            continue
        static = problem.static_grains[device]
        least = in_units(floor + static, scale)
        budget = in_units(capacity + static, scale)
        typed = shown(plain(rounded(Fraction(floor + static, scale), up=True)))
        would_fit = [Remedy(f"a budget of {typed} {unit} on device {device}", "budget")]
        largest = int(_held(problem, problem.settled_placement.stages_on(device))[1].max())  # any order must hold it
        if largest <= capacity and len(problem.settled_placement.ways) == 1:
            would_fit.append(Remedy("fewer stages a device", "stages"))
        names = ("recompute", "offload") if problem.costs.offload is not None else ("recompute",)
        floors = {name: least_capacity(problem, device, MemorySavings(**{name: True})) for name in names}
        would_fit += [Remedy(f"solve with `{name}`", name) for name, needed in floors.items() if needed <= capacity]
        whose = "its largest" if differs(problem) else "one"
        raise NoSchedule(
            f"device {device} needs a budget of at least {typed} {unit} to run {whose} microbatch,"
            f" and its budget is {shown(budget)}",
            device=device,
            floor=least,
            budget=budget,
            would_fit=would_fit,
        )


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
    most: list[int] = problem.model.changes(index.gradient)[0].max(axis=1).tolist()
    return most


def order_edges(problem: Problem, index: OpIndex, rows: Sequence[range] = ()) -> Iterator[Edges]:
    """Yield the edges that put microbatches that are alike in order, in some rows of operations, or in all.

    They cost nothing without offload and recompute: equal operations wait alike, so sorting those of a row by
    microbatch breaks no rule. Microbatches that go other ways, or differ in any cost or size, have no order.
    """
    slices, groups = index.slices, [column(group)[:, None] for group in alike(problem) if len(group) > 1]
    units = [(group * slices + np.arange(slices)).ravel() for group in groups]
    for row in rows or (row for kind in index.letters for row in index.rows(kind)):
        yield from (Edges(row.start + own[:-slices], row.start + own[slices:]) for own in units)


def capacity_edges(problem: Problem, index: OpIndex) -> Iterator[Edges]:
    """Yield the edges that follow from the budget of each device; none where microbatches are not alike."""
    if not problem.are_alike:
        return
    # of each stage, what the next I takes, unless it is there and gone within an instant: at an F so much is free
    mean, largest = problem.ticks.mean, problem.grains.largest
    is_split = "I" in index.letters and "B" not in index.letters
    halves = zip(mean["backward_input"], mean["backward_weight"], largest["caught"], strict=True)
    headroom = [caught if is_split and first + last > 0 else 0 for first, last, caught in halves]
    lasts = [*map(add, mean["forward"], problem.ticks.of(index.gradient))]
    for device, capacity in enumerate(problem.capacity_grains):
        if capacity is None:
            continue
        stages = problem.settled_placement.stages_on(device)
        held = list(accumulate(largest["activation"][stage] for stage in stages))
        room = capacity - min((headroom[stage] for stage in stages), default=0)
        for chunk, stage in enumerate(stages):
            left = room - held[chunk]
            # what is held for an instant alone proves nothing by the start of its F
            for earlier, sizes in zip(stages[: chunk + 1], held, strict=False) if lasts[stage] else ():
                rest = min(largest["retained"][earlier], largest["activation"][earlier])
                freed = [(index.gradient, sizes), (index.last, rest)]
                for kind, size in freed if index.last != index.gradient else freed[:1]:
                    behind = 1 + left // size if size and left >= 0 else index.microbatches
                    if behind < index.microbatches:
                        yield Edges(index.row(kind, earlier)[:-behind], index.row("F", stage)[behind:])


def says_all(problem: Problem, device: int, index: OpIndex) -> bool:
    """Return whether the capacity edges of a device are its whole budget: for one stage, freed at once."""
    largest = problem.grains.largest
    stages = problem.settled_placement.stages_on(device) if problem.are_alike else []
    if len(stages) != 1 or not problem.ticks.mean["forward"][stages[0]] + problem.ticks.of(index.gradient)[stages[0]]:
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
ResidencyCosts = Sequence[int]  # what each activation of a chunk adds to a row: kept, offloaded, recomputed
ACTIONS = {"offload": 1, "recompute": 2}  # their places in these


class ResidencyInequality(NamedTuple):
    """An inequality on counts, for a length: sum of count x cost <= slope x length + offset.

    It holds where the length is at least `least`.
    """

    costs: Sequence[ResidencyCosts]  # one a chunk
    slope: int
    offset: int
    least: int = 0


class ResidencyChunk(NamedTuple):
    """A stage on a device: durations, sizes, and its place in the step; the least of all where microbatches differ."""

    stage: int
    microbatches: int
    head: int  # the earliest start of F
    tail: int  # what follows the end of B (or I)
    last_tail: int  # what follows the end of W (or B again)
    path: int  # from the start of F to the end of B or I
    forward: int
    gradient: int
    weight: int
    recompute: int
    offload: int
    reload: int
    size: int
    checkpointed: int
    retained: int  # 0 where the backward is whole
    largest: int  # the most that a microbatch holds


class ChunkResidency(NamedTuple):
    """How long an activation of a chunk is there, at least, and what is held of it."""

    chunk: ResidencyChunk
    tail: int  # what follows the end of its stay
    last: int  # the duration of the operation that ends it
    least: int  # the least that is held of it
    arriving: int  # what is held as it comes, by F, L or R: all of it, unless that is for an instant
    pieces: tuple[Pieces, Pieces, Pieces]  # lengths, where it is kept, offloaded or recomputed
    area: ResidencyCosts  # memory x time, likewise


class DeviceResidencies(NamedTuple):
    """The chunks of one device, its capacity, and what may be done with their activations.

    `stays` says how long these are there at least, `rows` which inequalities follow for a length. With `alone` the
    length is that from the first start of the device to its own last end, else that of the step. With `paired` a
    forward and a backward may run at once.
    """

    device: int
    chunks: tuple[ResidencyChunk, ...]
    capacity: int
    allowed: MemorySavings
    alone: bool = False
    paired: bool = False

    def stays(self, *, with_weight: bool, with_checkpoint: bool = True) -> list[ChunkResidency]:
        """Return the stays up to the end of W (else of I), with what lies between F and R, or without."""
        found = []
        for chunk in self.chunks:
            size, is_late = chunk.size, with_weight and chunk.retained > 0
            weight, tail, last = 0, chunk.tail, chunk.gradient
            if is_late:
                weight, tail, last = chunk.weight, chunk.last_tail, chunk.weight
            kept = [chunk.checkpointed] if self.allowed.recompute and with_checkpoint else []
            least = min(size, *kept, chunk.retained if is_late else size)
            around, end = chunk.forward + chunk.gradient, chunk.gradient + weight
            path = max(chunk.path, around + chunk.recompute)  # where the forward runs again
            again = (path + weight,) if with_checkpoint else (chunk.forward, chunk.recompute + end)
            away = (chunk.forward + chunk.offload, chunk.reload + end)
            beside = max(chunk.retained - size, 0) * chunk.gradient + chunk.retained * weight
            saved = chunk.checkpointed * path + (size - chunk.checkpointed) * (around + chunk.recompute)
            area = size * chunk.path + beside, size * (sum(away) - weight) + beside, saved + beside
            arriving = size if chunk.forward and chunk.gradient else least
            pieces = (chunk.path + weight,), away, again
            found.append(ChunkResidency(chunk, tail, last, least, arriving, pieces, area))
        return found

    def area_bound(self) -> int:
        """Return core.bounds.memory_area: the least that activations take of memory x time, whatever is done to them.

        Activations leave with B or I; what is retained then stays for W's own time at the least, and what the start of
        I takes, for I's own.
        """
        stays = self.stays(with_weight=True)
        actions = [0, *(place for action, place in ACTIONS.items() if getattr(self.allowed, action))]
        area = sum(one.chunk.microbatches * min(one.area[action] for action in actions) for one in stays)
        ends = [(one.chunk.head, one.tail) for one in stays if one.chunk.size]
        head, tail = (min(one) for one in zip(*ends, strict=True)) if ends else (0, 0)
        return memory_area(area, self.capacity, head, tail)

    def rows(self) -> tuple[list[ResidencyInequality], list[Slots]]:
        """Return every row, of areas, stays, lanes and work, and all slots."""
        rows, every = list[ResidencyInequality](), list[Slots]()
        views = product(
            (False, True) if any(chunk.retained for chunk in self.chunks) else (False,),
            (True, False) if self.allowed.recompute else (True,),
        )
        for with_weight, is_whole in views:  # by what of the stays counts: of W, and of checkpoints
            stays = self.stays(with_weight=with_weight, with_checkpoint=is_whole)
            held = [one for one in stays if one.chunk.size]
            if is_whole and held:  # the area that activations take, which is at most capacity x time
                areas, largest = [one.area for one in held], max(one.chunk.largest for one in held)
                rows += (self._row(held, areas, self.capacity, each) for each in (0, largest))
            # where chunks differ, the area of the least that each activation holds: the one that came last was there as
            # a whole, beside the least of every other
            held = [one for one in stays if one.least]
            if len({(one.chunk.size, one.least) for one in held}) > 1:
                most = self.capacity - min(one.arriving - one.least for one in held)
                rows.append(self._row(held, [[one.least * sum(piece) for piece in one.pieces] for one in held], most))
            for slots in self.slots(stays):
                rows.append(self._row(slots.stays, [[*map(sum, one.pieces)] for one in slots.stays], slots.most, 1))
                every.append(slots)
        chunks = self.chunks
        if self.allowed.offload:  # what both lanes carry from the end of an F on, until a load, or the backward, is due
            begins = [chunk.forward + (0 if self.alone else chunk.head) for chunk in chunks]
            ends = [chunk.gradient + (0 if self.alone else chunk.tail) for chunk in chunks]
            out, back = [chunk.offload for chunk in chunks], [chunk.reload for chunk in chunks]
            for times, first, last in ((out, begins, [*map(add, ends, back)]), (back, [*map(add, begins, out)], ends)):
                rest = -min(first) - min(last)
                rows.append(ResidencyInequality([(0, time, 0) for time in times], 1, rest, -rest))
        # the work of the device, recomputes among it; with and without the weight gradients
        for with_weight in () if self.paired else {False, any(chunk.weight for chunk in chunks)}:
            work = [chunk.forward + chunk.gradient + (chunk.weight if with_weight else 0) for chunk in chunks]
            tail = min(chunk.last_tail if with_weight else chunk.tail for chunk in chunks)
            rest = 0 if self.alone else -min(chunk.head for chunk in chunks) - tail
            costs = [(time, time, time + chunk.recompute) for time, chunk in zip(work, chunks, strict=True)]
            rows.append(ResidencyInequality(costs, 1, rest))
        return rows, every

    def _row(
        self, stays: Sequence[ChunkResidency], costs: Sequence[ResidencyCosts], most: int, each: int = 0
    ) -> ResidencyInequality:
        """Return the costs of some stays, which are at most `most` x time; the other chunks have none.

        Less what the first and the last activations leave unused: they come one F after another, with `each` at most,
        and go one backward after another. Without `each`, nothing is.
        """
        of = {one.chunk: cost for one, cost in zip(stays, costs, strict=True)}
        every = [of.get(chunk, (0, 0, 0)) for chunk in self.chunks]
        rest = 0 if self.alone else -min(one.chunk.head for one in stays) - min(one.tail for one in stays)
        if not each:
            return ResidencyInequality(every, most, most * rest)
        steps, step = (most - 1) // each, min(one.chunk.forward for one in stays) + min(one.last for one in stays)
        unused = sum(most - number * each for number in range(1, steps + 1)) * step
        return ResidencyInequality(every, most, most * rest - unused, steps * step - rest)

    def slots(self, stays: Sequence[ChunkResidency]) -> Iterator[Slots]:
        """Yield the slots for all stays, and where there are a few chunks, for each alone."""
        held = [one for one in stays if one.least]
        for some in [held, *([one] for one in held)] if 1 < len(held) <= FEW else [held] if held else []:
            most = 1 + (self.capacity - min(one.arriving for one in some)) // min(one.least for one in some)
            if 0 < most < sum(one.chunk.microbatches for one in some):
                pieces = {piece for one in some for action in one.pieces for piece in action if piece}
                counts = ([[sum(own >= piece for own in action) for action in one.pieces] for one in some]
                          for piece in pieces)  # fmt: skip
                fitting = [(piece, self._row(some, count, 1)) for piece, count in zip(pieces, counts, strict=True)]
                yield Slots(some, most, fitting)


class Slots(NamedTuple):
    """Places for activations of some chunks: at no time more than `most` are there.

    The activation that came last took its whole size, by F, L or R, beside at least `ChunkResidency.least` of every
    other. So stays are jobs without interruption on `most` machines. `fitting` counts for each length of a stay those
    that are as long, as if all had one place.
    """

    stays: Sequence[ChunkResidency]
    most: int
    fitting: Sequence[tuple[int, ResidencyInequality]]


MOST_DOUBLINGS = 60


def shortest(window: DeviceResidencies, least: int, quantum: int) -> int:
    """Return the least length in ticks, a multiple of `quantum` from `least` on, that is not refuted for this device.

    No schedule is shorter than that, if none is shorter than `least`.
    """
    chunks, (rows, slots) = window.chunks, window.rows()
    allowed = [place for action, place in ACTIONS.items() if getattr(window.allowed, action)]
    actions = [(number, place) for number in range(len(chunks)) for place in allowed]

    def may_be(length: int) -> bool:
        """Return False if no numbers of actions keep all inequalities for a length."""
        numbers = range(len(chunks) if allowed else 0)  # no chunk has more actions than activations
        factors = [[int(number == chunk) for number, _ in actions] for chunk in numbers]
        limits = [chunks[number].microbatches for number in numbers]
        own = [(row.costs, row.slope * length + row.offset) for row in rows if length >= row.least]
        for one in slots:  # slot i, counted from 0, is used only where i others are, so i operations later
            step = max(min(stay.chunk.forward for stay in one.stays), min(stay.last for stay in one.stays))
            times = [length + row.offset for _, row in one.fitting[:1]]  # the same for all
            free = [time - number * step for time in times for number in range(one.most) if time >= number * step]
            own += ((row.costs, sum(each // piece for each in free)) for piece, row in one.fitting)
        for costs, most in own:
            kept = sum(chunk.microbatches * cost[0] for chunk, cost in zip(chunks, costs, strict=True))
            factors.append([costs[number][place] - costs[number][0] for number, place in actions])
            limits.append(most - kept)
            if limits[-1] < 0 and all(entry >= 0 for entry in factors[-1]):
                return False
        # Without the rows that hold whatever the numbers are.
        needed = [both for both in zip(factors, limits, strict=True) if both[1] < 0 or any(one > 0 for one in both[0])]
        return not actions or may_hold([row for row, _ in needed], [limit for _, limit in needed])

    refuted, step = -(-least // quantum) * quantum, quantum
    if may_be(refuted):
        return least
    for _ in range(MOST_DOUBLINGS):
        if may_be(refuted + step):
            break
        refuted, step = refuted + step, 2 * step
    else:
        return refuted
    open_ = refuted + step
    while open_ - refuted > quantum:
        middle = refuted + (open_ - refuted) // (2 * quantum) * quantum
        refuted, open_ = (refuted, middle) if may_be(middle) else (middle, open_)
    return open_
