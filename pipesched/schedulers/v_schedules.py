"""Schedules of two stages a device on a V, by building blocks: ZB-V, V-Half, V-Min and 1F1B-V.

ZB-V splits the backward and has no bubble in the span where f = b = w, at 1F1B's memory. V-Half holds half of that for
some bubble, V-Min, where a microbatch never waits, about a third. 1F1B-V has full backwards, at about two thirds.
"""

from __future__ import annotations

from functools import partial

from pipesched.core.arrays import ceil_div, lists, np
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.block import (
    Block,
    Design,
    Waits,
    best_of,
    busiest,
    costing,
    of_the_mean,
    published_peak,
    v_blocks,
)
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import last_slice_first

STEPS = ["F0", "F1", "I0", "I1", "W0", "W1"]  # a kind and a chunk
PERIOD = 6  # of the unit block


@of_the_mean
def zb_v(problem: Problem, *, objective: str = "span") -> Plan:
    """Run the published order, or where that is better, the best of blocks that hold no more chunks."""
    index = OpIndex("FIW", problem.stages, problem.microbatches, problem.slices.count)
    published = [published_order(index, problem.devices, device) for device in range(problem.devices)]
    return best_of(problem, v_blocks(problem, Waits(3, 1, 3, 1)), zb_v_chunks(problem), objective, known=[published])


def zb_v_chunks(problem: Problem) -> int:
    """Return the chunks that 1F1B holds: of n slices P+n-1, of each stage."""
    slices = problem.slices.count
    return ceil_div(2 * (problem.devices + slices - 1), slices)


def published_order(index: OpIndex, devices: int, device: int) -> list[int]:
    """Return the order of a device for f = b = w, where F0 is the F of chunk 0, F1 that of chunk 1, and so on.

    Warm-up: 2(P-d)-1 times F0, d times F1 F0, P-d times F1 I1 W1. Steady: F0 while any is left, I0 W0 F1 I1 W1.
    Cool-down: d times I0 I1, P-d times I0 W0, then the W1 and the W0 that are left. Of n slices a microbatch, F1 F0 and
    I0 I1 run n-1 times more, and I and W of the last slice first. Fewer than 2P-1 microbatches run as the first of
    2P-1.
    """
    late, slices = devices - device, index.slices
    early, least = device + slices - 1, 2 * devices + slices - 2
    count = ceil_div(max(index.units, least), slices) * slices
    phases = (("F0", 2 * late - 1), ("F1 F0", early), ("F1 I1 W1", late),
              ("F0 I0 W0 F1 I1 W1", count - devices - slices + 1), ("I0 I1", early), ("I0 W0", late), ("W1", early),
              ("W0", early))  # fmt: skip
    steps = np.concatenate([np.tile([*map(STEPS.index, names.split())], times) for names, times in phases])
    order, unit = np.zeros(len(steps), dtype=np.int64), np.zeros(len(steps), dtype=np.int64)
    for number, step in enumerate(STEPS):
        places = np.flatnonzero(steps == number)
        every = range(len(places))
        unit[places] = every if step[0] == "F" else last_slice_first(index, every)
        order[places] = index.row(step[0], index.stages - 1 - device if step[1] == "1" else device).start
    return lists((order + unit)[unit < index.units])


@of_the_mean
def v_half(problem: Problem, *, objective: str = "span") -> Plan:
    """Let a microbatch wait one operation at each hop down the V; or if that is better, its forwards at each hop up."""
    reflected = Waits(0, 1, 1, 0, forward_bottom=2)
    designs = [*v_blocks(problem, half_waits(problem)), *v_blocks(problem, reflected)]
    return best_of(problem, designs, v_half_chunks(problem), objective)


def half_waits(problem: Problem) -> Waits:
    """Return the published waits of V-Half."""
    return Waits(1, 0, 1, 0, top=3 if problem.devices % 2 == 0 else 0, backward_bottom=1)


def v_half_chunks(problem: Problem) -> int:
    """Return the published memory of V-Half."""
    return published_peak(problem, half_waits(problem))


@of_the_mean
def v_min(problem: Problem, *, objective: str = "span") -> Plan:
    """Let no microbatch wait; but two operations at the top of the V where 3 divides P and operations would collide."""
    return best_of(problem, v_blocks(problem, least_waits(problem)), v_min_chunks(problem), objective)


def least_waits(problem: Problem) -> Waits:
    """Return the published waits of V-Min."""
    return Waits(0, 0, 0, 0, top=2 if problem.devices % 3 == 0 else 0)


def v_min_chunks(problem: Problem) -> int:
    """Return the published memory of V-Min."""
    return published_peak(problem, least_waits(problem))


@of_the_mean
def one_f_one_b_v(problem: Problem, *, objective: str = "span") -> Plan:
    """Run the block of `unit_block`, stretched to the given costs, or with its own costs, whichever is better."""
    designs = [Design(design, unit_block(design)) for design in (costing(problem), problem)]
    return best_of(problem, designs, one_f_one_b_v_chunks(problem), objective)


def one_f_one_b_v_chunks(problem: Problem) -> int:
    """Return the published memory of 1F1B-V."""
    unit = costing(problem)
    return unit_block(unit).peak(unit)


def unit_block(problem: Problem) -> Block:
    """Return the block for B = 2F, with F as the unit of time: forwards every 1, backwards (from stage 2P-1) every 2.

    After every third backward there is a pause of 3, so that no two operations of a device meet modulo the period 6.
    It is stretched to the costs of `problem`: a period is the work of the busiest device.
    """
    stages, period = problem.stages, busiest(problem)
    slot = stages + (3 if problem.devices % 3 == 0 else 0)
    since_pause = (3 - (problem.devices + 2) % 3) % 3
    backwards = []
    for _ in range(stages):
        if since_pause == 3:
            slot, since_pause = slot + 3, 0
        backwards.append(slot * period)
        slot, since_pause = slot + 2, since_pause + 1
    return Block({"F": range(0, stages * period, period), "B": backwards[::-1]}, PERIOD * period, PERIOD)


_on_v = partial(
    Family,
    placement="v",
    chunks=2,
    needs="S = 2P, any M; splits the backward",
    paper="Pipeline Parallelism with Controllable Memory (Qi et al. 2024, arXiv 2405.15362)",
    elsewhere="the authors' Megatron fork",
    options=("objective",),
    splits_backward=True,
    is_slow=True,
)

ZERO_BUBBLE = _on_v(
    name="zb-v",
    plan=zb_v,
    needs="S = 2P, any M; slices; splits the backward",
    bubble="none in span at f = b = w and M >= 2P; else by simulation",
    memory="min(M, P); n slices: min(nM, P-1+n)/n",
    paper="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="PyTorch ScheduleZBVZeroBubble, the authors' Megatron fork",
    slices=True,
    most_chunks=zb_v_chunks,
)

HALF = _on_v(
    name="v-half",
    plan=v_half,
    bubble="by simulation",
    memory="P/2 + 1 (P/2 + 1/2 for odd P)",
    most_chunks=v_half_chunks,
)

LEAST = _on_v(
    name="v-min",
    plan=v_min,
    bubble="by simulation; grows where f, b and w differ",
    memory="about P/3 + 1",
    most_chunks=v_min_chunks,
)

WHOLE = _on_v(
    name="1f1b-v",
    plan=one_f_one_b_v,
    needs="S = 2P, any M",
    bubble="by simulation",
    memory="about 2P/3 (2, 3, 6, 11 at P = 2, 4, 8, 16)",
    splits_backward=False,
    most_chunks=one_f_one_b_v_chunks,
)
