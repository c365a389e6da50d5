"""Zero Bubble (Qi et al. 2024): weight gradients run where devices would idle; and V schedules by building blocks.

Each function stands before its `Family`; f, b and w are the times of F, I and W, P is the number of devices.

The handcrafted schedules are ZB-H1 and ZB-H2. Of n slices a microbatch they warm up with n-1 forwards more, and
backwards begin with the last slice, as in Seq1F1B. `zb-auto` suits any costs under a memory limit: the best of many
greedy schedules, then a local search. At P activations it is about ZB-H1 (the paper's ZB-1p), at 2P the span has nearly
no bubble (ZB-2p), and below P the bubble grows.

ZB-V, V-Half, V-Min and 1F1B-V have two stages a device on a V. ZB-V splits the backward and has no bubble in the span
where f = b = w, at 1F1B's memory. V-Half holds half of that for some bubble, V-Min, where a microbatch never waits,
about a third. 1F1B-V has full backwards, at about two thirds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import NamedTuple

from pipesched.core.arrays import ceil_div, column, in_range, kernels_for, lists, np
from pipesched.core.clock import check_deadline
from pipesched.pipeline.bounds.memory import require_least_capacity
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.block import (
    Block,
    Design,
    Waits,
    best_of,
    costing,
    of_the_mean,
    published_peak,
    v_blocks,
    works,
)
from pipesched.schedulers.family import Binding, Family
from pipesched.schedulers.one_f_one_b import SPLITTING, alternating
from pipesched.schedulers.plan_of import last_slice_first
from pipesched.schedulers.trials import Effort, Orders, Trials, trials

_linear = partial(
    Family,
    placement="linear",
    needs="any M; slices; splits the backward",
    paper="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="the authors' Megatron fork",
    settled_order=True,
    splits_backward=True,
    slices=True,
)
H1 = _linear(
    name="zb-h1",
    plan=Binding(alternating, rule=SPLITTING),
    bubble="(P-1)(f+b-w) idle when w <= f, b",
    memory="min(M, P); n slices: min(nM, P-1+n)/n",
)
H2 = _linear(
    name="zb-h2",
    plan=Binding(alternating, rule=SPLITTING._replace(step=2, delay=2)),
    bubble="in span max(0, (P-1)(f+b-2w)) idle when w <= f",
    memory="min(M, 2P-1); n slices: min(nM, 2P-2+n)/n",
)

KINDS = "FIW"
AT_ONCE = 200_000  # looks at devices between two looks at the clock


class Switches(NamedTuple):
    """The settings of the greedy scheduler.

    A patience is in halves of an operation's length: the operation is not started when what comes next is known to
    come sooner than that. 0 never waits, 2 never delays what comes next.
    """

    in_flight: Sequence[int]  # the most forwards without their I, per device
    alternate: bool  # F and I in turn where both could run; else I first
    first_patience: int  # of a forward, before the first I
    patience: int  # of a forward, later
    weight_patience: int


def greedy_orders(problem: Problem, capacities: Sequence[int], switches: Switches) -> list[list[int]]:
    """Return the order of each device, as numbers of OpIndex("FIW", ...).

    `capacities` holds what activations may take of each device, in grains. There is no deadlock when every capacity
    holds one activation and what its I takes: the oldest unfinished microbatch can always go on. O(operations x log
    devices).
    """
    mean, largest, devices, count = problem.ticks.mean, problem.grains.largest, problem.devices, problem.microbatches
    times = column([*mean["forward"], *mean["backward_input"], *mean["backward_weight"]])
    size, kept = largest["activation"], largest["retained"]
    left = [whole - part for whole, part in zip(size, kept, strict=True)]
    changes = column([*(-whole for whole in size), *left, *kept])
    latest = (sum(map(int, times)) + sum(mean["p2p"]) + sum(mean["p2p_back"])) * (count + 1) * devices  # of a look
    rooms = column([*capacities])
    fixed = (
        in_range(times, 4 * latest),
        changes,
        *map(column, (size, largest["caught"], mean["p2p"], mean["p2p_back"])),
    )
    kernels, _, give = kernels_for(*fixed, rooms)
    counts = [0] * (3 * devices) + [count] + [0] * (2 * devices - 1)  # all inputs of the first device are there
    columns = (column(switches.in_flight), *fixed, rooms.copy(), column(counts))
    given = [*map(give, columns)]
    sizes = ((6 * count + 2) * devices, devices, devices, devices * count, devices * count, 3 * count * devices)
    heap, *state = (give(np.zeros(number, int)) for number in sizes)
    patience, looks = (int(switches.alternate), *switches[2:]), 1
    while looks:
        check_deadline()
        looks = kernels.greedy(AT_ONCE, looks, heap, *patience, count, *given, *state)
    done = np.array(lists(given[-1])[: 3 * devices]).reshape(3, devices).sum(axis=0).tolist()
    listed = lists(state[-1])
    return [listed[3 * count * device :][: done[device]] for device in range(devices)]


MOST_PLANNED = 300_000  # operations in all greedy schedules together: about half a second
EFFORT = Effort(operations=300_000, rounds=400, slack=50)


def zb_auto(problem: Problem, *, objective: str = "span") -> Plan:
    """Improve the best, by `objective` (span or makespan), of the handcrafted schedules that fit and of greedy ones.

    The limit is the budget; without one, 2P activations of the largest stage, beside what an I takes. Raises NoSchedule
    when the budget holds no microbatch.
    """
    require_least_capacity(replace(problem, costs=replace(problem.costs, split=True)))
    largest = problem.grains.largest
    enough = 2 * problem.devices * max(largest["activation"]) + max(largest["caught"])
    capacities = [enough if capacity is None else capacity for capacity in problem.capacity_grains]
    case = trials(problem, KINDS, capacities, objective)
    return case.improved(case.best(_candidates(case)), EFFORT)


def _candidates(case: Trials) -> Iterator[Orders]:
    """Yield the handcrafted orders that fit, and as many greedy ones as MOST_PLANNED operations allow."""
    depths = ((1, 1), (2, 2), (1, 0))  # ZB-H1, ZB-H2, and 1F1B with each backward in two halves
    rules = (SPLITTING._replace(step=warm_up, delay=delay) for warm_up, delay in depths)
    drawn = [alternating(case.problem, rule=rule).orders for rule in rules]
    yield from (orders for orders in drawn if case.fits(case.timed(orders)))
    devices, count = case.problem.devices, case.problem.microbatches
    size = case.problem.grains.largest["activation"][0]
    held = case.capacities[0] // size if size else count
    flights = (
        [count] * devices,
        [ceil_div(held * (devices - device), devices) for device in range(devices)],  # falls with the device, as 1F1B's
        [2 * (devices - device) - 1 for device in range(devices)],
    )
    settings = product(((2, 0), (0, 0), (1, 1)), flights, (2, 0, 1), (True, False))  # those that win most often first
    tried = islice(settings, max(MOST_PLANNED // case.index.size, 2))
    for patience, flight, weight_patience, alternate in tried:
        switches = Switches(flight, alternate, *patience, weight_patience)
        yield greedy_orders(case.problem, case.capacities, switches)


AUTO = Family(
    name="zb-auto",
    plan=zb_auto,
    placement="linear",
    needs="any M; splits the backward; obeys the budget",
    bubble="by simulation; at 2P nearly none in span",
    memory="at most the budget; 2P without one",
    paper="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="the authors' Megatron fork, by another greedy",
    options=("objective",),
    obeys_budget=True,
    splits_backward=True,
    is_slow=True,
    looks_at_each=True,
)

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
    return best_of(problem, designs, published_peak(problem, half_waits), objective)


def half_waits(problem: Problem) -> Waits:
    """Return the published waits of V-Half."""
    return Waits(1, 0, 1, 0, top=3 if problem.devices % 2 == 0 else 0, backward_bottom=1)


@of_the_mean
def v_min(problem: Problem, *, objective: str = "span") -> Plan:
    """Let no microbatch wait; but two operations at the top of the V where 3 divides P and operations would collide."""
    return best_of(problem, v_blocks(problem, least_waits(problem)), published_peak(problem, least_waits), objective)


def least_waits(problem: Problem) -> Waits:
    """Return the published waits of V-Min."""
    return Waits(0, 0, 0, 0, top=2 if problem.devices % 3 == 0 else 0)


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
    stages, period = problem.stages, max(1, *works(problem))
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
    most_chunks=Binding(published_peak, waits=half_waits),
)

LEAST = _on_v(
    name="v-min",
    plan=v_min,
    bubble="by simulation; grows where f, b and w differ",
    memory="about P/3 + 1",
    most_chunks=Binding(published_peak, waits=least_waits),
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
