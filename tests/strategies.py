"""Random problems for hypothesis, and random plans that keep every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import strategies as st

from pipesched.pipeline.ops import parse_slot
from pipesched.pipeline.plan import Plan, plan_from_slots
from pipesched.pipeline.problem import Problem, make_problem
from pipesched.pipeline.quantities import exact
from pipesched.schedulers.block import Block, with_weights
from tests.replay import Op, device_of, inputs, name

LINEAR = ("auto", "linear")
LOOP = ("auto", "loop")
SETTLED = ("linear", "loop", "v", "wave", "bidirectional", "explicit")
ALL_PLACEMENTS = ("auto", *SETTLED)
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
    least: int = 0,
) -> Problem:
    """A problem without a budget. `least` is the smallest duration, `most_chunks` the most stages a device."""
    devices = draw(st.integers(1, most_devices))
    kind = draw(st.sampled_from(placements))
    chunks = draw(st.integers(1, most_chunks))
    stages, placement = _place(draw, kind, devices, chunks)
    times = amounts(least)
    given: dict[str, Any] = {"forward": one_or_list(draw, times, stages)}
    if draw(st.booleans()) if split is None else split:
        given["backward_input"] = one_or_list(draw, times, stages)
        given["backward_weight"] = one_or_list(draw, times, stages)
    elif draw(st.booleans()):
        given["backward"] = one_or_list(draw, times, stages)
    if overlap and draw(st.booleans()):
        given["overlap"] = one_or_list(draw, amounts(least, 20), stages)
    if draw(st.booleans()):
        given["activation"] = one_or_list(draw, amounts(0, 5), stages)
    return make_problem(
        devices=devices,
        stages=stages,
        microbatches=draw(st.integers(1, most_microbatches)),
        placement=placement,
        p2p=one_or_list(draw, amounts(0, 4), stages - 1),
        retain=one_or_list(draw, st.sampled_from([0, 1, Decimal("0.5"), Decimal("0.3")]), stages),
        static=one_or_list(draw, st.sampled_from([0, 1, Decimal("0.5")]), stages),
        **given,
    )


def _place(draw: st.DrawFn, kind: str, devices: int, chunks: int) -> tuple[int, Any]:
    """A number of stages that suits the placement of that kind, and what to write in the config."""
    if kind == "explicit":
        stages = devices + draw(st.integers(0, 3))
        extra = draw(st.lists(st.integers(0, devices - 1), min_size=stages - devices, max_size=stages - devices))
        return stages, draw(st.permutations([*range(devices), *extra]))
    if kind == "bidirectional":
        return devices, kind
    if kind == "v":
        return 2 * devices, kind
    if kind == "wave":
        return 2 * devices * min(chunks, 2), kind
    return devices * chunks, kind


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
        key: [exact(time) * problem.costs.scale for time in value] for key, value in given.items() if key != "period"
    }
    period = exact(given["period"]) * problem.costs.scale
    if "backward" in times:
        return problem, Block({"F": times["forward"], "B": times["backward"]}, period)
    if "backward_weight" not in times:
        return problem, with_weights(problem, times["forward"], times["backward_input"], period)
    return problem, Block(dict(zip("FIW", (times[key] for key in SPLIT), strict=True)), period)


def with_rooms(problem: Problem, rooms: Sequence[int]) -> Problem:
    """`problem` with a budget that leaves `rooms` (in grains) for activations, beside its static memory."""
    budget = tuple(room + _static(problem, device) for device, room in enumerate(rooms))
    return replace(problem, memory=replace(problem.memory, budget=budget))


def _static(problem: Problem, device: int) -> int:
    """Static memory of a device: both copies in a bidirectional pipeline, on an odd middle device twice the same."""
    home, last = problem.home(), problem.devices - 1
    copies = [home.devices, [last - there for there in home.devices]] if home.mirrored else [home.devices]
    return sum(
        size for homes in copies for size, there in zip(problem.memory.static, homes, strict=True) if there == device
    )


def stages_of(problem: Problem, device: int) -> list[int]:
    """The stages whose weights a device holds; in a bidirectional pipeline those of both directions."""
    home = problem.home()
    mirror = [problem.devices - 1 - there for there in home.devices] if home.mirrored else home.devices
    return [stage for stage in range(problem.stages) if device in (home.devices[stage], mirror[stage])]


def random_plan(problem: Problem, random: Random, *, split: float = 0, pair: float = 0) -> list[list[str]]:
    """A plan that keeps every rule and can run, as texts: any ready operation next, again and again.

    `split` is the share of backwards that run as I and W, `pair` the chance that an F and a B that are ready on the
    same device run together.
    """
    waiting: set[Op] = set()
    for stage in range(problem.stages):
        for mb in range(problem.microbatches):
            kinds = "FIW" if random.random() < split else "FB"
            waiting |= {Op(stage, kind, mb) for kind in kinds}
    done: set[Op] = set()
    plan: list[list[str]] = [[] for _ in range(problem.devices)]
    while waiting:
        ready = sorted(op for op in waiting if all(one & done for one, _ in inputs(problem, op)))
        op = random.choice(ready)
        device = device_of(problem, op.stage, op.microbatch)
        run = [op, *_partner(problem, random, op, device, ready)] if random.random() < pair else [op]
        forward_first = sorted(run, key=lambda one: one.kind, reverse=True)
        texts = [name(one) for one in forward_first]
        plan[device].append(texts[0] if len(texts) == 1 else f"({texts[0]};{texts[1]})OVERLAP_F_B")
        waiting -= set(run)
        done |= set(run)
    return plan


def _partner(problem: Problem, random: Random, op: Op, device: int, ready: list[Op]) -> list[Op]:
    """A ready operation on the same device that makes a pair with `op`, if there is one."""
    other = {"F": "B", "B": "F"}.get(op.kind)
    fitting = [one for one in ready if one.kind == other and device_of(problem, *one[::2]) == device]
    return [random.choice(fitting)] if fitting else []


def plan_of(problem: Problem, texts: Sequence[Sequence[str]]) -> Plan:
    """The plan that these texts spell."""
    slots = [[parse_slot(text) for text in row] for row in texts]
    return plan_from_slots(slots, problem.stages, problem.microbatches)


def texts_of(plan: Plan) -> list[list[str]]:
    """The texts of a plan, device by device."""
    return [[str(slot) for slot in plan.slots(device)] for device in range(len(plan.orders))]
