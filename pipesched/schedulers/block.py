"""Building blocks: the operations of one microbatch with their offsets, repeated with a period.

A block is a steady state written down once. What it holds in memory follows from it alone: an activation is resident
from the start of F to the end of W (or B), a new one begins every period, so a device holds at any time as many of
them as residences overlap modulo the period ("Pipeline Parallelism with Controllable Memory", Qi et al. 2024,
arXiv 2405.15362, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipesched.core.arrays import Ints, column, in_range, np
from pipesched.core.listsched import insert_in_order
from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.plan_of import last_slice_first


class Block(NamedTuple):
    """`offsets[kind][s]` is when the operation of that kind on stage s starts, after its microbatch begins; the next
    microbatch begins a `period` later. Both are in 1/`parts` ticks. Kinds are F and B, or F, I and W."""

    offsets: Mapping[str, Sequence[int]]
    period: int
    parts: int = 1

    def peak(self, problem: Problem) -> int:
        """Return the most activations that a device of `problem` holds in the steady state, counted in chunks."""
        last = "B" if "B" in self.offsets else "W"
        lengths = [length * self.parts for length in problem.ticks.of(last)]
        peak = 0
        for device in range(problem.devices):
            stages = problem.settled_placement.stages_on(device)
            spans = [(self.offsets["F"][stage], self.offsets[last][stage], lengths[stage]) for stage in stages]
            held = (sum(_alive(moment, span, self.period) for span in spans) for moment, *_ in spans)
            peak = max(peak, *held)
        return peak

    def times(self, index: OpIndex) -> Ints:
        """Return the start of each operation in the repeated block, in parts of a tick."""
        first = column([offset for kind in index.letters for offset in self.offsets[kind]])
        period, units = self.period, np.arange(index.units)
        latest = int(first.max()) + (index.units + index.slices) * period
        late = np.asarray(last_slice_first(index, range(index.units))) + index.slices - 1  # after F of its last slice
        begins = in_range(np.stack([units] * index.stages + [late] * (len(first) - index.stages)), latest) * period
        times: Ints = (in_range(first, latest)[:, None] + begins).ravel()
        return times

    def order(self, index: OpIndex) -> Ints:
        """Return all operations by their time in the repeated block; at equal times, what is waited for comes first."""
        rows = np.arange(index.size).reshape(len(index.letters), -1, index.units)
        listed = np.concatenate([rows[0].ravel(), rows[1:, ::-1].ravel()])
        order: Ints = listed[np.argsort(self.times(index)[listed], kind="stable")]
        return order


def works(problem: Problem) -> list[int]:
    """Return the work of each device for a microbatch, in ticks."""
    mean, placement = problem.ticks.mean, problem.settled_placement
    work = [forward + backward for forward, backward in zip(mean["forward"], mean["backward"], strict=True)]
    return [sum(work[stage] for stage in placement.stages_on(device)) for device in range(problem.devices)]


def busiest(problem: Problem) -> int:
    """Return the work of the busiest device for a microbatch, in ticks (at least 1): no period can be shorter."""
    return max(1, *works(problem))


def in_chunks(problem: Problem) -> tuple[Problem, int]:
    """Return `problem` with every activation counted as one chunk, without keys and values, and the grains of a chunk.

    A chunk is in flight up to its W at most, whatever is held beside it.
    """
    retain = tuple(min(part, 1) for part in problem.memory.retain)
    memory = replace(problem.memory, activation=(1,) * problem.stages, retain=retain, kv=0)
    counted = replace(problem, memory=memory)
    return counted, counted.grains.largest["activation"][0]


def with_weights(
    problem: Problem, forwards: Sequence[int], inputs: Sequence[int], period: int, parts: int = 1
) -> Block:
    """Return the block of these offsets of F and I, with each W in the first free time of its device after its I.

    All times are in 1/`parts` ticks, those of F and I by stage.
    """
    lengths = {kind: [length * parts for length in problem.ticks.of(kind)] for kind in "FIW"}
    starts, weights = {"F": forwards, "I": inputs}, [0] * problem.stages
    for device in range(problem.devices):
        stages = problem.settled_placement.stages_on(device)
        busy = [(starts[kind][stage], lengths[kind][stage]) for kind in "FI" for stage in stages]
        for stage in sorted(stages, key=starts["I"].__getitem__):
            earliest, length = starts["I"][stage] + lengths["I"][stage], lengths["W"][stage]
            weights[stage] = _first_free(earliest, length, busy, period)
            busy.append((weights[stage], length))
    return Block({**starts, "W": weights}, period, parts)


def _alive(moment: int, span: tuple[int, int, int], period: int) -> int:
    """Return how many repetitions of a residence last at a moment.

    `span` holds the start of its first operation, and the start and the length of its last. If the last takes no time,
    it comes after an F of that moment, as in `Block.order`.
    """
    first, last, length = span
    begun, ended = (moment - first) // period, (moment - last - length) // period
    if not length and (moment - last) % period == 0:
        ended -= 1
    return begun - ended


def _first_free(earliest: int, length: int, busy: Sequence[tuple[int, int]], period: int) -> int:
    """Return the first time from `earliest` on when `length` fits between the busy times modulo the period.

    Where it fits nowhere, that is a period after `earliest`.
    """
    ends = (start + size for start, size in busy)
    for start in sorted([earliest, *(earliest + (end - earliest) % period for end in ends)]):
        if all((start - other) % period >= size and (other - start) % period >= length for other, size in busy):
            return start
    return earliest + period


def squeeze(graph: TaskGraph, index: OpIndex, block: Block, capacities: Sequence[int]) -> list[list[int]] | None:
    """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

    Every operation goes, in the order of the block, into the earliest time that is free. What waits in the block only
    for its period moves up; a forward moves up only as far as memory stays under the limit ("Pipeline Parallelism with
    Controllable Memory", Qi et al. 2024, section 3.3).

    None when the block itself holds more than that, so that a forward never fits.
    """
    inserted = insert_in_order(graph, block.order(index), capacities)
    return None if inserted is None else inserted.orders
