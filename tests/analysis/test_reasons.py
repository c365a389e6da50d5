"""Why a schedule takes so long: reasons of idle time, figures, steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import (
    Deadlock,
    Explanation,
    InvalidSchedule,
    NoSchedule,
    NotApplicable,
    Problem,
    Schedule,
    explain,
    make_problem,
    plan,
    run,
    schedule_plan,
    solve,
)
from pipesched.analysis.explain import what_if, why
from pipesched.comparing.compare import every_name
from pipesched.core.reasons import Idle, legal_places
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.step import Shard, SideItem
from pipesched.pipeline.problem.ops import parse_op
from pipesched.pipeline.problem.quantities import canonical, to_fraction
from pipesched.render.explanation import move_lines
from pipesched.results.timed_moves import timed_tasks
from tests.examples import at_night_but, examples, part
from tests.oracle.drawn import Config, random_rows, small_configs
from tests.oracle.reasons import PlainSchedule, retimed
from tests.oracle.setup import read_setup
from tests.strategies import (
    SETTLED,
    placements_of,
    plan_of,
    problems,
    random_plan,
    random_saving_plan,
    saving_plan_of,
    texts_of,
    whole_steps,
    with_capacities,
)

SCALE = 10**6  # parts of a tick, more than operations
FEW = 24  # slots of which every move, and every change of slack, is tried
SIZES = st.sampled_from([None, None, "full", 1, 2])
randoms = st.randoms(use_true_random=False)
Plainly = Callable[[Schedule], PlainSchedule]


def problems_of(name: str) -> st.SearchStrategy[Problem]:
    """Problems with the stages and the placement that a family asks for."""
    return problems(placements_of(name), most_devices=4, most_microbatches=6, most_chunks=2, overlap=True, saving=True)


def budgeted(schedule: Schedule, random: Random) -> Schedule:
    """The same plan and times with a budget around its peaks: often less, sometimes a little more."""
    capacities = [peak * random.randint(1, 5) // 4 for peak in schedule.peak_grains]
    problem = with_capacities(schedule.problem, capacities)
    return Schedule(problem, schedule.plan, schedule.start_ticks, schedule.end_ticks)


def stretched(schedule: Schedule, random: Random, plain_of: Plainly = PlainSchedule) -> Schedule:
    """The same plan with times of its own: some slots later than they could be, and all those that wait for them."""
    plain, plan = plain_of(schedule), schedule.plan
    most = max(plain.makespan // 4, 2)
    release = {slot: time + random.randint(0, most) for slot, time in plain.start.items() if random.random() < 0.3}
    first = random.randint(0, most)
    release |= {slot: max(first, release.get(slot, 0)) for slot in plain.order}
    times = retimed(plain.rows, plain.arcs, plain.lengths, release)
    columns = [[-1] * plan.index.size, [-1] * plan.index.size]
    for column, of_slots in zip(columns, times, strict=True):
        for slot, time in of_slots.items():
            for op in plain.ops_of(slot):
                column[plan.index.number(parse_op(op))] = time
    found = Schedule(schedule.problem, plan, *columns)
    assert not [broken for broken in violations(found) if "budget" not in str(broken)]
    return found


def judge(schedule: Schedule, plain_of: Plainly = PlainSchedule) -> Explanation:
    """Everything that is known about a schedule is what the naive answer says."""
    found, plain = explain(schedule), plain_of(schedule)
    judge_idle(found, plain)
    judge_path(found, plain)
    judge_slack(found, plain)
    judge_sensitivities(found, plain)
    if len(plain.order) <= FEW:
        judge_moves(found, plain)
    return found


def in_ticks(time: int | float, unit: int) -> int:
    """A time of the user's unit in ticks, of which it is the nearest number."""
    ticks = round(Fraction(str(time)) * unit)
    assert time == float(Fraction(ticks, unit))
    return ticks


def judge_idle(found: Explanation, plain: PlainSchedule) -> None:
    """Each tick has the class, the culprit and the waiting slot of the naive answer; the sums are the idle time."""
    slot, schedule = found.schedule.plan.slot, found.schedule
    gaps = []
    for gap in found.gap_ticks:
        waiting = None if gap.waiting < 0 else str(slot(gap.waiting))
        gaps.append((gap.device, (gap.start, gap.end, gap.idle.value, str(slot(gap.culprit)), waiting)))
    if plain.makespan <= 300:
        assert gaps == plain.gaps(range(plain.makespan + 1))
    else:
        assert gaps == plain.gaps()
    assert [sum(row.values()) for row in found.device_ticks] == schedule.idle_ticks
    unit = schedule.problem.ticks.per_unit
    assert [
        (gap.device, in_ticks(gap.start, unit), in_ticks(gap.end, unit), str(gap.idle), str(gap.culprit))
        for gap in found.gaps
    ] == [(device, start, end, kind, culprit) for device, (start, end, kind, culprit, _) in gaps]
    unavoidable = max(schedule.problem.devices * found.bound.ticks - sum(schedule.busy_ticks), 0)
    assert in_ticks(found.unavoidable, unit) == unavoidable
    assert in_ticks(found.unavoidable, unit) + in_ticks(found.avoidable, unit) == in_ticks(found.idle, unit)


def judge_path(found: Explanation, plain: PlainSchedule) -> None:
    """The critical path goes from tight predecessor to tight predecessor, and adds up to the makespan."""
    path = [str(slot) for slot in found.critical_path]
    assert path == plain.critical_path
    assert plain.allowed[path[0]] == 0
    total = 0
    for before, slot in pairwise([None, *path]):
        assert slot is not None
        arc = plain.tight(slot)
        assert (arc.before if arc else None) == before
        late = plain.start[slot] - plain.allowed[slot]
        total += (arc.lag if arc else 0) + late + plain.lengths[slot]
    assert total == plain.makespan == found.schedule.makespan_ticks


def judge_slack(found: Explanation, plain: PlainSchedule) -> None:
    """A slot may end later by its slack, and not by one tick more."""
    unit = found.schedule.problem.ticks.per_unit
    slack = {slot: in_ticks(time, unit) for slot, time in found.slack.items()}
    assert slack.keys() == set(plain.order)
    for slot in plain.order if len(plain.order) <= FEW else plain.order[:: len(plain.order) // FEW]:
        most = plain.start[slot] + slack[slot]
        assert plain.with_release({slot: most}) == plain.makespan
        assert plain.with_release({slot: most + 1}) == plain.makespan + 1


def judge_sensitivities(found: Explanation, plain: PlainSchedule) -> None:
    """What a tick more or less of each cost does is what a tiny change of it does."""
    whole = plain.makespan_with(SCALE, None, 0)
    rows = {(row.stage, row.kind): (row.faster, row.slower) for row in found.sensitivity}
    assert list(rows) == sorted({row for slot in plain.order for row in plain.costs_of(slot)})
    on_path = Counter(row for slot in plain.critical_path for row in plain.costs_of(slot))
    assert {(row.stage, row.kind): row.on_path for row in found.sensitivity} == {row: on_path[row] for row in rows}
    is_early = plain.earliest() == (plain.start, plain.end)
    for row in found.sensitivity:
        changed = (plain.makespan_with(SCALE, (row.stage, row.kind), by) for by in (-1, 1))
        assert [whole - row.faster, whole + row.slower] == [*changed]
        assert not is_early or row.faster <= row.on_path <= row.slower
    assert [row.boundary for row in found.p2p_sensitivity] == [*range(found.schedule.problem.stages - 1)]
    for latency in found.p2p_sensitivity:
        boundary = latency.boundary
        less = whole - plain.makespan_with(SCALE, boundary, -1) if plain.least_hops[boundary] else 0
        assert (latency.faster, latency.slower) == (less, plain.makespan_with(SCALE, boundary, 1) - whole)


def judge_moves(found: Explanation, plain: PlainSchedule) -> None:
    """Legal places are those that run; the moves listed are the ten shortest that differ, of all single moves.

    Places side by side that take as long are one move.
    """
    whole = max(plain.earliest()[1][slot] for slot in plain.on_device)
    places: dict[str, list[int]] = {}
    best: dict[tuple[tuple[str, ...], ...], int] = {}
    for slot, start, to, rows, makespan in plain.every_move():
        if makespan is None:
            continue
        places.setdefault(slot, []).append(to)
        if start != to and makespan < whole:
            best[tuple(map(tuple, rows))] = makespan
    tasks, slot_of = timed_tasks(found.schedule), found.schedule.plan.slot
    chosen = [task for order in found.schedule.plan.orders for task in order]
    for task, (first, last) in zip(chosen, legal_places(tasks, chosen), strict=True):
        assert places[str(slot_of(task))] == [*range(first, last + 1)]
    unit = found.schedule.problem.ticks.per_unit
    listed = [in_ticks(move.makespan, unit) for move in found.moves]
    assert listed == sorted(listed)
    assert found.moves_complete
    orders, made = [], set[tuple[tuple[str, ...], ...]]()
    for move in found.moves:
        row = plain.rows[move.device]
        assert row[move.start] == str(move.slot)
        rest = [slot for slot in row if slot != str(move.slot)]
        for to in (*range(move.first, move.last + 1), move.to):
            rows = [*plain.rows]
            rows[move.device] = [*rest[:to], str(move.slot), *rest[to:]]
            made.add(tuple(map(tuple, rows)))
            assert best[tuple(map(tuple, rows))] == in_ticks(move.makespan, unit)
        orders.append(tuple(map(tuple, rows)))
        beside = [(one.slot, one.makespan, one.first) for one in found.moves]
        assert (move.slot, move.makespan, move.last + 1) not in beside
        peak = plain.peak(move.device, rows, *plain.earliest(rows)) / plain.problem.grains.per_unit
        assert float(move.peak_memory) == pytest.approx(float(peak))
        held, limits = float(peak) + _static(plain.problem, move.device), plain.problem.memory.budget
        assert move.memory == pytest.approx(held)
        assert move.fits == (limits is None or held <= float(limits[move.device]) + 1e-9)
    assert len(set(orders)) == len(orders)
    longest = max(best.values(), default=0) + 1 if len(found.moves) < 10 else listed[-1]
    assert {order for order, makespan in best.items() if makespan < longest} <= made


def _static(problem: Problem, device: int) -> float:
    """What the weights of a device take, of both copies where both directions run."""
    placement = problem.settled_placement
    copies = [device, problem.devices - 1 - device] if placement.mirrored else [device]
    sizes = [
        size
        for copy in copies
        for size, home in zip(problem.memory.static, placement.devices, strict=True)
        if home == copy
    ]
    return float(sum(sizes))


def drawn(problem: Problem, random: Random) -> Schedule:
    """A random plan that keeps every rule, with pairs, halves, recompute, offloads and wait edges."""
    chances = [random.choice([0, 0.3, 0.7]) for _ in range(3)]
    texts = random_saving_plan(
        problem, random, split=chances[0], pair=chances[1], recompute=chances[2], offload=0.4, wait=0.1
    )
    return schedule_plan(problem, saving_plan_of(problem, texts))


def varied(
    schedule: Schedule, random: Random, *, budget: bool, late: bool, plain_of: Plainly = PlainSchedule
) -> Schedule:
    """The schedule with a budget, and with times of its own, if asked for."""
    schedule = budgeted(schedule, random) if budget else schedule
    return stretched(schedule, random, plain_of) if late else schedule


@pytest.mark.parametrize("name", at_night_but(every_name({})[::4], every_name({})))
@pytest.mark.slow
def test_families(name: str) -> None:
    """Schedules of every family, with budgets, recompute and offload, and with later times, are explained as by the
    naive answer."""

    @part(4)
    @given(problems_of(name), SIZES, SIZES, st.booleans(), st.booleans(), randoms)
    def judged(problem: Problem, recompute: Any, offload: Any, budget: bool, late: bool, random: Random) -> None:
        try:
            schedule = run(problem, name, recompute=recompute, offload=offload).schedule
        except NotApplicable:
            return
        judge(varied(schedule, random, budget=budget, late=late))

    judged()


@given(
    problems(SETTLED, most_devices=3, most_microbatches=3, most_chunks=2, overlap=True, saving=True),
    st.booleans(),
    st.booleans(),
    randoms,
)
@examples(150)
@pytest.mark.slow
def test_random_plans(problem: Problem, budget: bool, late: bool, random: Random) -> None:
    """Random legal plans are explained as by the naive answer."""
    judge(varied(drawn(problem, random), random, budget=budget, late=late))


@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(lambda how: small_configs(slices=how[0], forward_only=how[1])),
    st.booleans(),
    st.booleans(),
    randoms,
)
@examples(150)
def test_random_plans_of_units(config: Config, budget: bool, late: bool, random: Random) -> None:
    """The same of microbatches that differ, of slices and of forwards alone."""
    setup = read_setup(config)
    split, pair = (0.0, 0.0) if setup.forward_only else (random.choice([0, 0.5, 1]), random.choice([0, 0.5]))
    texts = random_rows(setup, random, split=split, pair=pair)
    problem = make_problem(**{**config, "budget": None})
    schedule = schedule_plan(problem, plan(problem, texts))

    def plain_of(schedule: Schedule) -> PlainSchedule:
        return PlainSchedule(schedule, setup)

    judge(varied(schedule, random, budget=budget, late=late, plain_of=plain_of), plain_of)


@given(
    problems(("linear", "loop", "v"), most_devices=2, most_microbatches=3, most_chunks=2, least=1, saving=True),
    st.booleans(),
    st.booleans(),
    randoms,
)
@examples(25)
@pytest.mark.slow
def test_solves(problem: Problem, offload: bool, recompute: bool, random: Random) -> None:
    """Solves under a tight budget, with offload and recompute, are explained as by the naive answer."""
    floors = [least_capacity(problem, device) for device in range(problem.devices)]
    problem = with_capacities(problem, [floor + random.randint(0, floor) for floor in floors])
    try:
        outcome = solve(problem, offload=offload, recompute=recompute, workers=1, time_limit=1)
    except NoSchedule:
        return
    judge(outcome.schedule)
    assert explain(outcome).bound == outcome.bound
    assert explain(outcome).algorithm == outcome.algorithm


def default(**values: Any) -> Problem:
    """Four devices, eight microbatches, eight stages of 5 and 10: 10 and 20 where two are fused."""
    given = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}
    return make_problem(**{**given, **values})


def test_broken_rules() -> None:
    """Times that break a rule, of operations that wait for each other perhaps, are refused."""
    schedule = run(make_problem(devices=1, microbatches=1, forward=1, backward=2), "1f1b").schedule
    [order] = schedule.plan.orders
    for moved, starts, ends in (
        (replace(schedule.plan, orders=[order[::-1]]), [2, 0], [3, 2]),
        (schedule.plan, [0, 0], [1, 2]),
    ):
        broken = Schedule(schedule.problem, moved, starts, ends)
        with pytest.raises(InvalidSchedule, match="breaks the rules"):
            explain(broken)
        with pytest.raises(InvalidSchedule, match="breaks the rules"):
            why(broken, "0F0")


def test_a_circle_of_no_length() -> None:
    """Operations of no length that wait for each other at one time break no rule of times, but cannot run."""
    problem = make_problem(devices=1, stages=2, microbatches=2, forward=[3, 0], backward=0, placement=[0, 0])
    texts = [["0F0", "0F1", "1B0", "1F0", "1F1", "1B1", "0B0", "0B1"]]
    made = plan_of(problem, texts)
    starts = [6] * made.index.size
    ends = [*starts]
    for text, start in (("0F0", 0), ("0F1", 3)):
        number = made.index.number(parse_op(text))
        starts[number], ends[number] = start, start + 3
    schedule = Schedule(problem, made, starts, ends)
    with pytest.raises(Deadlock):
        explain(schedule)
    with pytest.raises(Deadlock):
        why(schedule, "1F0")


def test_too_many_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many operations to time only the first moves are tried, and that is said; a move that gains may lack."""
    problem = make_problem(devices=4, stages=8, microbatches=4, p2p=1, forward=5, backward=10)
    complete = explain(run(problem, "zb-v"))
    monkeypatch.setattr("pipesched.results.timed_moves.MOST_RETIMED", 1)
    found = explain(run(problem, "zb-v"))
    assert complete.moves_complete
    assert not found.moves_complete
    assert len(found.moves) <= 1


def test_moves_in_words() -> None:
    """That no move gains is said only where all were timed."""
    found = explain(run(default(), "1f1b"))
    assert [*map(str, move_lines(found))] == ["no single move of one operation in the order of its device shortens it"]
    assert [*map(str, move_lines(replace(found, moves_complete=False)))] == [
        "none of the single moves that were timed shortens it; not all were timed"
    ]


LITTLE = Fraction(1, 100_000)
COLUMNS = {"UNSHARD": "gather", "REDUCE_GRAD": "reduce", "OPTIMIZER": "optimizer", "E": "forward", "G": "backward"}
ITEM = SideItem(forward=(2,), backward=(4,), devices=(0, 1), p2p=1)
F_AND_B: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 10, "backward": 20, "gather": 15, "reduce": 30, "optimizer": 5,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "devices": 2, "stages": 4, "microbatches": 2, "forward": 5, "backward": 10, "gather": 4, "reduce": 3,
    "optimizer": 2, "tied": 1, "side": (ITEM,),
}  # fmt: skip


def small() -> Schedule:
    """A schedule with every kind of operation, at level weights."""
    return run(
        make_problem(shard=Shard("weights", ahead=1), weights=2, gradients=4, states=12, **SMALL), "interleaved"
    ).schedule


def test_lanes_make_time_of_the_class_transfer() -> None:
    """A device that waits for a gather or a reduction idles for a transfer, whose text is the culprit."""
    found = explain(run(make_problem(**F_AND_B, tied=8), "1f1b"))
    told = {(gap.device, gap.idle, str(gap.culprit), str(gap.waiting)) for gap in found.gaps}
    assert (0, Idle.TRANSFER, "0REDUCE_GRAD", "0OPTIMIZER") in told
    assert (3, Idle.TRANSFER, "0REDUCE_GRAD", "3OPTIMIZER") in told
    assert (0, Idle.TRANSFER, "0UNSHARD0", "0F0") in told
    assert found.totals[Idle.TRANSFER] == 257
    assert sum(found.totals.values()) == found.idle == 4 * 388 - 8 * 4 * 30 - 4 * 5
    assert [str(slot) for slot in found.critical_path][:2] == ["0UNSHARD0", "0F0"]
    assert [str(slot) for slot in found.critical_path][-3:] == ["0REDUCE_GRAD", "0REDUCE_TIED", "0OPTIMIZER"]
    assert found.slack["1REDUCE_GRAD"] == 388 - 5 - 355


def test_changed_costs_of_the_step() -> None:
    """A cost of the step that is a tenth lower is judged in the same order, and planned again."""
    problem = make_problem(**F_AND_B, tied=8)
    schedule = run(problem, "1f1b").schedule
    found = [what_if(schedule, 0, kind, Fraction(9, 10), lambda one: run(one, "1f1b"))
             for kind in ("UNSHARD", "REDUCE_GRAD", "OPTIMIZER", "REDUCE_TIED")]  # fmt: skip
    assert found == [(386.5, 386.5), (385, 385), (388, 388), (387.2, 387.2)]


def changed(problem: Problem, place: int, kind: str, more: Fraction) -> Problem | None:
    """The problem with a cost of its step so much higher; None where it does not have it, or that would be below 0."""
    if kind in ("E", "G"):
        item = problem.side[place]
        column = [to_fraction(one) + more for one in getattr(item, COLUMNS[kind])]
        other: Any = {COLUMNS[kind]: tuple(map(canonical, column))}
        side = (*problem.side[:place], replace(item, **other), *problem.side[place + 1 :]) if min(column) >= 0 else ()
        return replace(problem, side=side) if side else None
    if kind == "REDUCE_TIED":
        tied = to_fraction(problem.costs.tied) + more
        return replace(problem, costs=replace(problem.costs, tied=canonical(tied))) if tied >= 0 else None
    costs = getattr(problem.costs, COLUMNS[kind])
    column = [to_fraction(one) + more * (stage == place) for stage, one in enumerate(costs or ())]
    changes: Any = {COLUMNS[kind]: tuple(map(canonical, column))}
    return replace(problem, costs=replace(problem.costs, **changes)) if costs and min(column) >= 0 else None


@given(problem=whole_steps(), random=st.randoms(use_true_random=False))
def test_sensitivities_are_exact(problem: Problem, random: Random) -> None:
    """A little more or less of each cost of the step does what its row says, of side work for all microbatches."""
    problem = replace(problem, speed=None)
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    before = Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)
    for row in explain(schedule).sensitivity:
        if row.kind not in (*COLUMNS, "REDUCE_TIED"):
            continue
        for more, by in ((LITTLE, row.slower), (-LITTLE, -row.faster)):
            other = changed(schedule.problem, row.stage, row.kind, more)
            if other is not None:
                after = schedule_plan(other, schedule.plan)
                gained = Fraction(after.makespan_ticks, other.ticks.per_unit) - before
                assert gained == LITTLE * by, (row, more)


def legal_moves(schedule: Schedule) -> Iterator[tuple[str, int, int, int | float]]:
    """Every move of a slot with a legal program, by texts: slot, from, to, and the makespan after it."""
    problem, old = schedule.problem, schedule.plan
    orders, text = texts_of(old), old.index.op
    kept = [[(str(text(one)), None if after < 0 else str(text(after))) for one, after in lane] for lane in old.network]
    for device, order in enumerate(orders):
        for start, slot in enumerate(order):
            for to in (to for to in range(len(order)) if to != start):
                rest = [*order[:start], *order[start + 1 :]]
                rows = [*orders[:device], [*rest[:to], slot, *rest[to:]], *orders[device + 1 :]]
                try:
                    ruled = schedule_plan(problem, plan(problem, rows))
                    rule = {str(ruled.plan.index.op(one)): after for one, after in ruled.plan.network[device]}
                    if {*rule} != {op for op, _ in kept[device]}:
                        continue
                    names = {op: None if after < 0 else str(ruled.plan.index.op(after)) for op, after in rule.items()}
                    network = [*kept[:device], [(op, names[op]) for op, _ in kept[device]], *kept[device + 1 :]]
                    yield (slot, start, to, schedule_plan(problem, plan(problem, rows, network=network)).makespan)
                except InvalidSchedule:
                    continue


@part(4)
@given(problem=whole_steps(most_microbatches=2), random=st.randoms(use_true_random=False))
@pytest.mark.slow
def test_moves_are_all_that_shorten(problem: Problem, random: Random) -> None:
    """The best move is as short as the best of all moves with a legal program, and each is one of them."""
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    found = explain(schedule)
    every = {move[:3]: move[3] for move in legal_moves(schedule)}
    best = min(every.values(), default=schedule.makespan)
    assert (found.moves[0].makespan if found.moves else schedule.makespan) == min(best, schedule.makespan)
    for move in found.moves:
        assert every[str(move.slot), move.start, move.to] == move.makespan


def test_why_of_lanes() -> None:
    """A gather says what it waits for, and on which lane it is."""
    found = why(small(), "2UNSHARD0")
    assert (found.place, found.start, found.slack) == ("the network lane of device 0", 14, 0)
    assert [(str(one.slot), one.what, one.there) for one in found.inputs] == [("0UNSHARD0", "order", 4),
                                                                            ("0F1", "wait", 14)]  # fmt: skip


@pytest.mark.parametrize("op", ["0RESHARD0", "5UNSHARD0"])
def test_why_of_none(op: str) -> None:
    """What occupies nothing, and what is none, has no reason."""
    with pytest.raises(Exception, match="does not run in this schedule"):
        why(small(), op)
