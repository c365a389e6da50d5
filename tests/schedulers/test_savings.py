"""Recompute and offload as options of families: by hand, and every family on random problems."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, NotApplicable, Outcome, Problem, Schedule, make_problem, run, solve
from pipesched.comparing.compare import every_name
from pipesched.pipeline.check import violations
from pipesched.pipeline.costs import Costs
from pipesched.pipeline.ops import Op, Pair, parse_op
from pipesched.pipeline.schedule import schedule_plan
from pipesched.results.trainers import refused_by_pytorch, runs_in
from pipesched.schedulers.registry import family
from tests.examples import at_night_but, part
from tests.oracle.alike import replay
from tests.strategies import placements_of, problems, texts_of

Times = tuple[int, int]
SIZES = st.one_of(st.none(), st.just("full"), st.integers(1, 15))


def problems_of(name: str, **values: Any) -> st.SearchStrategy[Problem]:
    """Problems with the stages and the placement that a family asks for."""
    return problems(placements_of(name), most_devices=5, most_microbatches=9, saving=True, **values)


def applied(problem: Problem, name: str, **options: Any) -> Outcome | None:
    """The outcome of a family; None where it does not suit the problem."""
    try:
        return run(problem, name, **options)
    except NotApplicable:
        return None


def times(schedule: Schedule, text: str) -> Times:
    """Start and end of an operation, in the user's unit."""
    number, scale = schedule.plan.index.number(parse_op(text)), schedule.problem.ticks.per_unit
    return schedule.start_ticks[number] // scale, schedule.end_ticks[number] // scale


def steps(schedule: Schedule, device: int) -> list[Times]:
    """The memory of a device over time, where it changes."""
    levels = [(0, 0), *schedule.memory_steps(device)]
    return [step for before, step in pairwise(levels) if step[1] != before[1]]


def asked(stages: int, recompute: Any, offload: Any) -> tuple[set[int], set[int]] | None:
    """The stages that are recomputed, and those that are offloaded; None where the options are refused."""
    again, away = ({None: 0, "full": stages}.get(value, value) for value in (recompute, offload))
    if max(again, away) > stages or again == away:
        return None
    first = set(range(min(again, away)))
    rest = set(range(max(again, away))) - first
    return (first, rest) if again < away else (rest, first)


def slots_of(schedule: Schedule) -> list[list[list[Op]]]:
    """For each device its slots, each as the operations in it."""
    plan = schedule.plan
    rows = [list(plan.slots(device)) for device in range(schedule.problem.devices)]
    return [[[slot.forward, slot.backward] if isinstance(slot, Pair) else [slot] for slot in row] for row in rows]


def require_places(schedule: Schedule, again: set[int], away: set[int]) -> None:
    """Each R stands directly before its backward and starts after the gradient; each L starts one slot ahead."""
    index, offloaded = schedule.plan.index, set[tuple[int, int]]()
    starts = {str(index.op(n)): schedule.start_ticks[n] for n in range(index.size) if schedule.start_ticks[n] >= 0}
    ends = {str(index.op(n)): schedule.end_ticks[n] for n in range(index.size) if schedule.start_ticks[n] >= 0}
    for row in slots_of(schedule):
        place = {op: position for position, ops in enumerate(row) for op in ops}
        for op, position in place.items():
            stage, mb = op.stage, op.microbatch
            if op.kind not in "BI":
                continue
            before = row[position - 1] == [Op(stage, "R", mb)]
            assert before == (stage in again)
            gradients = [f"{stage + 1}{kind}{mb}" for kind in "BI" if f"{stage + 1}{kind}{mb}" in ends]
            assert not before or all(starts[f"{stage}R{mb}"] >= ends[gradient] for gradient in gradients)
            gone = stage in away and position - place[Op(stage, "F", mb)] > 2
            assert gone == (f"{stage}O{mb}" in starts) == (f"{stage}L{mb}" in starts)
            if gone:
                offloaded.add((stage, mb))
                assert starts[f"{stage}L{mb}"] >= max(ends[str(other)] for other in row[position - 2])
    assert schedule.offloaded == len(offloaded)
    assert schedule.recomputed == len(again) * index.microbatches


def held(schedule: Schedule, stage: int, mb: int, time: int) -> int:
    """What one activation holds at a time, in grains, by the times of its operations alone."""
    index, grains = schedule.plan.index, schedule.problem.grains
    span: dict[str, Times] = {}
    for kind in index.letters:
        number = index.number(Op(stage, kind, mb))
        if schedule.start_ticks[number] >= 0:
            span[kind] = schedule.start_ticks[number], schedule.end_ticks[number]
    whole, last = grains.largest["activation"][stage], span["B" if "B" in span else "I"][1]
    if not span["F"][0] <= time:
        return 0
    if time >= last:
        return grains.largest["retained"][stage] if "W" in span and time < span["W"][1] else 0
    if "I" in span and time >= span["I"][0]:
        return max(whole, grains.largest["retained"][stage])
    if "R" in span and span["F"][1] <= time < span["R"][0]:
        return grains.largest["checkpointed"][stage]
    if "O" in span and span["O"][1] <= time < span["L"][0]:
        return 0
    return whole


def require_memory(schedule: Schedule) -> None:
    """At each step of a device its memory is the sum of what its activations hold."""
    problem = schedule.problem
    for device in range(problem.devices):
        own = [
            (stage, mb)
            for stage in range(problem.stages)
            for mb in range(problem.microbatches)
            if problem.settled_placement.device(stage, mb, problem.microbatches) == device
        ]
        for time, level in schedule.memory_steps(device):
            assert level == sum(held(schedule, stage, mb, time) for stage, mb in own)


def require_replay(schedule: Schedule) -> None:
    """The naive replay gives the same times and peaks, and no rule is broken."""
    plan, op = schedule.plan, schedule.plan.index.op
    lanes = [[str(op(number)) for number in lane] for pair in plan.lanes for lane in pair]
    waits = [(str(op(before)), str(op(after))) for before, after in plan.waits]
    naive = replay(schedule.problem, texts_of(plan), lanes, waits)
    for text, start in naive.start.items():
        number = plan.index.number(parse_op(text))
        assert (schedule.start_ticks[number], schedule.end_ticks[number]) == (start, naive.end[text])
    assert len(naive.start) == len(plan)
    assert schedule.makespan_ticks == naive.makespan
    assert [*map(Fraction, schedule.peak_grains)] == naive.peak
    assert list(violations(schedule)) == []


@pytest.mark.parametrize("name", at_night_but(every_name({})[::2], every_name({})))
@pytest.mark.slow
def test_every_family(name: str) -> None:
    """The plan of every family runs with any savings, not sooner than without, by the rules of time, place and memory;
    more stages than there are, and the same ones twice, are refused."""

    @part(4)
    @given(problems_of(name, overlap=True), SIZES, SIZES)
    def judged(problem: Problem, recompute: Any, offload: Any) -> None:
        plain, saved = applied(problem, name), applied(problem, name, recompute=recompute, offload=offload)
        if plain is None or (recompute is None and offload is None):
            assert (plain is None) == (saved is None)
            return
        stages = asked(plain.problem.stages, recompute, offload)
        assert (saved is None) == (stages is None)
        if saved is None or stages is None:
            return
        schedule = saved.schedule
        require_replay(schedule)
        require_places(schedule, *stages)
        require_memory(schedule)
        assert schedule.makespan_ticks >= plain.schedule.makespan_ticks >= plain.bound.ticks
        assert schedule.makespan_ticks >= saved.bound.ticks

    judged()


@pytest.mark.parametrize("name", at_night_but(every_name({})[1::2], every_name({})))
@pytest.mark.slow
def test_full_recompute_is_a_longer_backward(name: str) -> None:
    """Without pairs and latency, full recompute takes as long as the same plan with its cost in every backward."""

    @part(4)
    @given(problems_of(name))
    def judged(problem: Problem) -> None:
        given_ = replace(problem, costs=replace(problem.costs, p2p=(0,) * (problem.stages - 1)))
        grouped = {"group_size": problem.devices} if "group_size" in family(name).options else {}  # else each its best
        saved = applied(given_, name, recompute="full", **grouped)
        if saved is None or saved.schedule.plan.pairs:
            return
        ticks, plain = saved.problem.ticks, run(given_, name, **grouped).schedule
        longer = [
            half + again for half, again in zip(ticks.mean["backward_input"], ticks.mean["recompute"], strict=True)
        ]
        costs = Costs(
            forward=ticks.mean["forward"],
            backward_input=tuple(longer),
            backward_weight=ticks.mean["backward_weight"],
            recompute=ticks.mean["recompute"],
            p2p=ticks.mean["p2p"],
        )
        expected = schedule_plan(replace(plain.problem, costs=costs), plain.plan)
        assert saved.schedule.makespan_ticks == expected.makespan_ticks

    judged()


def test_full_recompute_of_1f1b_by_hand() -> None:
    """Megatron's full recomputation: R when the gradient is there, also on the last stage; (M+P-1)(f+r+b) in all."""
    problem = make_problem(devices=2, microbatches=3, forward=1, backward=2, checkpoint=0.1, activation=10)
    outcome = run(problem, "1f1b", recompute="full")
    schedule = outcome.schedule
    assert texts_of(schedule.plan) == [
        ["0F0", "0F1", "0R0", "0B0", "0F2", "0R1", "0B1", "0R2", "0B2"],
        ["1F0", "1R0", "1B0", "1F1", "1R1", "1B1", "1F2", "1R2", "1B2"],
    ]
    assert [times(schedule, f"1{text}")[0] for text in ["F0", "R0", "B0", "F1", "R1", "B1", "F2", "R2", "B2"]] == [
        1, 2, 3, 5, 6, 7, 9, 10, 11,
    ]  # fmt: skip
    assert [times(schedule, f"0{text}")[0] for text in ["F0", "F1", "R0", "B0", "F2", "R1", "B1", "R2", "B2"]] == [
        0, 1, 5, 6, 8, 9, 10, 13, 14,
    ]  # fmt: skip
    assert (schedule.makespan, schedule.ideal, schedule.recomputed) == (16, 9, 6)
    assert steps(schedule, 0) == [(0, 10), (1, 11), (2, 2), (5, 11), (12, 1), (13, 10), (16, 0)]
    assert schedule.peak_memory == [11, 10]
    assert outcome.algorithm == "1f1b"


def test_offload_of_gpipe_by_hand() -> None:
    """Each activation leaves as its forward ends; its load starts one slot ahead of its backward, and waits for O."""
    problem = make_problem(devices=2, microbatches=3, forward=1, backward=2, offload=1, activation=1)
    schedule = run(problem, "naive", offload="full").schedule
    assert [times(schedule, text) for text in ("1O0", "1O1", "1O2")] == [(2, 3), (3, 4), (4, 5)]
    assert [times(schedule, text) for text in ("1L0", "1L1", "1L2")] == [(3, 4), (4, 5), (6, 7)]
    assert [times(schedule, text) for text in ("0O0", "0O1", "0O2")] == [(1, 2), (2, 3), (3, 4)]
    assert [times(schedule, text) for text in ("0L0", "0L1", "0L2")] == [(2, 3), (3, 4), (8, 9)]
    assert steps(schedule, 1) == [(1, 1), (2, 2), (3, 3), (5, 2), (8, 1), (10, 0)]
    assert steps(schedule, 0) == [(0, 1), (1, 2), (2, 3), (4, 2), (10, 1), (12, 0)]
    assert schedule.makespan == run(problem, "naive").schedule.makespan == 12


def test_an_activation_that_is_needed_soon_stays() -> None:
    """With 1F1B the last stage offloads nothing, and the stage before it nothing of the first microbatch."""
    problem = make_problem(devices=3, microbatches=4, forward=1, backward=2, offload=1)
    plan = run(problem, "1f1b", offload="full").schedule.plan
    moved = [[str(plan.index.op(number)) for number in pair.offloads] for pair in plan.lanes]
    assert moved == [["0O0", "0O1", "0O2", "0O3"], ["1O1", "1O2"], []]


def test_a_slow_lane_delays_backwards() -> None:
    """Transfers that take longer than the work beside them make the step longer, and are in order."""
    problem = make_problem(devices=4, microbatches=8, forward=1, backward=2, offload=5)
    plain, saved = run(problem, "1f1b").schedule, run(problem, "1f1b", offload="full").schedule
    assert saved.makespan > plain.makespan == 33


@pytest.mark.parametrize(
    ("recompute", "offload", "expected"),
    [(2, "full", (8, 8)), ("full", 2, (8, 8)), (1, 3, (4, 8)), (None, 2, (0, 8)), (3, None, (12, 0))],
)
def test_both_at_once(recompute: Any, offload: Any, expected: Times) -> None:
    """The smaller number takes the first stages, the larger those behind them, up to its own number."""
    problem = make_problem(devices=4, microbatches=4, offload=1)
    schedule = run(problem, "naive", recompute=recompute, offload=offload).schedule
    assert (schedule.recomputed, schedule.offloaded) == expected


def test_layers_and_all_stages_exclude_each_other() -> None:
    """A number of layers is of every stage, so no stage is left where all are offloaded; the message says that."""
    problem = make_problem(devices=2, layers=8, layer={"offload": 1})
    with pytest.raises(NotApplicable, match="recompute 1 takes layers of every stage of 1f1b, so offload takes fewer"):
        run(problem, "1f1b", recompute=1, offload="full")
    assert run(problem, "1f1b", recompute=1, offload=1).schedule.recomputed == 4


def test_refusals() -> None:
    """What a family cannot do is said with the number of stages that it runs."""
    problem = make_problem(devices=2, stages=4, microbatches=4, offload=1)
    with pytest.raises(NotApplicable, match="1f1b runs 2 stages here, so recompute takes full or at most 2, not 3"):
        run(problem, "1f1b", recompute=3)
    assert run(problem, "interleaved", recompute=3).schedule.recomputed == 12
    for pair in (("full", "full"), (2, 2), (2, "full")):
        with pytest.raises(NotApplicable, match="both take the first 2 stages of 1f1b; give different numbers"):
            run(problem, "1f1b", recompute=pair[0], offload=pair[1])
    with pytest.raises(ConfigError, match=r"^offload: needs `costs.offload`"):
        run(make_problem(devices=2), "1f1b", offload=1)
    with pytest.raises(ConfigError, match=r"^offload: needs `layer.offload`"):
        run(make_problem(devices=2, layers=4), "1f1b", offload=1)


@pytest.mark.parametrize("value", ["Full", 0, -1, True, 1.5, "all", [1]])
def test_bad_values(value: Any) -> None:
    """Only full and whole numbers from 1 on are taken."""
    for key in ("recompute", "offload"):
        with pytest.raises(ConfigError, match=f"^{key}: must be full or a whole number of at least 1, not"):
            run(make_problem(devices=3, offload=1), "1f1b", **{key: value})


@pytest.mark.parametrize("name", ["list", "zb-auto"])
def test_a_family_that_obeys_the_budget(name: str) -> None:
    """Under a budget it refers to a solve, as its plan is for whole activations; without one it takes the options."""
    problem = make_problem(devices=2, budget=2)
    with pytest.raises(NotApplicable, match=f"^{name} fits its whole activations into the budget.* solve with"):
        run(problem, name, recompute="full")
    assert run(make_problem(devices=2), name, recompute="full").schedule.recomputed == 8


def test_pytorch_runs_none_of_it() -> None:
    """PyTorch's runtime has neither operation, and the answer says where it has them instead."""
    problem = make_problem(devices=2, offload=1)
    for key, where in (("recompute", "torch.utils.checkpoint"), ("offload", "save_on_cpu")):
        schedule = run(problem, "naive", **{key: 1}).schedule
        assert runs_in(schedule) == []
        assert where in str(refused_by_pytorch(schedule))


def test_a_solve_is_no_worse_than_full_recompute() -> None:
    """Under the budget that full recompute of 1F1B just fits, a solve that may recompute takes less time."""
    problem = make_problem(devices=4, microbatches=8, forward=1, backward=2, activation=1, checkpoint=0.25, budget=2)
    practice = run(problem, "1f1b", recompute="full")
    assert practice.schedule.fits
    best = solve(problem, recompute=True, time_limit=3, workers=1)
    assert best.schedule.fits
    assert best.schedule.makespan < practice.schedule.makespan == 44


LAYERS: dict[str, Any] = {
    "devices": 2,
    "microbatches": 3,
    "layers": 4,
    "layer": {"forward": 2, "backward": 4, "activation": 1, "static": 1},
    "last": {"forward": 1, "backward": 2, "activation": 0.5},
}


def test_a_number_is_one_of_layers_where_these_are_known() -> None:
    """Worked out by hand: one layer of two runs again for 2, and half of the activation of the first stage stays."""
    schedule = run(make_problem(**LAYERS), "1f1b", recompute=1).schedule
    assert schedule.problem.layers is not None
    assert schedule.problem.layers.layout == (2, 2)
    assert schedule.problem.costs.recompute == (2, 2)
    assert schedule.problem.memory.checkpoint == (0.5, 0.6)
    assert schedule.peak_memory == [3, 2.5]  # device 0: two activations in flight, the older one whole for its backward
    plain = run(make_problem(**LAYERS), "1f1b").schedule
    assert [sum(pair) for pair in zip(plain.busy, [6, 6], strict=True)] == schedule.busy


def test_all_layers_are_whole_stages() -> None:
    """Without anything beside the layers, as many as the largest stage has are full recompute."""
    problem = make_problem(**{**LAYERS, "last": None, "layers": 5})
    every, full = (run(problem, "1f1b", recompute=number) for number in (3, "full"))
    assert (every.problem, every.metrics) == (full.problem, full.metrics)
    with pytest.raises(NotApplicable, match="at most 3 layers here, so recompute takes full or at most 3, not 4"):
        run(problem, "1f1b", recompute=4)


@pytest.mark.parametrize("name", ["1f1b", "eager-1f1b", "interleaved", "dualpipe"])
def test_more_layers_take_longer_and_hold_less(name: str) -> None:
    """With each layer more that runs again, a step takes longer; whole backwards then leave less behind."""
    problem = make_problem(**{**LAYERS, "layers": 16, "microbatches": 8, "chunks": 2})
    found = [run(problem, name, recompute=number).schedule for number in (1, 2, 3)]
    assert found[0].makespan < found[1].makespan < found[2].makespan
    assert max(found[0].peak_memory) > max(found[2].peak_memory)
