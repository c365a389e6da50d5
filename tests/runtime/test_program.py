"""Lists of ranks: none waits for ever, even where sends block until they are received; the order that plans ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest

import pipesched
from pipesched import Schedule
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.runtime.program import RECEIVE, RUN, SEND, ProgramStep, programs
from pipesched.schedulers.registry import FAMILIES
from tests.examples import at_night_but
from tests.runtime.random_plans import made, random_schedule
from tests.solved import solved


def hangs(lists: Sequence[Sequence[ProgramStep]]) -> list[ProgramStep]:
    """Where each rank stops for ever if a send and its receive happen together or not at all; empty if none does."""
    place = [0] * len(lists)
    is_moving = True
    while is_moving:
        is_moving = False
        for rank, steps in enumerate(lists):
            while place[rank] < len(steps):
                step = steps[place[rank]]
                if step.action != RUN:
                    other = lists[step.peer]
                    there = other[place[step.peer]] if place[step.peer] < len(other) else None
                    match = {SEND: RECEIVE, RECEIVE: SEND}[step.action]
                    if there is None or (there.action, there.op, there.peer) != (match, step.op, rank):
                        break
                    place[step.peer] += 1
                place[rank] += 1
                is_moving = True
    return [steps[place[rank]] for rank, steps in enumerate(lists) if place[rank] < len(steps)]


def assert_runs(schedule: Schedule) -> None:
    """No rank hangs; each runs its slots in the order of the plan, and uses what it has received or made."""
    lists = programs(schedule)
    assert hangs(lists) == []
    index, placement = schedule.plan.index, schedule.problem.settled_placement
    for device, steps in enumerate(lists):
        ran = [str(step.op) for step in steps if step.action == RUN and not KINDS[step.op.kind].is_transfer]
        texts = [str(slot) for slot in schedule.plan.slots(device)]
        assert ran == ",".join(texts).replace("(", "").replace(")OVERLAP_F_B", "").replace(";", ",").split(",")
        for step in steps:
            if step.action == SEND:
                assert step.peer != placement.device(step.op.stage, step.op.microbatch, index.microbatches)
        assert_inputs_are_there(steps, schedule)
    assert sum(step.action == RUN for steps in lists for step in steps) == len(schedule.plan)


def assert_inputs_are_there(steps: Sequence[ProgramStep], schedule: Schedule) -> None:
    """What a rank uses or sends it has made or received before."""
    index = schedule.plan.index
    there = {step.op: place for place, step in enumerate(steps) if step.action != SEND}
    for place, step in enumerate(steps):
        needs = KINDS[step.op.kind].needs if step.action == RUN else ()
        others = [need for need in needs if need.letter in index.letters and not need.slice]
        before = [(need.letter, step.op.stage + need.stage) for need in others]
        inputs = [pipesched.Op(s, letter, step.op.microbatch) for letter, s in before if 0 <= s < index.stages]
        for op in [*inputs, *([step.op] if step.action == SEND else [])]:
            assert there.get(op, -1) < place
            assert op in there or op.kind != "F"


HUNDREDS = [range(start, start + 100) for start in range(0, 1000, 100)]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", at_night_but(HUNDREDS[:1], HUNDREDS))
def test_random_plans(seeds: range) -> None:
    """A thousand random legal plans, a quarter of them bidirectional."""
    for seed in seeds:
        assert_runs(random_schedule(seed))


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("algorithm", FAMILIES)
def test_every_family(algorithm: str, devices: int) -> None:
    assert_runs(made(algorithm, devices).schedule)


def test_receives_just_before_their_use_hang() -> None:
    """The simulator finds what is wrong: with each receive moved to just before its use, most plans hang."""
    hanging = 0
    for seed in range(100):
        lists = programs(random_schedule(seed))
        hanging += bool(hangs([_late(steps) for steps in lists]))
    assert hanging > 20


def _late(steps: Sequence[ProgramStep]) -> list[ProgramStep]:
    """The list with its receives moved to the operation that needs them."""
    waiting = {step.op: step for step in steps if step.action == RECEIVE}
    late: list[ProgramStep] = []
    for step in steps:
        if step.action == RUN:
            for need in KINDS[step.op.kind].needs:
                source = step.op.stage + need.stage
                if source >= 0 and (found := waiting.pop(pipesched.Op(source, need.letter, step.op.microbatch), None)):
                    late.append(found)
        if step.action != RECEIVE:
            late.append(step)
    return late


def test_transfers_stand_behind_what_they_wait_for() -> None:
    """Each load stands directly behind the last of its offload, the load before it and its wait edges."""
    problem = pipesched.make_problem(
        devices=4, stages=4, microbatches=6, forward=1, backward=2, activation=1, offload=1, budget=2,
        placement="linear",
    )  # fmt: skip
    schedule = solved("four-devices-offload", problem, offload=True, time_limit=3).schedule
    index = schedule.plan.index
    for device, steps in enumerate(programs(schedule)):
        place = {step.op: number for number, step in enumerate(steps) if step.action == RUN}
        loads = schedule.plan.lanes[device].reloads
        for number, load in enumerate(loads):
            before = [index.counterpart(load, "O"), *loads[max(number - 1, 0) : number]]
            before += [first for first, second in schedule.plan.waits if second == load]
            last = max(place[index.op(one)] for one in before)
            between = steps[last + 1 : place[index.op(load)]]
            assert all(step.action == SEND or KINDS[step.op.kind].is_transfer for step in between)


def test_operations_wait_for_no_more_offloads_than_have_ended() -> None:
    """In the plan: three forwards run beside the first offload; each load begins at once behind what has ended then."""
    problem = pipesched.make_problem(devices=1, microbatches=6, forward=38, backward=88, activation=1, offload=39)
    steps = programs(pipesched.run(problem, "naive", offload="full").schedule)[0]
    counts = {kind: [step.offloads for step in steps if step.op.kind == kind] for kind in "FOLB"}
    assert counts == {"F": [0, 0, 0, 1, 2, 3], "O": [0] * 6, "L": [3, 4, 6, 6, 6, 6], "B": [0] * 6}


def test_operations_wait_for_the_offloads_that_they_name() -> None:
    """By its number among those of its rank, whichever lane it is on."""
    waited = 0
    for seed in range(100):
        schedule = random_schedule(seed)
        index, paired = schedule.plan.index, {*schedule.plan.pairs, *schedule.plan.pairs.values()}
        for steps in programs(schedule):
            offloads = [step.op for step in steps if step.op.kind == "O"]
            for step in steps:
                if step.action == RUN and index.number(step.op) not in paired:
                    named = [index.op(first) for first, second in schedule.plan.waits if index.op(second) == step.op]
                    assert {op for op in named if op in offloads} <= {*offloads[: step.offloads]}
                    waited += any(op in offloads for op in named)
    assert waited > 10


@pytest.mark.parametrize("algorithm", ["naive", "1f1b", "interleaved"])
def test_a_list_holds_no_more_than_its_plan(algorithm: str) -> None:
    """Where copies end at once, as on a CPU, and where what leaves stays until an operation waits for its copy."""
    stages = 8 if algorithm == "interleaved" else 4
    for offload in ("full", 1):
        problem = pipesched.make_problem(
            devices=4, stages=stages, microbatches=8, forward=2, backward=4, activation=1, offload=3
        )
        schedule = pipesched.run(problem, algorithm, offload=offload).schedule
        for device, steps in enumerate(programs(schedule)):
            ran = [step for step in steps if step.action == RUN]
            changes = [{"F": 1, "L": 1, "O": -1, "B": -1}[step.op.kind] for step in ran]
            assert max(accumulate(changes)) <= schedule.peak_memory[device]
            assert most_held(ran) <= schedule.peak_memory[device]


def most_held(ran: Sequence[ProgramStep]) -> int:
    """The most activations that a rank holds, where those that leave do until an operation waits for their copies."""
    held = most = begun = ended = 0
    for step in ran:
        gone = max(0, min(step.offloads, begun) - ended)
        held, ended = held - gone, ended + gone
        held += step.op.kind in "FL"
        begun += step.op.kind == "O"
        most = max(most, held)
        held -= step.op.kind == "B"
    return most


def test_a_document_without_waits_has_those_of_its_times() -> None:
    """Without wait edges a load would come back at once; they follow from the times, and the lists are the same."""
    from dataclasses import replace

    problem = pipesched.make_problem(
        devices=2, stages=2, microbatches=6, forward=1, backward=2, activation=1, offload=1, budget=1,
        placement="linear",
    )  # fmt: skip
    schedule = solved("two-devices-offload", problem, offload=True, time_limit=3).schedule
    bare = Schedule(schedule.problem, replace(schedule.plan, waits=()), schedule.start_ticks, schedule.end_ticks)
    assert schedule.plan.waits
    assert [[str(step) for step in steps] for steps in programs(bare)] == [
        [str(step) for step in steps] for steps in programs(schedule)
    ]
