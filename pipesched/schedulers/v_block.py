"""The building blocks of the V schedules with split backward, which differ in a few waiting times.

A microbatch runs down the V and back, forwards, then backwards. The longer it waits between two stages, the more
microbatches are in flight, and the more memory they hold ("Pipeline Parallelism with Controllable Memory", Qi et al.
2024, section 3.2).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import Design, costing
from pipesched.schedulers.block import Block, busiest, with_weights

SLOTS = 6  # operations of one microbatch on a device: F, I and W of two chunks


class Waits(NamedTuple):
    """How long a microbatch waits at each hop, in operations: on the four legs (forward down and back up the V,
    backward down and up), and at the three turns."""

    forward_down: int
    forward_up: int
    backward_down: int
    backward_up: int
    forward_bottom: int = 0
    top: int = 0
    backward_bottom: int = 0


def v_block(problem: Problem, waits: Waits, *, stretched: bool = False) -> Block:
    """Return the block of `waits` for the costs of `problem`; its period is the work of the busiest device.

    If `stretched`, every hop takes a sixth of the period, whatever it costs; else each takes its own time.
    """
    ticks, devices, hops = problem.ticks, problem.settled_placement.devices, problem.devices - 1
    period = busiest(problem)
    visits = [*range(problem.stages), *reversed(range(problem.stages))]
    lengths = [*ticks.forward, *reversed(ticks.backward_input)]
    down, up, back_down, back_up, *turns = waits
    legs = ([wait] * hops for wait in (down, up, back_down, back_up))
    pauses = [pause for leg, turn in zip(legs, [*turns, 0], strict=True) for pause in (*leg, turn)]
    times = [0]  # in sixths of a tick, so that a slot is whole
    for here, there, length, pause in zip(visits, visits[1:], lengths, pauses, strict=False):
        lag = ticks.hop(here, there) if devices[here] != devices[there] else 0
        times.append(times[-1] + (period if stretched else SLOTS * (length + lag)) + pause * period)
    offsets = [Fraction(time, SLOTS) for time in times]
    return with_weights(problem, offsets[: problem.stages], offsets[: problem.stages - 1 : -1], period)


def v_blocks(problem: Problem, waits: Waits) -> list[Design]:
    """Return the block of `waits` designed for unit costs, for those of `problem`, and for costs between."""
    unit, between = costing(problem, Fraction(0)), costing(problem, Fraction(1, 2))
    designs = [(unit, False), (problem, True), (problem, False), (between, False)]
    return [Design(costs, v_block(costs, waits, stretched=stretched)) for costs, stretched in designs]


def published_peak(problem: Problem, waits: Waits) -> int:
    """Return the chunks that a device holds in the block for unit costs."""
    unit = costing(problem, Fraction(0))
    return v_block(unit, waits).peak(unit)
