"""Zero Bubble (Qi et al. 2024): weight gradients run where devices would idle.

The handcrafted schedules are ZB-H1 and ZB-H2. Of n slices a microbatch they warm up with n-1 forwards more, and
backwards begin with the last slice, as in Seq1F1B. `zb-auto` suits any costs under a memory limit: the best of many
greedy schedules, then a local search. At P activations it is about ZB-H1 (the paper's ZB-1p), at 2P the span has nearly
no bubble (ZB-2p), and below P the bubble grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import NamedTuple

from pipesched.core.arrays import Kernels, ceil_div, column, in_range, lists, np
from pipesched.core.clock import look
from pipesched.pipeline.bounds.capacity import require_least_capacity
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import last_slice_first, split_one_forward_one_backward
from pipesched.schedulers.trials import Effort, Orders, Trials, trials


def zb_h1(problem: Problem) -> Plan:
    """Run min(nM, P-d-2+n) warm-up forwards of n slices, and each W d backwards after its I: 1F1B's memory."""
    return _plan(problem, depth=1)


def zb_h2(problem: Problem) -> Plan:
    """Run min(nM, 2(P-d-1)+n-1) warm-up forwards, and each W 2d backwards after its I: about twice 1F1B's memory."""
    return _plan(problem, depth=2)


def _plan(problem: Problem, depth: int) -> Plan:
    index = OpIndex("FIW", problem.stages, problem.microbatches, problem.slices.count)
    return Plan(index, handcrafted(index, warm_up=depth, delay=depth))


def handcrafted(index: OpIndex, warm_up: int, delay: int) -> list[list[int]]:
    """Return the orders of one stage a device with warm_up * (P-d-1) forwards, and each W delay * d backwards after I.

    With slices there is a forward more first for each but one. Without delay this is 1F1B with each backward in halves.
    """
    last, orders = index.stages - 1, []
    for device in range(index.stages):
        inputs, weights = (last_slice_first(index, index.row(kind, device)) for kind in "IW")
        forwards_first, weights_later = warm_up * (last - device) + index.slices - 1, delay * device
        forwards = index.row("F", device)
        orders.append(split_one_forward_one_backward(forwards, inputs, weights, forwards_first, weights_later))
    return orders


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
    name="zb-h1", plan=zb_h1, bubble="(P-1)(f+b-w) idle when w <= f, b", memory="min(M, P); n slices: min(nM, P-1+n)/n"
)
H2 = _linear(
    name="zb-h2",
    plan=zb_h2,
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
    kernels = Kernels(*fixed, rooms)
    counts = [0] * (3 * devices) + [count] + [0] * (2 * devices - 1)  # all inputs of the first device are there
    columns = (column(switches.in_flight), *fixed, rooms.copy(), column(counts))
    given = [*map(kernels.give, columns)]
    heap = kernels.blank((6 * count + 2) * devices)
    state = [kernels.blank(number) for number in (devices, devices, devices * count, devices * count)]
    order, looks = kernels.blank(3 * count * devices), 1
    patience = (int(switches.alternate), *switches[2:])
    while looks:
        look()
        looks = kernels.run.greedy(AT_ONCE, looks, heap, *patience, count, *given, *state, order)
    done = np.array(lists(given[-1])[: 3 * devices]).reshape(3, devices).sum(axis=0).tolist()
    listed = lists(order)
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
    drawn = [handcrafted(case.index, *depth) for depth in depths]
    yield from (orders for orders in drawn if case.fits(case.timed(orders)))
    count = max(MOST_PLANNED // case.index.size, 2)
    for switches in islice(_switches(case), count):
        yield greedy_orders(case.problem, case.capacities, switches)


def _switches(case: Trials) -> Iterator[Switches]:
    """Yield every setting of the greedy, those that win most often first."""
    devices, count = case.problem.devices, case.problem.microbatches
    size = case.problem.grains.largest["activation"][0]
    held = case.capacities[0] // size if size else count
    flights = (
        [count] * devices,
        [ceil_div(held * (devices - device), devices) for device in range(devices)],  # falls with the device, as 1F1B's
        [2 * (devices - device) - 1 for device in range(devices)],
    )
    for patience, flight, weight_patience, alternate in product(
        ((2, 0), (0, 0), (1, 1)), flights, (2, 0, 1), (True, False)
    ):
        yield Switches(flight, alternate, *patience, weight_patience)


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
