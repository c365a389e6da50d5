"""The order of microbatches: many timed at once, orders by rule, and the best of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from pipesched import Family, NoSchedule, NotApplicable, Outcome, Plan, Problem, make_problem, run
from pipesched.comparing.compare import every_name
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.family import prepare
from pipesched.schedulers.ordering import FedFamily, FedPlan, count_orders, every_order, in_turn, rules, verl, works
from pipesched.schedulers.registry import family
from pipesched.schedulers.saved_plan import saved_plan, savings
from tests.examples import at_night_but, examples, part
from tests.oracle import orders
from tests.oracle.drawn import PLACEMENTS, Config, configs, random_rows
from tests.oracle.setup import read_setup
from tests.pipeline.test_units import chances, judge_schedule, placements_of, plan_of, randoms
from tests.strategies import texts_of


def fed_family(config: Config, name: str, again: bool = False, away: bool = False) -> FedFamily:
    """The family on the problem, with the recompute or the offload of all of its stages."""
    known = family(name)

    def make(problem: Problem) -> Plan:
        plan = known.plan(problem)
        if not again and not away:
            return plan
        return saved_plan(plan, *savings(problem, known, *(("full", None) if again else (None, "full"))))

    try:
        return FedFamily(prepare(make_problem(**config), known), known, make)
    except NotApplicable:
        assume(False)
        raise


def judge(fed: FedFamily, random: Random) -> None:
    """Some orders, together and in any number, take what their schedules take, and hold what these hold."""
    count = fed.problem.microbatches
    listed = [random.sample(range(count), count) for _ in range(3)]
    timer = FedPlan(fed.problem, fed.positions)
    makespans, peaks = timer.makespans(np.array(listed)), timer.peaks(np.array(listed))
    for entry, order in enumerate(listed):
        schedule = fed.schedule(order)
        assert makespans[entry] == schedule.makespan_ticks <= timer.longest
        assert [*peaks[:, entry]] == schedule.peak_grains


@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(
        lambda kinds: configs(PLACEMENTS, slices=kinds[0], forward_only=kinds[1])
    ),
    randoms,
    chances,
    chances,
)
def test_random_plans(config: Config, random: Random, split: float, pair: float) -> None:
    """The same of any plan: of slices, of forward passes alone, with backwards that are split here and there."""
    forward_only, sliced = "mode" in config, "slices" in config
    rows = random_rows(read_setup(config), random, split=split * (not forward_only), pair=pair * (not sliced))
    plan = plan_of(config, rows)
    judge(FedFamily(make_problem(**config), family("1f1b"), lambda _: plan), random)


SAVING = ["1f1b", "chimera", "interleaved", "zb-h1", "dualpipe", "1f1b-overlap"]


@pytest.mark.parametrize("name", at_night_but(SAVING[::3], SAVING))
@pytest.mark.parametrize("again", [True, False], ids=["recompute", "offload"])
@pytest.mark.slow
def test_recompute_and_offload(name: str, again: bool) -> None:
    """The same with operations between forwards and backwards, whose memory is there while transfers run."""

    @part(4)
    @given(configs(placements_of(name)), randoms)
    def judged(config: Config, random: Random) -> None:
        config = config | {"checkpoint": Fraction(1, 4), "offload": 2, "reload": 3}
        judge(fed_family(config, name, again, not again), random)

    judged()


@pytest.mark.parametrize("values", [{}, {"p2p": 1}, {"overlap": 2}])
def test_pairs_of_a_known_length(values: dict[str, Any]) -> None:
    """Where the problem says what a pair lasts, it lasts that whatever is fed to it."""
    sizes = {"activation": [1, 2, 3, 4]}
    judge(fed_family({"devices": 2, "sizes": sizes, **values}, "1f1b-overlap"), Random(0))


def test_numbers_above_64_bits() -> None:
    """Sums that 64 bits do not hold are as exact as others."""
    work = [Fraction(1, prime) for prime in (999999937, 999999929)] + [10**9]
    fed = fed_family({"devices": 2, "sizes": {"work": work, "activation": work}}, "1f1b")
    assert fed.schedule(None).makespan_ticks > 2**63
    judge(fed, Random(0))


def test_more_orders_than_are_timed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches change nothing."""
    fed = fed_family({"devices": 2, "sizes": {"work": [1, 2, 3, 4, 5]}}, "1f1b")
    orders = np.array([Random(seed).sample(range(5), 5) for seed in range(50)])
    whole = FedPlan(fed.problem, fed.positions).makespans(orders)
    monkeypatch.setattr("pipesched.schedulers.ordering.MOST_CELLS", 70)
    assert [*FedPlan(fed.problem, fed.positions).makespans(orders)] == [*whole]


def test_only_some_families_look_at_each_microbatch() -> None:
    """Those that plan each order anew say so; of all others one plan serves for every order."""
    anew: list[Family] = [known for name in every_name({"block": {}}) if (known := family(name)).looks_at_each]
    assert [known.name for known in anew] == ["zb-auto", "hanayo", "list", "block"]


def one_a_device(**values: Any) -> Any:
    return make_problem(devices=2, **values)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_verl_as_published(work: list[int]) -> None:
    """Equal work is told apart by the number, as in verl's `rearrange_micro_batches`."""
    assert verl(one_a_device(sizes={"work": work})) == tuple(orders.verl(work))


@pytest.mark.parametrize(
    ("values", "work"),
    [
        ({"forward": [[1, 4], 2], "backward": [[2, 1], 3]}, [8, 10]),
        ({"forward": [[1, 4], 2], "backward": [[2, 1], 3], "mode": "forward"}, [3, 6]),
        ({"forward": 2, "backward_input": [[3, 0], 1], "backward_weight": 1, "sizes": {"work": [1, 2]}}, [10, 14]),
        ({"forward": [1, [2, 3]], "speed": [2, 0.5]}, [9, 12]),
        ({"forward": 2, "backward": 4, "sizes": {"work": [2, 3]}, "slices": {"count": 2, "overhead": 1}}, [32, 44]),
    ],
)
def test_work_of_a_microbatch(values: dict[str, Any], work: list[int]) -> None:
    """It is what F and B last on all stages, of forward passes F alone, whatever the speed of the devices."""
    problem = one_a_device(**values)
    per_unit = make_problem(devices=2, **{**values, "speed": None}).ticks.per_unit
    assert [one / per_unit for one in works(problem)] == work


def test_four_rules() -> None:
    """A search begins from the microbatches as given, verl's order, and both orders by work."""
    assert rules(one_a_device(sizes={"work": [2, 3, 1]})) == [(0, 1, 2), (2, 1, 0), (2, 0, 1), (1, 0, 2)]


@pytest.mark.parametrize(("rule", "order"), [("longest", (2, 0, 3, 1)), ("shortest", (1, 0, 3, 2))])
def test_by_work_as_an_option(rule: str, order: tuple[int, ...]) -> None:
    """`longest` and `shortest` feed by work, equal microbatches by their numbers, and say so."""
    problem = make_problem(devices=2, sizes={"work": [2, 1, 3, 2]})
    outcome = run(problem, "1f1b", order=rule)
    assert outcome.order == order
    assert outcome.ordering is not None
    assert outcome.ordering.source("1f1b") == f"{rule} first"


@st.composite
def drawn_equals(draw: st.DrawFn) -> list[int]:
    """Of up to six microbatches the first that equals each."""
    kinds = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    return [kinds.index(kind) for kind in kinds]


@given(drawn_equals())
def test_every_order_once(equal: list[int]) -> None:
    """They are the permutations in which equal microbatches stand by their numbers, in lexicographical order."""
    expected = [
        order
        for order in permutations(range(len(equal)))
        if all(
            order.index(first) < order.index(one) for one in order for first in range(one) if equal[first] == equal[one]
        )
    ]
    assert [*map(tuple, every_order(equal).tolist())] == expected
    assert count_orders(equal) == len(expected)


@given(drawn_equals(), st.randoms(use_true_random=False))
def test_equal_ones_in_turn(equal: list[int], random: object) -> None:
    """Of all orders with the same kinds in the same places, that one comes first."""
    order = random.sample(range(len(equal)), len(equal))  # type: ignore[attr-defined]
    same = [
        other
        for other in permutations(range(len(equal)))
        if all(equal[one] == equal[two] for one, two in zip(order, other, strict=True))
    ]
    assert in_turn(order, equal) == min(same)


@pytest.mark.parametrize(("equal", "count"), [([0] * 64, 1), ([0] * 7 + [7], 8), ([*range(20)], 2432902008176640000)])
def test_how_many(equal: list[int], count: int) -> None:
    """Equal microbatches make few orders of many; different ones more than any machine tries."""
    assert count_orders(equal) == count


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


@pytest.mark.parametrize("name", at_night_but(("1f1b", "list", "hanayo", "zb-auto"), every_name({})))
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


@pytest.mark.parametrize(
    "name",
    at_night_but(("1f1b", "chimera"), ("1f1b", "naive", "interleaved", "zb-h1", "chimera", "dualpipe-v", "1f1b-v")),
)
@pytest.mark.usefixtures("few_steps")
def test_never_worse_than_a_rule(name: str) -> None:
    """A search ends with no worse than the microbatches as given, verl's order, and both orders by work."""

    @part(8)
    @given(fitting(name, most_devices=3, most_microbatches=9), randoms)
    def judged(config: Config, random: Random) -> None:
        judge_best_of_many(config, name, random)

    judged()


@pytest.mark.slow
@pytest.mark.parametrize("name", at_night_but(("list",), ("list", "hanayo", "zb-auto")))
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


@pytest.mark.parametrize(("name", "options"), [("block", BLOCK), ("hanayo", {}), ("list", {})])
def test_the_best_of_all_that_are_planned(name: str, options: Config) -> None:
    """Families that plan each order anew, a building block too, take the best one of all 24 orders of four."""
    problem = make_problem(devices=2, stages=4 if name == "hanayo" else None, sizes={"work": [4, 1, 2, 3]})
    outcome = run(problem, name, **options, order="best")
    assert outcome.ordering is not None
    assert outcome.ordering.exact
    assert outcome.schedule.makespan == min(
        run(problem, name, **options, order=list(order)).schedule.makespan for order in permutations(range(4))
    )
