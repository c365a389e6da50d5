"""Every family on random problems, beside the second replay; and how a problem is prepared for a family."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from inspect import signature
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from pipesched import (
    ConfigError,
    Family,
    NoSchedule,
    NotApplicable,
    Problem,
    algorithms,
    compare,
    make_problem,
    run,
    schedule_plan,
)
from pipesched.comparing.compare import every_name
from pipesched.core import arrays
from pipesched.core.arrays import compiled_kernels
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.family import FORWARDS, SLICED, prepare
from pipesched.schedulers.registry import ALIASES, FAMILIES, family
from tests.examples import at_night_but, part
from tests.strategies import problems, texts_of


@given(problems(("auto",), most_devices=4, most_microbatches=6))
@pytest.mark.slow
def test_the_same_model(problem: Problem) -> None:
    """Every family runs the same work on the same problem, fused or not, and keeps its microbatches."""
    outcomes = [entry.outcome for entry in compare(problem, every_name({})) if entry.outcome is not None]
    assert len(outcomes) >= 12
    work = problem.microbatches * sum(sum(problem.ticks.mean[key]) for key in ("forward", "backward"))
    for outcome in outcomes:
        schedule = outcome.schedule
        assert sum(schedule.busy_ticks) == work
        assert schedule.problem.microbatches == problem.microbatches
        assert schedule.problem.devices == problem.devices
        held, whole = (
            Fraction(sum(one.grains.largest["activation"]), one.grains.per_unit) for one in (schedule.problem, problem)
        )
        assert held == whole


@pytest.mark.parametrize("name", [known.name for known in algorithms() if not known.required])
def test_which_split_the_backward(name: str) -> None:
    """Those that say so run I and W where the costs have a whole backward, and no other does."""
    stages = 4 if family(name).stages in ("P", "any") else 8
    placement = family(name).placement
    where = "linear" if placement == "any" else placement
    problem = make_problem(devices=4, stages=stages, microbatches=8, forward=1, backward=2, placement=where)
    letters = run(problem, name).schedule.plan.index.letters
    assert ("I" in letters) is (family(name).splits_backward is True)


HELD = {  # with a formula of memory that holds whatever the times are; with slices
    False: "sequential naive 1f1b seq-1f1b eager-1f1b 1f1b-overlap interleaved interleaved-overlap looped-bfs"
    " grouped-interleaved gis-h zb-h1 zb-h2 interleaved-zb zb-v v-half dualpipe dualpipe-v dualpipe-v-whole hanayo",
    True: "seq-1f1b zb-h1 zb-h2 zb-v",
}


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize(("devices", "microbatches"), [(4, 8), (2, 6), (5, 10)])
def test_memory_formulas(devices: int, microbatches: int, slices: int) -> None:
    """What the list says of memory, in microbatches of a device, is what a schedule holds, for any number of chunks."""
    for name, chunks in product(HELD[slices > 1].split(), (2, 3)):
        values: dict[str, Any] = {"devices": devices, "stages": chunks * devices, "microbatches": microbatches}
        problem = make_problem(**values, forward=1, backward_input=1, backward_weight=1, slices=slices)
        try:
            schedule = run(problem, name).schedule
        except NotApplicable:
            continue
        text, _, sliced = family(name).memory.removeprefix("at most ").partition("; n slices: ")
        odd = re.search(r"\((.*) for odd P", text)
        text = sliced if slices > 1 and sliced else odd[1] if odd and devices % 2 else re.split("; V| \\(P", text)[0]
        code = re.sub(r"(?<=[0-9A-Zn)])(?=[A-Zdgn(])(?<!min)", "*", text)
        known = {"P": devices, "M": microbatches, "V": schedule.problem.stages // devices, "d": 0, "n": slices}
        known["g"] = -(-devices // 2) if name == "gis-h" else devices
        assert max(schedule.peak_memory) == pytest.approx(eval(code, {"min": min, **known})), (name, text)


def made(chosen: Family, problem: Problem) -> object:
    """All that the kernels have a part in: orders, times, peaks, the check and the bound; None where none applies."""
    plan = getattr(chosen.plan, "__wrapped__", chosen.plan)  # without the plan that it keeps
    try:
        fitted = prepare(problem, chosen)
        schedule = schedule_plan(fitted, plan(fitted))
    except (ConfigError, NoSchedule):
        return None
    return schedule.plan.orders, [*schedule.times], schedule.peak_grains, [*violations(schedule)], lower_bound(schedule)


@pytest.mark.skipif(compiled_kernels() is None, reason="no kernels are compiled here")
@pytest.mark.parametrize("name", at_night_but(every_name({})[::4], every_name({})))
@settings(part(3), suppress_health_check=[HealthCheck.filter_too_much])  # some need an even number of devices
@given(problem=problems(unlike=True))
def test_both_forms_agree(name: str, problem: Problem) -> None:
    """With and without a compiler the answers are the same to the tick."""
    problem = replace(problem, placement=None, microbatches=2 * problem.microbatches)
    compiled = made(family(name), problem)
    assume(compiled is not None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrays, "_found", lambda: (None, None, "plain Python"))
        assert made(family(name), problem) == compiled


LINEAR_FAMILIES = [one.name for one in algorithms() if one.placement == "linear"]
LOOP_FAMILIES = [one.name for one in algorithms() if one.placement == "loop"]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_people_need_to_know(name: str) -> None:
    """A family says its source, needs, bubble and memory, and its options are parameters of its plan."""
    one = family(name)
    assert one.name == name
    assert all([one.paper, one.needs, one.bubble, one.memory, one.elsewhere])
    assert {*one.options} == {*list(signature(one.plan).parameters)[1:]} - {"judge", *getattr(one.plan, "keywords", ())}


@pytest.mark.parametrize(
    ("name", "text", "run_of"),
    [("1f1b", "P", [1, 1, 1, 1, 1]), ("zb-v", "2P", [2, 2, 2, 2, 2]), ("interleaved", "kP", [1, 2, 3, 4, 5]),
     ("hanayo", "2kP", [2, 2, 2, 4, 4]), ("list", "any", [1, 2, 3, 4, 5])],
)  # fmt: skip
def test_how_many_stages_a_family_runs(name: str, text: str, run_of: list[int]) -> None:
    """Its stages as text, and what it runs of one to five stages a device: those, or what they are fused to."""
    assert family(name).stages == text
    assert [family(name).chunks_run(wanted) for wanted in range(1, 6)] == run_of


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases(alias: str, name: str) -> None:
    """An alias, in any case, is the family itself."""
    problem = make_problem(devices=3)
    assert family(alias) is family(alias.upper()) is family(name)
    assert run(problem, alias).algorithm == name


@pytest.mark.parametrize("name", LINEAR_FAMILIES)
@pytest.mark.parametrize("placement", ["auto", "linear", [0, 0, 0, 1, 1, 1, 2, 2, 2]])
def test_linear_families_fuse(name: str, placement: Any) -> None:
    """S = kP runs fused into P stages, if the placement is open, linear, or spells linear out."""
    problem = prepare(make_problem(devices=3, stages=9, forward=[1, 2, 3] * 3, placement=placement), family(name))
    assert (problem.stages, problem.ticks.mean["forward"]) == (3, (6, 6, 6))
    assert problem.settled_placement.devices == (0, 1, 2)


@pytest.mark.parametrize("name", LOOP_FAMILIES)
@pytest.mark.parametrize("placement", ["auto", "loop", [0, 1, 2, 0, 1, 2]])
def test_loop_families_do_not_fuse(name: str, placement: Any) -> None:
    """S = VP stays, round and round."""
    problem = prepare(make_problem(devices=3, stages=6, placement=placement), family(name))
    assert problem.settled_placement.devices == (0, 1, 2, 0, 1, 2)


@pytest.mark.parametrize(
    ("name", "placement", "stages"),
    [
        *[(name, placement, 6) for name in LINEAR_FAMILIES for placement in ("loop", "v", "wave", [0, 1, 0, 1, 2, 2])],
        *[(name, placement, 6) for name in LOOP_FAMILIES for placement in ("linear", "v", "wave", [1, 0, 2, 1, 0, 2])],
        *[
            (name, placement, 3)
            for name in [*LINEAR_FAMILIES, *LOOP_FAMILIES]
            for placement in ("bidirectional", [2, 1, 0])
        ],
    ],
)
def test_a_contradicting_placement(name: str, placement: Any, stages: int) -> None:
    """An explicit placement that is not the family's own: it does not apply, and the message says which it has."""
    with pytest.raises(NotApplicable, match=f"{name} places its stages {family(name).placement}") as caught:
        run(make_problem(devices=3, stages=stages, placement=placement), name)
    assert caught.value.key == "placement"
    asked = str(caught.value).partition(", not ")[2]
    assert asked.startswith("[")
    assert ("in both directions;" in asked) == (placement == "bidirectional")


@pytest.mark.parametrize("name", [*LINEAR_FAMILIES, *LOOP_FAMILIES])
def test_stages_that_do_not_divide(name: str) -> None:
    """S that is no multiple of P does not apply; the nearest that do are named."""
    with pytest.raises(NotApplicable, match=r"multiple of 3 stages.* 6 or 9; there are 7") as caught:
        run(make_problem(devices=3, stages=7), name)
    assert caught.value.key == "stages"


def test_compare_hands_options_to_those_who_know_them() -> None:
    """An option goes to the algorithms that take it; one that none takes is bad input."""
    problem = make_problem(devices=2, stages=4, microbatches=4)
    with_option = compare(problem, ["naive", "interleaved"], group_size=4)
    assert all(entry.outcome for entry in with_option)
    assert with_option[1].outcome
    assert texts_of(with_option[1].outcome.schedule.plan) == texts_of(
        run(problem, "interleaved", group_size=4).schedule.plan
    )
    with pytest.raises(ConfigError, match="none of naive, 1f1b takes the option `group_size`") as caught:
        compare(problem, ["naive", "1f1b"], group_size=4)
    assert caught.value.key == "group_size"


def test_messages_name_the_families_that_run_slices_and_forwards_alone() -> None:
    """The lists in messages are what the records of the families say."""
    for listed, flag in ((FORWARDS, "forward_only"), (SLICED, "slices")):
        names = [one.name for one in algorithms() if getattr(one, flag)]
        assert listed == f"{', '.join(names[:-1])} and {names[-1]}"


def test_a_family_names_its_twin_with_slices() -> None:
    """What a family is with slices has the same order without them."""
    twins = {one.name: one.with_slices for one in algorithms() if one.with_slices}
    assert twins == {one.same_without_slices: one.name for one in algorithms() if one.same_without_slices}


def test_a_comparison_of_all_leaves_out_what_is_the_same_without_slices() -> None:
    """seq-1f1b is no row where microbatches are whole, unless it is named, and one where they are not."""
    whole = make_problem(devices=2, stages=4)
    assert "seq-1f1b" not in [entry.algorithm for entry in compare(whole, "all")]
    assert compare(whole, ["seq-1f1b"])[0].outcome is not None
    for slices in (2, {"count": "auto", "most": 2}):
        cut = compare(make_problem(devices=2, stages=4, slices=slices), "all")
        assert [entry.algorithm for entry in cut if entry.outcome] == SLICED.replace(" and", ",").split(", ")
