"""The option `order` of every family: as listed, by rule, and the best."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, NoSchedule, Outcome, Problem, make_problem, run
from pipesched.comparing.compare import every_name
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.ordering import rules
from pipesched.schedulers.registry import family
from tests.examples import at_night_but, examples, part
from tests.oracle import orders
from tests.oracle.drawn import Config, configs
from tests.pipeline.test_units import judge_schedule, placements_of, randoms
from tests.strategies import texts_of

RISING = [1, 2, 3, 4, 5, 6]
BLOCK = {"period": 20, "forward": [0, 2], "backward": [8, 4]}
few: Any = {"most_devices": 3, "most_microbatches": 4}


def six(**values: Any) -> Problem:
    """Six microbatches of work 1 to 6 on four devices."""
    return make_problem(devices=4, sizes={"work": RISING}, **values)


def suits(config: Config, name: str) -> bool:
    """Whether a family has a plan for these numbers of devices and microbatches."""
    return not (
        (name in ("dualpipe", "chimera", "bitpipe") and config["devices"] % 2)
        or (name == "dualpipe" and config["microbatches"] % 2)
    )


def fitting(name: str, **most: Any) -> st.SearchStrategy[Config]:
    """Configs for a family."""
    return configs(placements_of(name), **most).filter(lambda config: suits(config, name))


def applied(config: Config, name: str, **options: Any) -> Outcome:
    """The outcome of a family."""
    return run(make_problem(**config), name, **options)


def in_order(config: Config, order: list[int]) -> Config:
    """The config whose i-th microbatch is order[i] of this one."""
    m = config["microbatches"]

    def taken(value: Any, key: str) -> Any:
        tables = ("forward", "backward", "backward_input", "backward_weight", "activation", "p2p")
        if key == "sizes":
            return {name: [row[one] for one in order] for name, row in value.items()}
        if key not in tables or not isinstance(value, list):
            return value
        return [[row[one] for one in order] if isinstance(row, list) and len(row) == m else row for row in value]

    return {key: taken(value, key) for key, value in config.items()}


def worth(outcome: Outcome) -> tuple[bool, Fraction]:
    """What decides between orders: whether it is over the budget, and its makespan."""
    schedule = outcome.schedule
    return not schedule.fits, Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)


def with_budget(config: Config, outcome: Outcome) -> Config:
    """The config with a budget that the schedule just meets."""
    return config | {"budget": [max(held, Fraction(1, 100)) for held in map(Fraction, outcome.schedule.memory)]}


@pytest.mark.parametrize("name", at_night_but(every_name({})[::2], every_name({})))
@pytest.mark.slow
def test_an_order_is_a_plan_of_the_microbatches_in_it(name: str) -> None:
    """Times, makespan and peaks are those of the second replay of microbatches in that order; the data keep their
    numbers, and no rule is broken."""

    @part(4)
    @given(fitting(name), randoms)
    def judged(config: Config, random: Random) -> None:
        order = random.sample(range(config["microbatches"]), config["microbatches"])
        outcome, fed = applied(config, name, order=order), applied(in_order(config, order), name)
        assert list(violations(outcome.schedule)) == []
        assert texts_of(outcome.schedule.plan) == renamed(texts_of(fed.schedule.plan), order)
        judge_schedule(fed.schedule, in_order(config, order))
        assert outcome.schedule.makespan_ticks == fed.schedule.makespan_ticks
        assert outcome.schedule.peak_grains == fed.schedule.peak_grains
        assert outcome.bound.ticks <= outcome.schedule.makespan_ticks
        assert outcome.order == tuple(order)

    judged()


def renamed(rows: list[list[str]], order: list[int]) -> list[list[str]]:
    """The rows with the i-th microbatch called order[i], pairs too."""

    def one(text: str) -> str:
        if not text.startswith("("):
            return orders.renamed([[text]], order)[0][0]
        forward, backward = text[1:].removesuffix(")OVERLAP_F_B").split(";")
        return f"({one(forward)};{one(backward)})OVERLAP_F_B"

    return [[*map(one, row)] for row in rows]


def judge_best_of_many(config: Config, name: str, random: Random) -> None:
    """No rule gives a better one, with a budget and without, and the answer is the same again."""
    if random.random() < 0.5:
        config = with_budget(config, applied(config, name, order="verl"))
    try:
        best = applied(config, name, order="best")
    except NoSchedule:
        assert family(name).obeys_budget
        return
    for order in rules(best.problem):
        try:
            assert worth(best) <= worth(applied(config, name, order=order))
        except NoSchedule:
            assert family(name).obeys_budget
    again = applied(config, name, order="best")
    assert (again.ordering, texts_of(again.schedule.plan)) == (best.ordering, texts_of(best.schedule.plan))


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of a few orders."""
    for limit, value in (("ALWAYS_TRIED", 0), ("MOST_TIMED", 0), ("MOST_ORDERS", 400)):
        monkeypatch.setattr(f"pipesched.schedulers.ordering.{limit}", value)


@pytest.mark.parametrize("name", ["1f1b", "naive", "interleaved", "zb-h1", "chimera", "dualpipe-v", "1f1b-v"])
@pytest.mark.usefixtures("few_steps")
def test_never_worse_than_a_rule(name: str) -> None:
    """A search ends with no worse than the microbatches as given, verl's order, and both orders by work."""

    @part(8)
    @given(fitting(name, most_devices=3, most_microbatches=9), randoms)
    def judged(config: Config, random: Random) -> None:
        judge_best_of_many(config, name, random)

    judged()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["list", "hanayo", "zb-auto"])
def test_never_worse_where_each_order_is_planned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of families that plan each order anew, of any number of microbatches."""
    monkeypatch.setattr("pipesched.schedulers.ordering.MOST_PLANS", 10)
    monkeypatch.setattr("pipesched.schedulers.ordering.MOST_TIMED", 200)

    @examples(10)
    @given(fitting(name, most_devices=2, most_microbatches=5), randoms)
    def judged(config: Config, random: Random) -> None:
        judge_best_of_many(config, name, random)

    judged()


@pytest.mark.parametrize(
    ("name", "rule", "makespan", "order"),
    [
        ("1f1b", "given", 103, (0, 1, 2, 3, 4, 5)),
        ("1f1b", "verl", 98, (1, 3, 5, 4, 2, 0)),
        ("1f1b", "best", 96, (0, 1, 2, 5, 4, 3)),
        ("1f1b", [5, 4, 3, 2, 1, 0], 105, (5, 4, 3, 2, 1, 0)),
        ("eager-1f1b", "given", 106, (0, 1, 2, 3, 4, 5)),
        ("eager-1f1b", "best", 103, (1, 2, 0, 5, 3, 4)),
        ("naive", "best", 117, (0, 1, 2, 3, 4, 5)),
    ],
)
def test_six_of_rising_work(name: str, rule: Any, makespan: int, order: tuple[int, ...]) -> None:
    """What the rules and all 720 orders take of work 1 to 6 on four devices, B twice F."""
    outcome = run(six(), name, order=rule)
    assert (outcome.schedule.makespan, outcome.order, outcome.schedule.order) == (makespan, order, order)


def test_what_is_known_of_the_best() -> None:
    """That all orders were tried, how many, and what the rules take; of equal microbatches each order once."""
    ordering = run(six(), "1f1b", order="best").ordering
    assert ordering is not None
    assert (ordering.exact, ordering.tried, ordering.given, ordering.verl) == (True, 720, 103, 98)
    one_long = make_problem(devices=4, sizes={"work": [1] * 7 + [9]})
    ordering = run(one_long, "1f1b", order="best").ordering
    assert ordering is not None
    assert (ordering.order, ordering.exact, ordering.tried) == ((0, 1, 2, 7, 3, 4, 5, 6), True, 8)
    many = run(make_problem(devices=2, sizes={"work": range_of(16)}), "1f1b", order="best").ordering
    assert many is not None
    assert (many.exact, many.tried) == (False, 40_000)


def range_of(count: int) -> list[int]:
    """1 to `count`."""
    return [*range(1, count + 1)]


@pytest.mark.parametrize("rule", ["given", "verl", "best"])
def test_alike_microbatches(rule: str) -> None:
    """A rule is no order of its own where all microbatches are alike, also by a table that says the same of each."""
    for problem in (make_problem(devices=4), make_problem(devices=2, forward=[[1, 1], 2])):
        plain, outcome = run(problem, "1f1b"), run(problem, "1f1b", order=rule)
        assert outcome.ordering is None
        assert texts_of(outcome.schedule.plan) == texts_of(plain.schedule.plan)


def test_both_ways() -> None:
    """The first half of the order enters at device 0, the second half at the last device."""
    outcome = run(make_problem(devices=2, microbatches=4), "chimera", order=[3, 1, 2, 0])
    rows = texts_of(outcome.schedule.plan)
    assert [[text for text in row if "F" in text] for row in rows] == [
        ["0F3", "1F2", "0F1", "1F0"],
        ["0F2", "1F3", "0F0", "1F1"],
    ]
    assert outcome.problem.settled_placement.second == (0, 2)
    assert outcome.order == outcome.schedule.order == (3, 1, 2, 0)


def test_an_order_beside_recompute() -> None:
    """Savings hold for every order: the best of them is that of the plan with them."""
    problem = six(checkpoint=0, recompute=1)
    best = run(problem, "1f1b", order="best", recompute="full")
    every = [
        run(problem, "1f1b", order=list(order), recompute="full").schedule.makespan
        for order in permutations(range(6))
        if order[0] in (0, 1)
    ]
    assert best.schedule.makespan <= min(every)
    assert best.schedule.recomputed == 24


def test_a_block_is_planned_anew() -> None:
    """A building block of one's own takes the microbatches in order too."""
    problem = make_problem(devices=2, sizes={"work": [3, 1, 2]})
    outcome = run(problem, "block", **BLOCK, order="best")
    assert outcome.ordering is not None
    assert outcome.ordering.exact
    assert outcome.schedule.makespan == min(
        run(problem, "block", **BLOCK, order=list(order)).schedule.makespan for order in permutations(range(3))
    )


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1, 1, 7], "must list each of the microbatches 0 to 3 once: 2, 3 are missing; 1 stands twice; 7 is no"),
        ([0, 1, 2], "must list each of the microbatches 0 to 3 once: 3 is missing"),
        ([0, 1, 2, 3, 3, 2], "must list each of the microbatches 0 to 3 once: 2, 3 stand twice"),
        ([], "must list each of the microbatches 0 to 3 once: 0, 1, 2, 3 are missing"),
        ([0, 1, 2, -1], "must be a whole number of at least 0, not -1"),
        ([0, 1, 2, 1.5], "must be a whole number of at least 0, not 1.5"),
        (3, "must list each of the microbatches 0 to 3 once: 0, 1, 2 are missing"),
        ("bset", "unknown order 'bset'; did you mean 'best'? known are given, verl, best, longest, shortest"),
        ({"best": 1}, "must be a whole number of at least 0"),
    ],
)
def test_what_is_no_order(order: Any, message: str) -> None:
    """It says what is missing, what stands twice, and what is no microbatch."""
    with pytest.raises(ConfigError) as caught:
        run(make_problem(devices=4, microbatches=4), "1f1b", order=order)
    assert caught.value.key == "order"
    assert caught.value.message.startswith(message)
