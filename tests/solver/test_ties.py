"""Of schedules of one value, the one that holds least is the answer, by name where it has one; others are named."""

from __future__ import annotations

import pytest
from hypothesis import given

import pipesched
from pipesched.errors import NoSchedule
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.registry import FAMILIES
from tests.examples import part
from tests.pipeline.test_imbalance import REAL
from tests.strategies import problems


def test_memory_breaks_ties() -> None:
    """Naive takes as long as 1F1B and holds 65.2 GB: the answer is 1F1B's makespan at 29.2 GB, and others are named."""
    whole = pipesched.make_problem(
        devices=8, microbatches=48, forward=[17] * 7 + [25], backward=[32] * 7 + [48], p2p=0.8, activation=0.9,
        static=22, budget=80,
    )  # fmt: skip
    solved = pipesched.solve(whole)
    assert max(solved.schedule.memory) == 29.2
    assert solved.report is not None
    assert solved.report.source == "1f1b"
    assert solved.report.equal["naive"] == 65.2


def test_the_equal_ones_are_in_the_document() -> None:
    """`solver.equal` lists their names, least memory first."""
    report = pipesched.solve(REAL).report
    assert report is not None
    assert report.source == "zb-h1"
    assert list(report.equal) == ["interleaved-zb", "zb-auto", "zb-h2"]
    assert len({report, pipesched.solve(REAL).report}) == 2  # reports can stand in sets


@given(problems(("linear", "loop", "v", "auto"), most_devices=3, most_microbatches=5, least=1))
@part(4)
@pytest.mark.slow
def test_no_family_of_the_same_makespan_holds_less(problem: Problem) -> None:
    """What a family reaches in the same time with less memory would have been the answer."""
    try:
        solved = pipesched.solve(problem, time_limit=20, split_backward=problem.costs.split)
    except NoSchedule:
        return
    for name in FAMILIES:
        try:
            other = pipesched.run(problem, name).schedule
        except (pipesched.NotApplicable, NoSchedule):
            continue
        if (
            other.fits
            and other.problem.stages == solved.problem.stages  # fused, gradients of one stage never wait beside another
            and other.makespan == solved.schedule.makespan
            and other.plan.index.letters == solved.schedule.plan.index.letters
            and not other.problem.settled_placement.mirrored
            and not other.plan.pairs
        ):
            assert max(solved.schedule.memory) <= max(other.memory)


def test_polishing_lowers_the_memory_of_what_has_no_name() -> None:
    """A list schedule is as long, and holds half of what it holds without the second phase."""
    problem = pipesched.make_problem(
        devices=2, stages=4, microbatches=6, placement="v", p2p=1, activation=[3, 2, 1, 3],
        forward=[5, 3, 2, 2], backward_input=[2, 5, 6, 4], backward_weight=[2, 3, 6, 6],
    )  # fmt: skip
    plain = pipesched.solve(problem, time_limit=20, workers=1, polish=False)
    polished = pipesched.solve(problem, time_limit=20, workers=1)
    assert polished.schedule.makespan == plain.schedule.makespan == 157
    assert max(plain.schedule.memory) == 24
    assert max(polished.schedule.memory) <= 12
    assert pipesched.check(polished) == []
