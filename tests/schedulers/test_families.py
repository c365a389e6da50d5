"""Every family on random problems, judged by the naive replay and by the independent check."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipesched import Outcome, Problem, compare, run, violations
from pipesched.core.priorities import PRIORITIES
from pipesched.core.ties import TIES
from pipesched.schedulers.registry import FAMILIES, family
from tests.replay import replay
from tests.strategies import ALL_PLACEMENTS, LINEAR, LOOP, problems, texts_of

OPTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "naive": st.fixed_dictionaries({}, optional={"lifo": st.booleans()}),
    "interleaved": st.fixed_dictionaries({}, optional={"group_size": st.just(9)}),
    "zb-auto": st.fixed_dictionaries({}, optional={"objective": st.sampled_from(["span", "makespan"])}),
    "list": st.fixed_dictionaries(
        {},
        optional={"priority": st.sampled_from(sorted(PRIORITIES)), "tie": st.sampled_from(sorted(TIES))},
    ),
}

NEED_EVEN_DEVICES = ("dualpipe", "chimera")


def problems_of(name: str) -> st.SearchStrategy[Problem]:
    """Problems that a family applies to."""
    kinds = {"linear": LINEAR, "loop": LOOP, "any": ALL_PLACEMENTS, "bidirectional": ("auto", "bidirectional")}
    placements = kinds.get(family(name).placement, (family(name).placement,))
    random = problems(placements, most_devices=5, most_microbatches=9, overlap=True)
    if not name.startswith("dualpipe"):
        return random
    return random.map(lambda p: replace(p, microbatches=2 * p.devices + 2 * (p.microbatches % 4)))


def judge(outcome: Outcome) -> None:
    """No rule is broken, and every number is that of the naive replay."""
    schedule = outcome.schedule
    naive = replay(schedule.problem, texts_of(schedule.plan))
    assert list(violations(schedule)) == []
    index = schedule.plan.index
    for text, start in naive.start.items():
        stage, kind, mb = text.partition(next(filter(str.isalpha, text)))
        number = index.row(kind, int(stage))[int(mb)]
        assert (schedule.starts[number], schedule.ends[number]) == (start, naive.end[text])
    assert len(naive.start) == len(schedule.plan)
    assert (schedule.makespan, schedule.span, schedule.busy) == (naive.makespan, naive.span, naive.busy)
    assert schedule.peak_memory == naive.peak
    assert outcome.bound.ticks <= naive.makespan
    assert (outcome.status == "optimal") == (outcome.bound.ticks == naive.makespan)


@pytest.mark.parametrize("name", FAMILIES)
def test_against_the_naive_replay(name: str) -> None:
    """Times, makespan, span, busy time and peaks are the naive replay's; no rule broken; no bound above."""

    @given(problems_of(name), OPTIONS.get(name, st.just({})))
    def judged(problem: Problem, options: dict[str, Any]) -> None:
        assume(name not in NEED_EVEN_DEVICES or problem.devices % 2 == 0)
        judge(run(problem, name, **options))

    judged()


@given(problems(("auto",), most_devices=4, most_microbatches=6))
def test_the_same_model(problem: Problem) -> None:
    """Every family runs the same work on the same problem, fused or not, and keeps its microbatches."""
    outcomes = [entry.outcome for entry in compare(problem, list(FAMILIES)) if entry.outcome is not None]
    assert len(outcomes) >= 12
    costs = problem.costs
    work = problem.microbatches * (sum(costs.forward) + sum(costs.backward))
    for outcome in outcomes:
        schedule = outcome.schedule
        assert sum(schedule.busy) == work
        assert schedule.problem.microbatches == problem.microbatches
        assert schedule.problem.devices == problem.devices
        assert Fraction(sum(schedule.problem.memory.activation)) == sum(problem.memory.activation)
