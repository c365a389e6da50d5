"""Recompute and offload as options of families: by hand, and every family on random problems."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, NotApplicable, Outcome, Problem, Schedule, make_problem, run, solve
from pipesched.comparing.compare import every_name
from pipesched.pipeline.problem.ops import Op, Pair
from pipesched.results.trainers import refused_by_pytorch, runs_in
from tests.examples import at_night_but, part
from tests.oracle.judge import require_replayed
from tests.strategies import placements_of, problems

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
        require_replayed(schedule)
        require_places(schedule, *stages)
        assert schedule.makespan_ticks >= plain.schedule.makespan_ticks >= plain.bound.ticks
        assert schedule.makespan_ticks >= saved.bound.ticks

    judged()


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
