"""Interleaved 1F1B against Megatron's rule, written a second time, and its published figures."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from pipesched import NotApplicable, Problem, make_problem, run
from pipesched.schedulers import one_f_one_b as module
from pipesched.schedulers.one_f_one_b import group_sizes, interleaved
from tests.examples import at_night_but
from tests.oracle import orders
from tests.oracle.alike import Stuck, replay
from tests.strategies import texts_of


class Size(NamedTuple):
    """How large a pipeline is: devices, chunks a device, microbatches."""

    devices: int
    chunks: int
    microbatches: int

    def problem(self, **given: Any) -> Problem:
        """A problem of this size with the loop placement."""
        devices, chunks, microbatches = self
        return make_problem(
            devices=devices, stages=devices * chunks, microbatches=microbatches, placement="loop", **given
        )


def megatron(size: Size, group: int) -> orders.Rows:
    """Megatron-LM's order: groups of virtual microbatches, warm-up, one F one B, cool-down.

    Groups of more than M microbatches, which Megatron refuses, are groups of M.
    """
    return orders.interleaved(*size, group=min(group, size.microbatches))


def accepted(size: Size) -> list[int]:
    """The group sizes that Megatron accepts: P to M, with a last group of at least P."""
    groups = range(size.devices, size.microbatches + 1)
    return [g for g in groups if size.microbatches % g == 0 or size.microbatches % g >= size.devices]


def runs(size: Size, group: int) -> bool:
    """Whether Megatron's order of this group size runs through."""
    try:
        replay(size.problem(), megatron(size, group))
    except Stuck:
        return False
    return True


@pytest.mark.parametrize("devices", at_night_but((2, 3, 5), range(2, 9)))
@pytest.mark.parametrize("chunks", range(1, 5))
def test_megatrons_order(devices: int, chunks: int) -> None:
    """Operation by operation Megatron's order, for every group size that it accepts."""
    for microbatches in range(1, 25):
        size = Size(devices, chunks, microbatches)
        problem = size.problem()
        for group in accepted(size):
            assert texts_of(interleaved(problem, group_size=group)) == megatron(size, group)


@pytest.mark.parametrize("devices", at_night_but((1, 3), range(1, 9)))
@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.slow
def test_the_default_group_size_never_refuses(devices: int, chunks: int) -> None:
    """Any M >= 1 runs without a group size; where P does not divide M the plan says which of several sizes it took."""
    for microbatches in [*range(1, 2 * devices + 2), 3 * devices + 1]:
        size = Size(devices, chunks, microbatches)
        outcome = run(size.problem(), "interleaved")
        plan = outcome.schedule.plan
        group = devices
        if microbatches % devices:
            group = int(plan.note.split(":")[0].removeprefix("groups of ")) if plan.note else microbatches
            assert runs(size, group)
        assert texts_of(plan) == megatron(size, group)


@pytest.mark.slow
@pytest.mark.parametrize("devices", at_night_but((3,), (2, 3, 4, 6)))
@pytest.mark.parametrize("chunks", at_night_but((3,), (2, 3)))
def test_explicit_group_sizes(devices: int, chunks: int) -> None:
    """A group size runs if its order does; else it is refused with sizes that run, and those do."""
    refused = 0
    for microbatches in [1, devices - 1, devices, devices + 1, 2 * devices, 2 * devices + 1, 3 * devices - 1]:
        size = Size(devices, chunks, microbatches)
        for group in range(1, microbatches + 3):
            if runs(size, group):
                plan = run(size.problem(), "interleaved", group_size=group).schedule.plan
                assert texts_of(plan) == megatron(size, group)
                continue
            refused += 1
            with pytest.raises(NotApplicable, match="deadlocks") as caught:
                run(size.problem(), "interleaved", group_size=group)
            advice = str(caught.value).rpartition("that run: ")[2].split(", ")
            assert advice
            assert all(runs(size, int(other)) for other in advice)
            assert str(group) not in advice
    assert refused or devices == 2


RELATIVES = ("interleaved", "interleaved-overlap", "grouped-interleaved", "interleaved-zb")


@pytest.mark.slow
@pytest.mark.parametrize("name", RELATIVES)
@pytest.mark.parametrize("devices", at_night_but((2,), (1, 2, 3)))
def test_group_sizes_of_the_relatives(name: str, devices: int) -> None:
    """A group size runs or is refused for its deadlock, with sizes that run: none that is held to be sure deadlocks."""
    for chunks in (2, 3):
        for microbatches in range(1, 2 * devices + 4):
            problem = Size(devices, chunks, microbatches).problem()
            answers = [answer(problem, name, group) for group in range(1, microbatches + 2)]
            refusals = {group: text for group, text in enumerate(answers, start=1) if text}
            for group, text in refusals.items():
                assert text.startswith(f"{name} with group size {group} deadlocks on {devices} devices")
                advised = set(map(int, text.rpartition("that run: ")[2].split(", ")))
                assert advised <= set(range(1, microbatches + 2)) - set(refusals)


def answer(problem: Problem, name: str, group: int) -> str:
    """Why a group size is refused; empty if it runs."""
    try:
        run(problem, name, group_size=group)
    except NotApplicable as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", RELATIVES)
def test_groups_mean_nothing_with_one_chunk(name: str) -> None:
    """One stage a device: every group size is the same order, and no note speaks of groups."""
    for devices, microbatches in [(1, 3), (3, 4), (4, 2), (4, 9)]:
        problem = Size(devices, 1, microbatches).problem()
        plan = run(problem, name).schedule.plan
        assert plan.note == ""
        for group in range(1, microbatches + 2):
            assert texts_of(run(problem, name, group_size=group).schedule.plan) == texts_of(plan)


@pytest.mark.slow
@pytest.mark.parametrize("devices", at_night_but((2, 3), range(1, 7)))
@pytest.mark.parametrize("chunks", [2, 3])
def test_megatrons_combined_order(devices: int, chunks: int) -> None:
    """interleaved-overlap is Megatron's combined 1F1B: one more warm-up forward, then every F together with a B."""
    for microbatches in range(devices, 4 * devices):
        size = Size(devices, chunks, microbatches)
        for group in accepted(size):
            plan = run(size.problem(), "interleaved-overlap", group_size=group).schedule.plan
            for order, plain in zip(texts_of(plan), megatron(size, group), strict=True):
                forwards = [text for text in plain if "F" in text]
                backwards = [text for text in plain if "B" in text]
                alone = plain.index(backwards[0])  # the warm-up, and the forward before the first backward
                pairs = [f"({f};{b})OVERLAP_F_B" for f, b in zip(forwards[alone:], backwards, strict=False)]
                assert order == [*forwards[:alone], *pairs, *backwards[len(pairs) :]]


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_figures_of_slices(group: int, slices: int, chunks: int, groups: int) -> None:
    """Where n divides P and P/n divides M, the makespan is (VM + (P-1)/n)(f+B) with f and B of a chunk."""
    devices, microbatches = group * slices, group * groups
    problem = Size(devices, chunks, microbatches).problem(forward=1, backward=2, slices=slices)
    whole = chunks * microbatches * slices + devices - 1
    assert run(problem, "interleaved").schedule.makespan == pytest.approx(3 * whole / slices)


def test_groups_of_slices_that_deadlock() -> None:
    """Groups of P/n that deadlock become the next larger ones that run, and a group size that is given says why."""
    problem = Size(6, 3, 4).problem(slices=2)
    note = run(problem, "interleaved").schedule.plan.note
    assert note == "group size 4: groups of 3 deadlock with 4 microbatches"
    with pytest.raises(NotApplicable, match=r"group size 3 deadlocks.*sizes that run: 4"):
        run(problem, "interleaved", group_size=3)


NINE: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 9, "forward": 1, "backward": 2}
OF_NINE = {3: 84, 4: 74, 5: 63, 6: 65, 7: 68, 8: 73, 9: 63}


def test_the_best_of_nine_microbatches() -> None:
    """Figures of a script of others: groups of 5 to 9; the default is the best, of equal ones that of less memory."""
    problem = make_problem(**NINE)
    made = {size: run(problem, "interleaved", group_size=size).schedule.makespan for size in OF_NINE}
    assert made == OF_NINE
    found = run(problem, "interleaved")
    assert (found.schedule.makespan, found.is_grouped) == (63, True)
    assert found.schedule.plan.note == "groups of 5: the shortest of 7 sizes that run"
    assert found.schedule.plan.orders == run(problem, "interleaved", group_size=5).schedule.plan.orders


@given(st.data())
def test_the_best_group_size(data: st.DataObject) -> None:
    """`best`, and the default where P does not divide M, is the first of all sizes by budget, makespan and memory."""
    devices, chunks = data.draw(st.integers(2, 3)), data.draw(st.integers(2, 3))
    times = st.lists(st.integers(1, 4), min_size=devices * chunks, max_size=devices * chunks)
    problem = make_problem(
        devices=devices, chunks=chunks, microbatches=data.draw(st.integers(1, 7)), forward=data.draw(times),
        backward=data.draw(times), p2p=data.draw(st.integers(0, 2)), recompute=1, offload=1,
        budget=data.draw(st.sampled_from([None, 6])),
    )  # fmt: skip
    name = data.draw(st.sampled_from(["interleaved", "grouped-interleaved", "interleaved-zb", "interleaved-overlap"]))
    kept: dict[str, Any] = data.draw(st.sampled_from([{}, {"recompute": "full"}, {"offload": 1}]))
    known = {}
    for size in range(1, problem.microbatches + 1):
        try:
            one = run(problem, name, group_size=size, **kept).schedule
        except NotApplicable:
            continue
        known[size] = not one.fits, one.makespan_ticks, max(one.peak_grains), size
    first = min(known.values())
    is_open = problem.microbatches % devices > 0
    for given_size in ["best", *[None] * is_open]:
        made = run(problem, name, group_size=given_size, **kept).schedule
        assert (not made.fits, made.makespan_ticks, max(made.peak_grains)) == first[:3]


def test_where_ranks_divide_the_microbatches_groups_are_of_their_number() -> None:
    """That is the usual group, whatever is shorter; `best` is asked for."""
    problem = make_problem(devices=2, stages=4, microbatches=6, forward=[1, 4, 1, 1], backward=[2, 2, 9, 2], p2p=2)
    usual = run(problem, "interleaved").schedule
    assert usual.plan.orders == run(problem, "interleaved", group_size=2).schedule.plan.orders
    assert run(problem, "interleaved", group_size="best").schedule.makespan < usual.makespan


def test_few_sizes_of_a_large_problem_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more operations than are timed for that, sizes from P on with no short last group; and one at least."""
    problem = make_problem(devices=4, stages=8, microbatches=50)
    assert [*group_sizes(problem)] == [*range(1, 51)]
    monkeypatch.setattr(module, "MOST_SIZED", 3 * 800)
    assert [*group_sizes(problem)] == [4, 5, 6]
    monkeypatch.setattr(module, "MOST_SIZED", 1)
    assert [*group_sizes(problem)] == [4]
    assert run(problem, "interleaved").schedule.makespan > 0
