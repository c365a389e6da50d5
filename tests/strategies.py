"""Random problems for hypothesis, and random plans that keep every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pipesched import Plan, Problem, make_problem
from pipesched.hls.graph import DataflowGraph, Delay, Dependence, Operation
from pipesched.hls.schedule import Units, make_units
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.plan.plan import plan_from_slots
from pipesched.pipeline.problem.ops import parse_op, parse_slot, parse_transfer
from pipesched.pipeline.problem.quantities import exact, grains_per_unit, whole
from pipesched.schedulers.block import Block, with_weights
from pipesched.schedulers.family import prepare
from pipesched.schedulers.registry import family
from tests.oracle.alike import Op, name, setup_of
from tests.oracle.drawn import step_configs
from tests.oracle.replay import needs
from tests.oracle.setup import Setup

LINEAR = ("auto", "linear")
LOOP = ("auto", "loop")
SETTLED = ("linear", "loop", "v", "wave", "bidirectional", "two-v", "two-lists", "explicit")
ALL_PLACEMENTS = ("auto", *SETTLED)
KINDS = {"linear": LINEAR, "loop": LOOP, "any": ALL_PLACEMENTS}
SPLIT = ("forward", "backward_input", "backward_weight")


def amounts(least: int = 0, most: int = 9) -> st.SearchStrategy[int | Decimal]:
    """A number as users write it: whole, or with a few decimals."""
    return st.one_of(
        st.integers(least, most),
        st.decimals(least, most, places=1, allow_nan=False, allow_infinity=False),
        st.sampled_from([Decimal("0.25"), Decimal("2.75")] if not least else [Decimal("1.25")]),
    )


def one_or_list(draw: st.DrawFn, each: st.SearchStrategy[Any], count: int) -> Any:
    """A number for all, or one for each of `count`."""
    if draw(st.booleans()):
        return draw(each)
    return draw(st.lists(each, min_size=count, max_size=count))


speeds = st.sampled_from([1, 2, Decimal("0.5"), Decimal("0.8"), Decimal("0.7"), 3])  # of devices


@st.composite
def problems(
    draw: st.DrawFn,
    placements: Sequence[str] = LINEAR,
    *,
    most_devices: int = 4,
    most_microbatches: int = 6,
    most_chunks: int = 3,
    split: bool | None = None,
    overlap: bool = False,
    saving: bool = False,
    least: int = 0,
    unlike: bool = False,
    both: bool = False,
) -> Problem:
    """A problem without a budget. `least` is the smallest duration, `most_chunks` the most stages a device; `both`
    gives the whole backward beside its halves; `saving` adds what offload and recompute cost, `unlike` devices of other
    speeds and links between them."""
    devices = draw(st.integers(1, most_devices))
    kind = draw(st.sampled_from(placements))
    chunks = draw(st.integers(1, most_chunks))
    stages, placement = _place(draw, kind, devices, chunks)
    times = amounts(least)
    given: dict[str, Any] = {"forward": one_or_list(draw, times, stages)}
    if both:
        given["backward"] = one_or_list(draw, times, stages)
    if both or (draw(st.booleans()) if split is None else split):
        given["backward_input"] = one_or_list(draw, times, stages)
        given["backward_weight"] = one_or_list(draw, times, stages)
    elif draw(st.booleans()):
        given["backward"] = one_or_list(draw, times, stages)
    if overlap and draw(st.booleans()):
        given["overlap"] = one_or_list(draw, amounts(least, 20), stages)
    if saving:
        given["offload"] = one_or_list(draw, times, stages)
        given |= {key: one_or_list(draw, times, stages) for key in ("recompute", "reload") if draw(st.booleans())}
        given["checkpoint"] = one_or_list(draw, st.sampled_from([0, 1, Decimal("0.5"), Decimal("0.1")]), stages)
    if draw(st.booleans()):
        given["activation"] = one_or_list(draw, amounts(0, 5), stages)
    if unlike and draw(st.booleans()):
        given["speed"] = draw(st.lists(speeds, min_size=devices, max_size=devices))
    if unlike and draw(st.booleans()):
        row = st.lists(amounts(0, 4), min_size=devices, max_size=devices)
        rows = draw(st.lists(row, min_size=devices, max_size=devices))
        given["links"] = [
            [0 if here == there else rows[here][there] for there in range(devices)] for here in range(devices)
        ]
    return make_problem(
        devices=devices,
        stages=stages,
        microbatches=draw(st.integers(1, most_microbatches)),
        placement=placement,
        p2p=one_or_list(draw, amounts(0, 4), stages - 1),
        retain=one_or_list(draw, st.sampled_from([0, 1, Decimal("0.5"), Decimal("0.3"), Decimal("1.5"), 3]), stages),
        static=one_or_list(draw, st.sampled_from([0, 1, Decimal("0.5")]), stages),
        **given,
    )


def _place(draw: st.DrawFn, kind: str, devices: int, chunks: int) -> tuple[int, Any]:
    """A number of stages that suits the placement of that kind, and what to write in the config.

    `two-v` and `two-lists` are two copies, each a V, or each on the devices of a list.
    """
    if kind == "explicit":
        stages = devices + draw(st.integers(0, 3))
        extra = draw(st.lists(st.integers(0, devices - 1), min_size=stages - devices, max_size=stages - devices))
        return stages, draw(st.permutations([*range(devices), *extra]))
    if kind == "bidirectional":
        return devices, kind
    if kind == "two-lists":
        stages, first = _place(draw, "explicit", devices, 1)
        return stages, [first, [devices - 1 - device for device in first]]
    if kind in ("v", "two-v"):
        return 2 * devices, "v" if kind == "v" else "bidirectional"
    if kind == "wave":
        return 2 * devices * min(chunks, 2), kind
    return devices * chunks, kind


def whole_steps(most_microbatches: int = 3) -> st.SearchStrategy[Problem]:
    """The problem of a random step."""
    return step_configs(most_microbatches=most_microbatches).map(lambda config: make_problem(**config))


def placements_of(name: str) -> tuple[str, ...]:
    """The placements with which a problem suits a family."""
    kind = family(name).placement
    both = ("auto", "bidirectional") if family(name).chunks == 1 else ("two-v",)
    return both if kind == "bidirectional" else KINDS.get(kind, (kind,))


@st.composite
def starts(draw: st.DrawFn, stages: int) -> dict[str, Any]:
    """A building block as a config spells it: starts that keep the order of a microbatch, often equal, and a period."""
    clock: int | Decimal = 0

    def later() -> int | Decimal:
        nonlocal clock
        clock += draw(amounts(0, 4))
        return clock

    forward = [later() for _ in range(stages)]
    backward = [later() for _ in range(stages)][::-1]
    block: dict[str, Any] = {"period": draw(amounts(1, 9)), "forward": forward}
    if draw(st.booleans()):
        return {**block, "backward": backward}
    if draw(st.booleans()):
        block["backward_weight"] = [start + draw(amounts(0, 9)) for start in backward]
    return {**block, "backward_input": backward}


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Problem, Block]:
    """A problem of any placement, and a building block for it that has all its operations."""
    problem = draw(problems(("linear", "loop", "v", "wave", "explicit"), most_microbatches=8))
    given = draw(starts(problem.stages))
    times = {
        key: [exact(time) * problem.ticks.per_unit for time in value] for key, value in given.items() if key != "period"
    }
    ticks = exact(given["period"]) * problem.ticks.per_unit
    parts = grains_per_unit([ticks, *chain(*times.values())])
    starts_of, period = {key: whole(value, parts) for key, value in times.items()}, int(ticks * parts)
    if "backward" in times:
        return problem, Block({"F": starts_of["forward"], "B": starts_of["backward"]}, period, parts)
    if "backward_weight" not in times:
        return problem, with_weights(problem, starts_of["forward"], starts_of["backward_input"], period, parts)
    return problem, Block(dict(zip("FIW", (starts_of[key] for key in SPLIT), strict=True)), period, parts)


def with_capacities(problem: Problem, capacities: Sequence[int]) -> Problem:
    """`problem` with a budget that leaves `capacities` (in grains) for activations, beside its static memory.

    A budget is more than 0: what would leave nothing at all, or less, is half a grain, which holds as little.
    """
    grains = [capacity + _static(problem, device) for device, capacity in enumerate(capacities)]
    budget = tuple(Fraction(max(2 * amount, 1), 2 * problem.grains.per_unit) for amount in grains)
    return replace(problem, memory=replace(problem.memory, budget=budget))


@st.composite
def limited(draw: st.DrawFn, most_microbatches: int = 9) -> Problem:
    """A problem as zb-auto runs it, with capacities between the floor and 2P activations."""
    free = draw(problems(most_devices=5, most_microbatches=most_microbatches, most_chunks=2))
    problem = prepare(free, family("zb-auto"))
    most = 2 * problem.devices * max(problem.grains.largest["activation"]) + max(problem.grains.largest["caught"])
    split = replace(problem, costs=replace(problem.costs, split=True))
    floors = [least_capacity(split, device) for device in range(problem.devices)]
    return with_capacities(problem, [draw(st.integers(least, max(least, most))) for least in floors])


def _static(problem: Problem, device: int) -> int:
    """Static memory of a device: both copies in a bidirectional pipeline, on an odd middle device twice the same."""
    placement, last = problem.settled_placement, problem.devices - 1
    copies = (
        [placement.devices, [last - there for there in placement.devices]]
        if placement.mirrored
        else [placement.devices]
    )
    return sum(
        size
        for devices_of_stages in copies
        for size, there in zip(problem.grains.static, devices_of_stages, strict=True)
        if there == device
    )


def stages_of(problem: Problem, device: int) -> list[int]:
    """The stages whose weights a device holds; in a bidirectional pipeline those of both directions."""
    placement = problem.settled_placement
    mirror = [problem.devices - 1 - there for there in placement.devices] if placement.mirrored else placement.devices
    return [stage for stage in range(problem.stages) if device in (placement.devices[stage], mirror[stage])]


def random_plan(problem: Problem, random: Random, *, split: float = 0, pair: float = 0) -> list[list[str]]:
    """A plan that keeps every rule and can run, as texts: any ready operation next, again and again.

    `split` is the share of backwards that run as I and W, `pair` the chance that an F and a B that are ready on the
    same device run together.
    """
    return random_saving_plan(problem, random, split=split, pair=pair, recompute=0, offload=0).devices


class Texts(NamedTuple):
    """A plan as texts: devices, lanes (out and back of the first, out and back of the second, ...) and wait edges."""

    devices: list[list[str]]
    lanes: list[list[str]]
    waits: list[tuple[str, str]]


def random_saving_plan(
    problem: Problem, random: Random, *, split: float, pair: float, recompute: float, offload: float, wait: float = 0
) -> Texts:
    """As random_plan; `recompute` and `offload` are the chances of each activation, `wait` those of wait edges."""
    setup, waiting = setup_of(problem), _operations(problem, random, split, recompute, offload)
    planned, done = frozenset(waiting), set[Op]()
    lanes = 2 * problem.devices
    plan = Texts([[] for _ in range(problem.devices)], [[] for _ in range(lanes if offload else 0)], [])
    run_before: list[Op] = []
    while waiting:
        ready = sorted(op for op in waiting if done.issuperset(needs(setup, op, planned)))
        op = random.choice(ready)
        device = setup.device(op.stage, op.microbatch)
        run = [op, *_partner(setup, random, op, device, ready)] if random.random() < pair else [op]
        texts = [name(one) for one in sorted(run, key=lambda one: one.kind, reverse=True)]
        row = plan.devices[device]
        if op.kind in "OL":
            row = plan.lanes[2 * device + "OL".index(op.kind)]
        row.append(texts[0] if len(texts) == 1 else f"({texts[0]};{texts[1]})OVERLAP_F_B")
        if run_before and random.random() < wait:
            plan.waits.append((name(random.choice(run_before)), texts[0]))
        waiting -= set(run)
        done |= set(run)
        run_before += run
    return plan


def _operations(problem: Problem, random: Random, split: float, recompute: float, offload: float) -> set[Op]:
    """The operations of a random plan."""
    ops: set[Op] = set()
    for stage in range(problem.stages):
        for mb in range(problem.microbatches):
            kinds = "FIW" if random.random() < split else "FB"
            if random.random() < recompute:
                kinds += "R"
            elif random.random() < offload:
                kinds += "OL"
            ops |= {Op(stage, kind, mb) for kind in kinds}
    return ops


def _partner(setup: Setup, random: Random, op: Op, device: int, ready: list[Op]) -> list[Op]:
    """A ready operation on the same device that makes a pair with `op`, if there is one."""
    other = {"F": "B", "B": "F"}.get(op.kind)
    fitting = [one for one in ready if one.kind == other and setup.device(*one[::2]) == device]
    return [random.choice(fitting)] if fitting else []


def plan_of(problem: Problem, texts: Sequence[Sequence[str]]) -> Plan:
    """The plan that these texts spell."""
    slots = [[parse_slot(text) for text in row] for row in texts]
    return plan_from_slots(slots, problem.stages, problem.microbatches)


def saving_plan_of(problem: Problem, texts: Texts) -> Plan:
    """The same for a plan with lanes and wait edges."""
    slots = [[parse_slot(text) for text in row] for row in texts.devices]
    moves = [[parse_transfer(text) for text in row] for row in texts.lanes]
    lanes = [offloads + loads for offloads, loads in zip(moves[::2], moves[1::2], strict=True)]
    plan = plan_from_slots(slots, problem.stages, problem.microbatches, lanes)
    number = plan.index.number
    return replace(plan, waits=[(number(parse_op(one)), number(parse_op(other))) for one, other in texts.waits])


def texts_of(plan: Plan) -> list[list[str]]:
    """The texts of a plan, device by device."""
    return [[str(slot) for slot in plan.slots(device)] for device in range(len(plan.orders))]


@st.composite
def dataflows(draw: st.DrawFn, *, least: int = 1, most: int = 8, loop: bool = False) -> DataflowGraph:
    """A random dataflow graph of additions, subtractions and multiplications.

    A loop also feeds results back, and needs inputs of earlier iterations.
    """
    size = draw(st.integers(least, most))
    types = draw(st.lists(st.sampled_from(["add", "sub", "mul"]), min_size=size, max_size=size))
    edges = {
        Dependence(before, after)
        for after in range(1, size)
        for before in draw(st.sets(st.integers(0, after - 1), max_size=2))
    }
    delays: set[Delay] = set()
    if loop:
        tasks = st.integers(0, size - 1)
        edges |= draw(st.sets(st.builds(Dependence, tasks, tasks, st.integers(1, 2)), max_size=3))
        delay = st.builds(Delay, st.sampled_from("xz"), tasks, st.integers(1, 3))
        delays = draw(st.sets(delay, max_size=3))
    operations = tuple(Operation(f"op{n}", type_) for n, type_ in enumerate(types))
    return DataflowGraph(operations, tuple(sorted(edges)), "drawn", delays=tuple(sorted(delays)))


@st.composite
def unit_sets(draw: st.DrawFn, *, most: int = 3, longest: int = 3) -> Units:
    """Adders and multipliers, of up to `longest` cycles, some of them pipelined."""
    counts = {name: draw(st.integers(1, most)) for name in ("add", "mul")}
    latencies = {name: draw(st.integers(1, longest)) for name in counts}
    return make_units(counts, latencies, draw(st.sets(st.sampled_from(["add", "mul"]))))
