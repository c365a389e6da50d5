"""Microbatches that differ, slices and forward passes alone: every family and every bound beside the second replay."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import NotApplicable, Outcome, Plan, Schedule, algorithms, make_problem, run, schedule_plan
from pipesched.comparing.compare import every_name
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.plan.plan import plan_from_slots
from pipesched.pipeline.problem.ops import parse_slot
from pipesched.schedulers.registry import family
from tests.examples import examples, part
from tests.oracle import orders
from tests.oracle.alike import require_replayed
from tests.oracle.drawn import PLACEMENTS, Config, configs, random_rows, small_configs
from tests.oracle.optimum import head_work_tail, optimum
from tests.oracle.replay import Stuck, replay
from tests.oracle.setup import fused, read_setup
from tests.strategies import texts_of

WITH_SLICES = [one.name for one in algorithms() if one.slices]
FORWARD_ONLY = ("naive", "interleaved", "looped-bfs", "sequential", "list")
randoms, chances = st.randoms(use_true_random=False), st.sampled_from([0, 0.5, 1])
KINDS = {"linear": (None, "linear"), "loop": (None, "loop"), "any": (None, *PLACEMENTS)}


def placements_of(name: str) -> tuple[str | None, ...]:
    """The placements with which a config suits a family."""
    kind = family(name).placement
    both = {1: (None, kind), 2: ("two-v",)}
    return {**KINDS, "v": ("v",), "wave": ("v",), "bidirectional": both[family(name).chunks]}.get(kind, (None, kind))


def judge(outcome: Outcome, config: Config) -> None:
    """The schedule is as the second replay says, and its bound no longer."""
    schedule = outcome.schedule
    judge_schedule(schedule, config)
    assert outcome.bound.ticks <= schedule.makespan_ticks
    assert (outcome.status == "optimal") == (outcome.bound.ticks == schedule.makespan_ticks)


def judge_schedule(schedule: Schedule, config: Config) -> None:
    """No rule is broken, and every time, metric and peak is that of the second replay."""
    problem, placement = schedule.problem, schedule.problem.settled_placement
    setup = fused(read_setup(config), problem.stages, placement.devices, mirrored=placement.mirrored)
    require_replayed(schedule, setup)


def plan_of(config: Config, rows: Sequence[Sequence[str]]) -> Plan:
    """The plan that these texts spell."""
    setup, slots = read_setup(config), [[*map(parse_slot, row)] for row in rows]
    return plan_from_slots(slots, setup.stages, setup.microbatches, slices=setup.slices)


KINDS_OF_CONFIGS: dict[str, dict[str, bool]] = {
    "unlike microbatches": {},
    "pairs of a given length": {"pairs": True},
    "slices": {"slices": True},
    "forwards": {"forward_only": True},
    "forwards of slices": {"slices": True, "forward_only": True},
}


@pytest.mark.parametrize("kind", KINDS_OF_CONFIGS)
def test_random_plans(kind: str) -> None:
    """Any plan that keeps the rules, halves and pairs included, is as the second replay says, its bound no longer."""
    given_kinds = KINDS_OF_CONFIGS[kind]

    @given(configs(PLACEMENTS, **given_kinds), randoms, chances, chances)
    def judged(config: Config, random: Random, split: float, pair: float) -> None:
        chosen = (0.0, 0.0) if "forward_only" in given_kinds else (split, 1.0 if "pairs" in given_kinds else pair)
        problem, rows = make_problem(**config), random_rows(read_setup(config), random, split=chosen[0], pair=chosen[1])
        plan = plan_of(config, rows)
        assert texts_of(plan) == rows
        schedule = schedule_plan(problem, plan)
        judge_schedule(schedule, config)
        assert lower_bound(schedule).ticks <= schedule.makespan_ticks

    judged()


NAMES = every_name({})
RUNS = [  # family, kinds of configs, a part of the examples
    *((name, {}, 4) for name in NAMES),
    *((name, {"saving": True}, 8) for name in NAMES),
    *((known.name, {"pairs": True}, 4) for known in algorithms() if known.has_pairs),
    *((name, {"slices": True}, 2) for name in WITH_SLICES),
    *((name, {"forward_only": True, "slices": cut}, 4) for name in FORWARD_ONLY for cut in (False, True)),
]


@pytest.mark.parametrize(("name", "kinds", "divisor"), RUNS)
def test_families(name: str, kinds: dict[str, bool], divisor: int) -> None:
    """Every family's times, metrics and peaks are those of the second replay, with savings, pairs, slices, forwards."""

    @part(divisor)
    @given(configs(placements_of(name), **kinds), st.integers(0, 4), st.integers(0, 4))
    def judged(config: Config, recompute: int, offload: int) -> None:
        options = {"recompute": recompute or None, "offload": offload or None} if "saving" in kinds else {}
        odd = config["devices"] % 2 or (name == "dualpipe" and config["microbatches"] % 2)
        if name in ("dualpipe", "chimera", "bitpipe") and odd:
            with pytest.raises(NotApplicable, match="even number"):
                run(make_problem(**config), name, **options)
            return
        try:
            outcome = run(make_problem(**config), name, **options)
        except NotApplicable:
            assert {*kinds} & {"saving", "pairs"}
            return
        judge(outcome, config)

    judged()


def judge_bound(config: Config, random: Random, has_budget: bool) -> None:
    """The bound of any plan is at least a way in, work and a way out, and at most the best of all orders.

    The budget is one that the plan just meets.
    """
    setup, split = read_setup(config), random.choice([0, 1])
    letters = "F" if setup.forward_only else "FIW" if split else "FB"
    assume(len(setup.units) * setup.stages * len(letters) <= 18)
    rows = random_rows(setup, random, split=split)
    if has_budget:
        held = zip(replay(setup, rows).peak, setup.statics(), strict=True)
        config = config | {"budget": [max(peak + static, Fraction(1, 100)) for peak, static in held]}
    schedule = schedule_plan(make_problem(**config), plan_of(config, rows))
    assert schedule.fits
    setup, bound = read_setup(config), Fraction(lower_bound(schedule).ticks, schedule.problem.ticks.per_unit)
    best = optimum(setup, letters)
    assert best is not None
    assert head_work_tail(setup, letters) <= bound <= best


few: Any = {"most_devices": 3, "most_microbatches": 4, "least": 1}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [{}, {"slices": True}, {"forward_only": True}], ids=str)
def test_bounds(kinds: dict[str, bool]) -> None:
    """No bound is above the optimum over every order, with a budget and without."""

    @examples(100)
    @given(configs(PLACEMENTS, **kinds, **few), randoms, st.booleans())
    def judged(config: Config, random: Random, has_budget: bool) -> None:
        judge_bound(config, random, has_budget)

    judged()


@pytest.mark.slow
@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(lambda kinds: small_configs(slices=kinds[0], forward_only=kinds[1]))
)
def test_list_within_a_budget(config: Config) -> None:
    """list finds an order that fits wherever one microbatch fits, no shorter than the best of all."""
    schedule = run(make_problem(**config), "list").schedule
    best = optimum(read_setup(config), schedule.plan.index.letters)
    assert schedule.fits
    assert best is not None
    assert best * schedule.problem.ticks.per_unit <= schedule.makespan_ticks


sizes = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))


def plan_texts(name: str, p: int, chunks: int, m: int, n: int, **options: Any) -> list[list[str]]:
    """The plan of a family, as texts."""
    mode = options.pop("mode", "train")
    problem = make_problem(devices=p, stages=p * chunks, microbatches=m, slices=n, mode=mode)
    return texts_of(run(problem, name, **options).schedule.plan)


@given(sizes)
def test_orders_of_slices(sizes: tuple[int, int, int]) -> None:
    """seq-1f1b, naive and sequential run units in the orders of their rules."""
    p, m, n = sizes
    assert plan_texts("seq-1f1b", p, 1, m, n) == orders.seq_1f1b(p, m, n)
    assert plan_texts("naive", p, 1, m, n) == orders.naive(p, m, n)
    assert plan_texts("sequential", p, 1, m, n) == orders.sequential(p, m, n)


@given(sizes, st.integers(1, 3), st.one_of(st.none(), st.integers(1, 6)))
def test_groups_of_slices(sizes: tuple[int, int, int], chunks: int, group: int | None) -> None:
    """interleaved runs groups of P/n microbatches or a larger number that runs, and given ones if they run."""
    p, m, n = sizes
    setup = read_setup({"devices": p, "stages": p * chunks, "microbatches": m, "slices": n, "placement": "loop"})

    def runs(rows: orders.Rows) -> bool:
        try:
            replay(setup, rows)
        except Stuck:
            return False
        return True

    if group is not None:
        rows = orders.interleaved(p, chunks, m, n, group)
        if runs(rows):
            assert plan_texts("interleaved", p, chunks, m, n, group_size=group) == rows
        else:
            with pytest.raises(NotApplicable, match="deadlocks"):
                plan_texts("interleaved", p, chunks, m, n, group_size=group)
        return
    assume(n > 1 or m % p == 0)  # else the best group is searched
    wanted = -(-p // n)
    tried = [orders.interleaved(p, chunks, m, n, size) for size in range(wanted, max(m, wanted) + 1)]
    running = [rows for rows in tried if runs(rows)]
    found = plan_texts("interleaved", p, chunks, m, n)
    assert found in running
    assert found == tried[0] or not runs(tried[0])


@given(sizes, st.integers(1, 3), st.integers(1, 6))
def test_orders_of_forward_passes(sizes: tuple[int, int, int], chunks: int, group: int) -> None:
    """Forward only: all units in turn; in groups through the chunks; or all through one chunk before the next."""
    p, m, n = sizes
    for name in ("naive", "sequential"):
        assert plan_texts(name, p, 1, m, n, mode="forward") == orders.forward_naive(p, m, n)
    if n > 1 or m % p == 0:  # else the best group is searched
        loop = orders.forward_interleaved(p, chunks, m, n)
        assert plan_texts("interleaved", p, chunks, m, n, mode="forward") == loop
    rows = orders.forward_interleaved(p, chunks, m, n, group)
    assert plan_texts("interleaved", p, chunks, m, n, mode="forward", group_size=group) == rows
    assert plan_texts("looped-bfs", p, chunks, m, n, mode="forward") == orders.forward_looped_bfs(p, chunks, m, n)
