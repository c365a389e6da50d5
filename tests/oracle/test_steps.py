"""The package beside the second replay of whole steps: random plans, the rule of families, side work in bubbles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, Deadlock, InvalidSchedule, Problem, Schedule, make_problem, plan, schedule_plan
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.side_work import side_schedule
from tests.examples import examples, part
from tests.oracle.drawn import Config, completed, random_rows, random_texts, step_configs, suited
from tests.oracle.replay import Stuck
from tests.oracle.step_replay import (
    COSTS,
    Illegal,
    Texts,
    Whole,
    best_ahead,
    by_rule,
    programs_of as programs_by_rule,
    replay_step,
)
from tests.oracle.step_setup import Program, Step, parse, read_step
from tests.strategies import random_saving_plan, texts_of

CHANCES = st.sampled_from([0, 0.5, 1])


def scheduled(problem: Problem, texts: Texts, *, by_rule: bool = False) -> Schedule:
    """What the package makes of a plan; `by_rule` without its network programs."""
    waits = [(behind, before) for before, behind in texts.waits]
    network = None if by_rule else [*texts.programs]
    lanes = zip(texts.transfers[::2], texts.transfers[1::2], strict=True)
    transfers = [[*offloads, *loads] for offloads, loads in lanes]
    rows = [*map(list, texts.rows)]
    return schedule_plan(problem, plan(problem, rows, waits=waits, network=network, transfers=transfers))


def programs_of(schedule: Schedule) -> list[list[tuple[str, str | None]]]:
    """The network programs of a schedule as texts; a pair's slot by its forward."""
    op = schedule.plan.index.op
    return [
        [(str(op(number)), None if after < 0 else str(op(after))) for number, after in program]
        for program in schedule.plan.network
    ]


def as_forwards(texts: Texts) -> list[list[tuple[str, str | None]]]:
    """The network programs of a plan, with pairs by their forwards."""
    return [
        [(text, None if after is None else after.removeprefix("(").partition(";")[0]) for text, after in program]
        for program in texts.programs
    ]


def require_alike(schedule: Schedule, step: Step, whole: Whole) -> None:
    """All times and metrics of a schedule are those of a replay."""
    problem, index = schedule.problem, schedule.plan.index
    ticks, grains = problem.ticks.per_unit, problem.grains.per_unit
    numbers = {
        text: index.number(op) for number in _planned(schedule) for op in [index.op(number)] for text in [str(op)]
    }
    assert {*numbers} == {*whole.start}
    assert {text: Fraction(schedule.start_ticks[one], ticks) for text, one in numbers.items()} == whole.start
    assert {text: Fraction(schedule.end_ticks[one], ticks) for text, one in numbers.items()} == whole.end
    assert Fraction(schedule.makespan_ticks, ticks) == whole.makespan
    assert [Fraction(time, ticks) for time in schedule.busy_ticks] == whole.busy
    assert [Fraction(peak, grains) for peak in schedule.peak_grains] == whole.peak
    for what in ("activations", "weights", "gradients", "side"):
        assert schedule.peak_of(what) == [*map(float, getattr(whole.peaks, what))], what
    assert [Fraction(size, grains) for size in schedule.memory_grains] == _memory(step, whole)
    assert Fraction(schedule.span_ticks, ticks) == whole.span
    assert [*violations(schedule)] == []
    found = schedule.step
    assert found is not None
    assert found.exposed == whole.exposed
    assert found.pipeline == float(whole.pipeline)
    assert found.network == float(whole.network)
    assert {key: found.cost(key) for key in COSTS} == {key: float(cost) for key, cost in whole.costs.items()}
    for key in ("gather", "reduce", "tied"):
        assert found.time(key) == [float(lane[key]) for lane in whole.lanes]


def _planned(schedule: Schedule) -> list[int]:
    rows = [number for order in schedule.plan.orders for number in order]
    backwards = [schedule.plan.pairs[number] for number in rows if number in schedule.plan.pairs]
    moved = [number for lane in schedule.plan.lanes for row in lane for number in row]
    return [*rows, *backwards, *moved, *(entry.number for program in schedule.plan.network for entry in program)]


def _memory(step: Step, whole: Whole) -> list[Fraction]:
    return [peak + static for peak, static in zip(whole.peak, step.statics(), strict=True)]


TWO = {"devices": 2, "microbatches": 1, "forward": 1}


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        (  # the earlier of two has the longer latency
            TWO | {"side": [{"forward": 1, "devices": [1], "p2p": 4}, {"forward": 1, "devices": [1]}]},
            ["0F0 0B0", "0E0 1E0 1F0 1B0"],
        ),
        (TWO | {"speed": [1, 2], "optimizer": 2, "tied": 1}, ["0F0 0B0 0OPTIMIZER", "1F0 1B0 1OPTIMIZER"]),
        (TWO | {"microbatches": 2, "side": [{"forward": [1, 3]}]}, ["0E0 0E1 0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"]),
    ],
)
def test_known_plans(config: Config, rows: list[str]) -> None:
    """Two side items of one stage; a shared reduction before optimizers of two speeds; side work of two sizes."""
    step, texts = read_step(config), Texts([row.split() for row in rows])
    texts = texts._replace(programs=[[("0REDUCE_TIED", None)], [("1REDUCE_TIED", None)]] if step.ties else [[], []])
    schedule = scheduled(make_problem(**config), texts)
    require_alike(schedule, step, replay_step(step, texts))
    assert lower_bound(schedule).ticks <= schedule.makespan_ticks


@pytest.mark.parametrize("before", ["1UNSHARD1", "0F1"])
def test_waits_of_a_slot_that_is_gathered_late(before: str) -> None:
    """Where nothing is gathered ahead, a gather waits for the data of its slot, not for what else that waits for."""
    config: Config = {"devices": 2, "microbatches": 2, "forward": [5, 1], "gather": 2}
    config |= {"shard": {"level": "weights", "ranks": 2, "gather": "each"}}
    rows, step = [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]], read_step(config)
    texts = by_rule(step, rows, fed(rows))._replace(waits=[(before, "1B0")])
    require_alike(scheduled(make_problem(**config), texts), step, replay_step(step, texts))


@pytest.mark.parametrize("kinds", [{}, {"slices": True}, {"forward_only": True}], ids=str)
def test_random_plans(kinds: dict[str, Any]) -> None:
    """Halves, pairs, recompute, side work anywhere, lanes in any order, waits: the same times and metrics."""

    @given(step_configs(**kinds), st.randoms(use_true_random=False), CHANCES, CHANCES, CHANCES)
    def judged(config: Config, random: Random, split: float, pair: float, again: float) -> None:
        step = read_step(config)
        texts = random_texts(step, random, **suited(kinds, split=split, pair=pair, again=again))
        require_alike(scheduled(make_problem(**config), texts), step, replay_step(step, texts))

    judged()


@given(step_configs(saving=True), st.randoms(use_true_random=False), CHANCES, CHANCES)
def test_random_plans_that_save_memory(config: Config, random: Random, recompute: float, offload: float) -> None:
    """The same with recompute, and activations that move to host memory and back on lanes of their own."""
    step, shape = read_step(config), {key: config[key] for key in ("devices", "stages", "microbatches", "placement")}
    chances = {"split": 0.5, "pair": 0.5, "recompute": recompute, "offload": offload}
    saved = random_saving_plan(make_problem(**shape, offload=1), random, **chances)
    texts = completed(step, saved.devices, random, saved.lanes)
    require_alike(scheduled(make_problem(**config), texts), step, replay_step(step, texts))


@given(step_configs(), st.randoms(use_true_random=False), CHANCES)
def test_changed_programs(config: Config, random: Random, pair: float) -> None:
    """A program with an entry moved, dropped, doubled or issued elsewhere runs in both, or is refused by both."""
    step = read_step(config)
    texts = random_texts(step, random, pair=pair)
    texts = texts._replace(programs=changed(texts, random), waits=())
    try:
        whole = replay_step(step, texts)
    except (Illegal, Stuck):
        with pytest.raises((InvalidSchedule, Deadlock, ConfigError)):
            scheduled(make_problem(**config), texts)
        return
    require_alike(scheduled(make_problem(**config), texts), step, whole)


def changed(texts: Texts, random: Random) -> list[Program]:
    """The programs of a plan with one change."""
    programs = [[*program] for program in texts.programs]
    device = random.randrange(len(programs))
    program, row = programs[device], texts.rows[device]
    if not program:
        return programs
    at, change = random.randrange(len(program)), random.choice(["move", "drop", "double", "issue", "give"])
    entry = program.pop(at)
    if change == "move":
        program.insert(random.randint(0, len(program)), entry)
    elif change == "double":
        program[at:at] = [entry, entry]
    elif change == "issue" and parse(entry[0]).kind != "REDUCE_TIED":
        program.insert(at, (entry[0], random.choice([None, *row])))
    elif change == "give":
        random.choice(programs).append((entry[0], None))
    return programs


@given(step_configs(), st.randoms(use_true_random=False), CHANCES, CHANCES)
def test_rule_of_families(config: Config, random: Random, split: float, pair: float) -> None:
    """Passes in any order get the same other slots, the same programs, and the same times."""
    step = read_step(config)
    rows = random_rows(step.setup, random, split=split, pair=pair)
    texts = by_rule(step, rows, fed(rows))
    schedule = scheduled(make_problem(**config), Texts(rows), by_rule=True)
    assert texts_of(schedule.plan) == [*map(list, texts.rows)]
    assert programs_of(schedule) == as_forwards(texts)
    require_alike(schedule, step, replay_step(step, texts))


@examples(10)
@given(step_configs(levels=("weights",), has_side=False), st.randoms(use_true_random=False), st.booleans())
def test_automatic_ahead(config: Config, random: Random, has_budget: bool) -> None:
    """The shortest number of stages ahead that fits; where none fits that of the least largest memory."""
    config["shard"] |= {"ahead": "auto", "gather": "ahead"}
    step = read_step(config)
    rows = random_rows(step.setup, random)
    if has_budget:
        some = replace(step, ahead=[random.randint(1, 2)] * step.setup.devices)
        config["budget"] = [max(one, 1) for one in _memory(some, replay_step(some, by_rule(some, rows)))]
        step = read_step(config)
    ahead, whole = best_ahead(step, rows)
    schedule = scheduled(make_problem(**config), Texts(rows), by_rule=True)
    assert schedule.problem.sharding.ahead == ahead
    require_alike(schedule, step, whole)


def fed(rows: Sequence[Sequence[str]]) -> list[int]:
    """The microbatches in the order of their first forwards on stage 0."""
    texts = [text for row in rows for slot in row for text in slot.strip("()").removesuffix(")OVERLAP_F_B").split(";")]
    order = [int(text[2:].partition(".")[0]) for text in texts if text.startswith("0F")]
    return [*dict.fromkeys(order)]


# Side work in bubbles beside the plain rule and the second replay, under random plans of passes.


def require_good(config: Config, rows: list[list[str]]) -> None:
    """Side work in bubbles is legal, leaves the passes in order, and is worth no less than by the plain rule."""
    problem, step = make_problem(**config), read_step(config)
    passes = plan(problem, rows)
    first, found = schedule_plan(problem, passes), side_schedule(problem, passes)
    assert found.makespan_ticks <= first.makespan_ticks
    assert found.fits or not first.fits
    assert _passes(found) == _passes(first)
    for row, other in zip(texts_of(found.plan), texts_of(first.plan), strict=True):
        updates = [text for text in other if "OPTIMIZER" in text]
        assert row[len(row) - len(updates) :] == updates
    _require_replayed(found, step)


def _passes(schedule: Schedule) -> list[list[int]]:
    return [[one for one in order if one < schedule.plan.index.passes] for order in schedule.plan.orders]


def _require_replayed(schedule: Schedule, step: Step) -> None:
    """A schedule keeps all rules, its lanes those of families, and its times are those of the second replay."""
    rows = texts_of(schedule.plan)
    texts = Texts(rows, programs_by_rule(step, rows))
    assert programs_of(schedule) == as_forwards(texts)
    require_alike(schedule, step, replay_step(step, texts))
    assert not [*violations(schedule)]


@pytest.mark.parametrize("kinds", [{}, {"slices": True}, {"forward_only": True}], ids=str)
def test_bubbles(kinds: dict[str, Any]) -> None:
    """Halves, pairs, slices, forwards, sharded weights, lanes, items of unequal times into any stage, budgets."""

    @part(4)
    @given(step_configs(has_side=True, **kinds), st.randoms(use_true_random=False), CHANCES, CHANCES)
    def judged(config: Config, random: Random, split: float, pair: float) -> None:
        chances = {"split": 0 if "forward_only" in kinds else split, "pair": 0 if kinds else pair}
        require_good(config, random_rows(read_step(config).setup, random, **chances))

    judged()
