"""Packing documents into microbatches: bounds, moves, targets, and the search."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, NoSchedule, NotApplicable, Problem
from pipesched.comparing.packing.bound import Share, amounts_of, are_few, geometric_gap, packing_bound, rates_of
from pipesched.comparing.packing.search import fill, shape_of
from pipesched.comparing.packing.timing import (
    MOST_TICKS,
    RankTimes,
    differencing,
    first_fit,
    model_costs,
    none_empty,
    positions_of,
    within,
)
from pipesched.documents.comparison import packing_document, rank_config
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.document_costs import FactorCosts, load_of
from tests.comparing.packings import GOLDEN, Way, by_length, documents, every_value, require_legal, value_of
from tests.examples import at_night_but, examples, part
from tests.strategies import problems

FAMILIES = {one.name: one for one in pipesched.algorithms()}
TWO = pipesched.make_problem(devices=2, forward=1, backward=2)
SETTLED = [name for name in FAMILIES if FAMILIES[name].settled_order]
UNEVEN: dict[str, Any] = {"devices": 2, "stages": 4, "forward": [1, 2, 1, 1.25]}
PROBLEMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "messages": {"p2p": 0.5},
    "speeds": {"speed": [1, 0.7]},
    "links": {"links": {"size": 1, "inside": 0.1, "between": 0.3}},
    "split": {"backward_input": 1.5, "backward_weight": 0.7},
    "budget": {"budget": 1.5},
    "small budget": {"budget": 0.6},
}


def packed(**given: Any) -> pipesched.Packing:
    """Pack the published documents, with these arguments instead of the usual ones."""
    usual: dict[str, Any] = {"lengths": GOLDEN, "ranks": 2, "cap": 12, "microbatches": 2, "problem": TWO}
    return pipesched.pack(**{**usual, **given})


def test_published_packing() -> None:
    """P2 f1 B2, two ranks of two microbatches: 88, the best of all, first-fit 108, bound 66."""
    packing = packed(reference=1)
    require_legal(packing)
    assert (packing.makespan, packing.exact, packing.bound, packing.fits) == (88, True, 66, True)
    assert packing.gap == pytest.approx(22 / 66)
    first = packing.baselines[0]
    assert (first.rule, first.makespan, first.fits, first.most_tokens) == ("first-fit", 108, True, 12)


@pytest.mark.parametrize(
    "case", at_night_but([*zip(SETTLED[::2], PROBLEMS, strict=False)], product(SETTLED, PROBLEMS)), ids="-".join
)
@pytest.mark.slow
def test_best_of_all(case: tuple[str, str]) -> None:
    """Of five documents on two ranks, the value is the least over all packings and orders, by budget first."""
    algorithm, name = case
    problem = pipesched.make_problem(**UNEVEN, **PROBLEMS[name])
    way = Way(2, 2, 60, Fraction(3, 10), 50)
    lengths = [31, 20, 44, 7, 12]
    packing = packed(
        lengths=lengths, cap=way.cap, problem=problem, algorithm=algorithm, attention=0.3, reference=way.reference
    )
    require_legal(packing)
    assert packing.exact
    assert value_of(packing) == min(every_value(lengths, way, problem, algorithm))


@given(st.data())
@part(2)
@pytest.mark.slow
def test_promises(data: st.DataObject) -> None:
    """No packing is longer than another rule's that fits, nor below its bound; schedules are those of `run`."""
    algorithm = data.draw(st.sampled_from([*SETTLED, "list"]))
    name = data.draw(st.sampled_from([*PROBLEMS]))
    problem = pipesched.make_problem(**UNEVEN, **PROBLEMS[name])
    lengths = data.draw(st.lists(st.integers(1, 60), min_size=8, max_size=40))
    given: dict[str, Any] = {
        "ranks": data.draw(st.integers(1, 3)),
        "cap": max(60, sum(lengths) // 3),
        "problem": problem,
        "microbatches": 2,
        "algorithm": algorithm,
        "attention": data.draw(st.sampled_from([0, 0.25, 1])),
        "reference": data.draw(st.sampled_from([None, 1, 50])),
    }
    try:
        packing = pipesched.pack(lengths, **given)
    except (NoSchedule, NotApplicable):
        return
    require_legal(packing)
    for one in packing.baselines:
        assert not one.fits or (packing.fits and one.makespan is not None and packing.makespan <= one.makespan)
    assert packing.bound <= packing.makespan
    schedules = [packing.schedule(rank) for rank in range(packing.ranks)]
    assert [schedule.makespan for schedule in schedules] == [*packing.makespans]
    assert all(schedule.fits for schedule in schedules) == packing.fits
    mixed = Random(len(lengths)).sample(lengths, len(lengths))
    other = pipesched.pack(mixed, **given)
    assert by_length(other) == by_length(packing)  # the order of documents changes nothing
    assert (other.makespans, other.bound) == (packing.makespans, packing.bound)


@pytest.mark.parametrize("seed", at_night_but([0], range(3)))
def test_a_long_document_rules(seed: int) -> None:
    """The rank of a document as long as the cap gets little else: within 5 % of the bound, and verl 15 % longer."""
    problem = pipesched.make_problem(devices=8, microbatches=16, forward=1, backward=2)
    packing = pipesched.pack(documents(seed), ranks=8, cap=32768, problem=problem, attention=0.3)
    require_legal(packing)
    verl = next(one.makespan for one in packing.baselines if one.rule == "verl")
    assert packing.gap <= 0.05
    assert verl is not None
    assert verl >= 1.15 * packing.makespan


def test_shorter_at_both_ends() -> None:
    """Documents alike fill microbatches unevenly: less in the first and the last ones, by which a pipeline fills."""
    problem = pipesched.make_problem(devices=4, microbatches=8, forward=1, backward=2)
    packing = pipesched.pack([10] * 200, ranks=1, cap=1000, problem=problem)
    tokens = [load.tokens for load in packing.loads[0]]
    assert max(tokens[0], tokens[-1]) < min(tokens[2:6])
    even = pipesched.run(packing.costs.problem(problem, [load_of([10] * 25)] * 8), "1f1b").schedule.makespan
    assert packing.makespan < 0.94 * even


def test_microbatches() -> None:
    """The problem's, unless they are given; `auto` is the least number for which documents fit."""
    assert packed(microbatches=None, problem=pipesched.make_problem(devices=2, microbatches=3)).microbatches == 3
    assert packed(microbatches="auto").microbatches == 2
    assert packed(microbatches="auto", cap=11).microbatches == 2
    assert packed(microbatches="auto", cap=9).microbatches == 3
    assert packed(microbatches="auto", cap=9, algorithm="dualpipe").microbatches == 4  # which needs an even number


def test_budget_that_no_schedule_keeps() -> None:
    """Of an algorithm that never exceeds its budget there is no packing then; of others it is said not to fit."""
    small = pipesched.make_problem(devices=2, budget=0.01)
    with pytest.raises(NoSchedule, match="no packing was found that list schedules within the budget"):
        packed(problem=small, algorithm="list")
    assert not packed(problem=small).fits


SIXTEEN: dict[str, Any] = {
    "lengths": [4096] * 16, "ranks": 2, "cap": 8192,
    "problem": pipesched.make_problem(devices=4, forward=20, backward=40),
}  # fmt: skip


def test_the_best_number_of_microbatches() -> None:
    """By hand: of sixteen documents alike 4 microbatches take 7 x 60 = 420, 8 take 11 x 30 = 330; `auto` says so."""
    auto, best = (pipesched.pack(**SIXTEEN, microbatches=word) for word in ("auto", "best"))
    assert (auto.microbatches, auto.makespan, auto.more, auto.tried) == (4, 420, (8, 330), ())
    assert (best.microbatches, best.makespan, best.more) == (8, 330, None)
    assert best.tried == ((4, 420), (5, 390), (6, 380), (7, 390), (8, 330))
    some = pipesched.pack(**SIXTEEN, microbatches=range(5, 8))
    assert (some.microbatches, [count for count, _ in some.tried]) == (6, [5, 6, 7])
    assert pipesched.pack(**SIXTEEN, microbatches="best", multiple_of=3).microbatches == 6
    assert pipesched.pack(**SIXTEEN, microbatches="auto", multiple_of=3).microbatches == 6
    with pytest.raises(NoSchedule, match="no number of microbatches that is a multiple of 9 on 2 ranks holds the 16"):
        pipesched.pack(**SIXTEEN, microbatches="best", multiple_of=9)


def test_overhead_makes_the_best_number_finite() -> None:
    """A time a pass: with 5 eight microbatches take 11 x (30 + 10); with 2 and 20 five are best, with 100 the least."""
    known = {5: (8, 440), (2, 20): (5, 554), 100: (4, 1820)}
    for overhead, expected in known.items():
        packing = pipesched.pack(**SIXTEEN, microbatches="best", overhead=overhead)
        assert (packing.microbatches, packing.makespan) == expected
        assert packing.bound <= packing.makespan
        config = str(rank_config(packing))
        assert pipesched.run(pipesched.load(config), "1f1b").schedule.makespan == packing.makespan
    assert pipesched.pack(**SIXTEEN, microbatches="auto", overhead=100).more is None


@pytest.mark.parametrize("seed", at_night_but(range(2), range(4)))
def test_best_is_no_longer_than_any_number(seed: int) -> None:
    """Of few documents each number is searched; bounds hold with an overhead, and ranks take what is said."""
    random = Random(seed)
    problem = pipesched.make_problem(devices=2, forward=[1, 2], backward=[3, 2], p2p=random.choice([0, 0.5]))
    given: dict[str, Any] = {
        "lengths": [random.randint(1, 9) for _ in range(9)], "ranks": 2, "cap": 20, "problem": problem,
        "overhead": [random.choice([0, 0.25]), random.choice([0.1, 1])], "algorithm": random.choice(["1f1b", "zb-h1"]),
    }  # fmt: skip
    best = pipesched.pack(**given, microbatches="best")
    for count, makespan in best.tried:
        packing = pipesched.pack(**given, microbatches=count)
        assert (packing.makespan, packing.bound <= packing.makespan) == (makespan, True)
        for rank, one in enumerate(packing.makespans):
            assert pipesched.run(packing.problem(rank), str(given["algorithm"])).schedule.makespan == one
    assert best.makespan == min(makespan for _, makespan in best.tried)


def test_of_many_documents_some_numbers_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of them, then those nearer to the shortest: the answer is one that was tried, and the shortest."""
    monkeypatch.setattr("pipesched.comparing.packing.pack.MANY", 1)
    monkeypatch.setattr("pipesched.comparing.packing.pack.FEW", 1)
    lengths = [*range(10, 74)]
    best = pipesched.pack(lengths, ranks=2, cap=300, problem=TWO, microbatches="best", overhead=0.02)
    assert 8 <= len(best.tried) < 20
    assert (best.microbatches, best.makespan) == min(best.tried, key=lambda pair: pair[1])
    auto = pipesched.pack(lengths, ranks=2, cap=300, problem=TWO, microbatches="auto", overhead=0.02)
    assert auto.more is None or (auto.more[1] < auto.makespan and auto.more[0] > auto.microbatches)


def test_documents_above_the_cap() -> None:
    """Dropped ones are left out and listed; split ones become pieces of the cap, each with its document and token."""
    lengths = [9, 30, 7, 6, 13, 5]
    dropped = packed(lengths=lengths, too_long="drop")
    assert dropped.dropped == [1, 4]
    assert sorted(d for rank in dropped.assignment for members in rank for d in members) == [0, 2, 3, 5]
    split = packed(lengths=lengths, microbatches="auto", too_long="split")
    assert split.pieces == ((0, 0), (1, 0), (1, 12), (1, 24), (2, 0), (3, 0), (4, 0), (4, 12), (5, 0))
    assert split.lengths == (9, 12, 12, 6, 7, 6, 12, 1, 5)
    assert (sum(split.tokens), split.dropped) == (sum(lengths), [])
    content = packing_document(split)
    assert (content["documents"], content["pieces"][3]) == (6, [1, 24])
    assert packing_document(dropped)["dropped"] == [1, 4]
    with pytest.raises(ConfigError, match="2 of 2 are above it"):
        packed(lengths=[13, 14], too_long="drop")


def test_the_cut_is_for_the_microbatches_that_are_packed() -> None:
    """The number of microbatches of the problem changes nothing where another one is packed."""
    layers: dict[str, Any] = {"layers": 30, "layer": {"forward": 1}, "last": {"forward": 2}}
    packings = [
        pipesched.pack([5, 3, 8, 2, 9, 4, 7, 6], ranks=1, cap=16, problem=problem, microbatches=4)
        for problem in (pipesched.make_problem(devices=4, microbatches=count, **layers) for count in (2, 24))
    ]
    assert packings[0].cut == packings[1].cut
    assert packings[0].makespan == packings[1].makespan


FAST = [name for name in FAMILIES if FAMILIES[name].settled_order] + ["list", "hanayo"]


def bound_of(problem: Problem, letters: str, lengths: list[int], way: Way, *, geometric: bool) -> Fraction:
    """Return the bound of documents from long to short, on a placement."""
    costs = FactorCosts(way.attention, way.reference)
    amounts = amounts_of(lengths, costs, rounded=problem.speed is not None)
    share = Share(way.ranks, way.microbatches)
    rates = rates_of(problem, costs, letters)
    return packing_bound(amounts, rates, problem.settled_placement, share, geometric=geometric)


def test_published_bounds() -> None:
    """66 of whole numbers exactly; 4.020833 of numbers that are rounded, less what that may take."""
    problem = pipesched.make_problem(devices=2, placement="linear", forward=1, backward=2)
    lengths = [9, 7, 6, 5, 4, 4, 3, 2]
    assert bound_of(problem, "FB", lengths, Way(2, 2, 12, Fraction(0), 1), geometric=False) == 66
    rounded = bound_of(problem, "FB", lengths, Way(2, 2, 12, Fraction(1, 2), 12), geometric=False)
    assert 0 < Fraction(4020833, 10**6) - rounded < Fraction(1, 10**5)


@pytest.mark.slow
@given(st.data())
@examples(40)
def test_below_the_best_of_all(data: st.DataObject) -> None:
    """No packing of documents, in any order and by any algorithm, is shorter than the bound for its placement."""
    algorithm = data.draw(st.sampled_from(FAST))
    costs: dict[str, Any] = {"forward": data.draw(st.lists(st.integers(1, 4), min_size=4, max_size=4))}
    halves = st.lists(st.integers(0, 4), min_size=4, max_size=4)
    if data.draw(st.booleans()):
        costs |= {"backward_input": data.draw(halves), "backward_weight": data.draw(halves)}
    more: dict[str, Any] = data.draw(st.sampled_from([{}, {"p2p": 1}, {"speed": [1, 0.7]}]))
    problem = pipesched.make_problem(devices=2, stages=4, **costs, **more)
    lengths = sorted(data.draw(st.lists(st.integers(1, 20), min_size=4, max_size=4)), reverse=True)
    way = Way(1, data.draw(st.sampled_from([2, 4])), 100, data.draw(st.sampled_from([Fraction(0), Fraction(1, 3)])), 20)
    if data.draw(st.booleans()):
        way = way._replace(ranks=2, microbatches=2)
    try:
        fitted = pipesched.run(problem, algorithm)
    except NotApplicable:
        return
    values = every_value(lengths, way, problem, algorithm)
    bound = bound_of(fitted.problem, fitted.schedule.plan.index.letters, lengths, way, geometric=True)
    assert bound <= min((to_fraction(makespan) for _, makespan, _ in values), default=bound)


def test_geometric_gap() -> None:
    """Of many microbatches it is nothing, of one head and tail; equal works are above it, and more of them lower it."""
    even = [geometric_gap(1, count, 7 / 3, 14 / 3, 1 / 3, 2 / 3) for count in (1, 2, 4, 8, 16, 32, 64)]
    assert even[0] == pytest.approx(7)
    assert all(more < less for less, more in pairwise(even))
    assert all(gap < 7 / count for gap, count in zip(even[1:], (2, 4, 8, 16, 32, 64), strict=True))
    assert even[4] == pytest.approx(0.23203, abs=1e-4)  # of 1F1B the least is 0.3156, by a linear program
    assert geometric_gap(1, 8, 0, 0, 1, 1) == 0
    assert geometric_gap(3, 4, 0, 2, inf, 1) == pytest.approx(3 * 2 / 4)


@given(st.integers(1, 12), *[st.floats(0, 5)] * 2, *[st.floats(0, 2)] * 2)
def test_no_works_do_with_less(count: int, head: float, tail: float, forward: float, backward: float) -> None:
    """Idle times that add up to less than the gap hold less work, however they are shared."""
    gap = geometric_gap(1, count, head, tail, forward, backward)
    for share in range(11):
        before, behind, total = 0.999 * gap * share / 10, 0.999 * gap * (10 - share) / 10, 0.0
        for _ in range(count):
            sides = [(before, 1 - forward, head), (behind, 1 - backward, tail)]
            most = min(((idle + max(grows, 0) * total) / slope for idle, grows, slope in sides if slope), default=inf)
            total += most
        assert gap == 0 or total < 1


def plain(weights: Sequence[int], parts: int) -> list[int]:
    """Return the sums of the parts, the heaviest first, by sorting at every step."""
    states = [(weight, -number, [weight] + [0] * (parts - 1)) for number, weight in enumerate(weights)]
    spread = [(max(sums) - min(sums), number, sums) for _, number, sums in states]
    for count in range(len(weights), 2 * len(weights) - 1):
        spread.sort(key=lambda state: (state[0], state[1]))
        (_, _, first), (_, _, second) = spread.pop(), spread.pop()
        sums = sorted((a + b for a, b in zip(first, reversed(second), strict=True)), reverse=True)
        spread.append((sums[0] - sums[-1], -count, sums))
    return spread[0][2]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 8))
def test_as_the_plain_method(weights: list[int], parts: int) -> None:
    """Each weight is in one part, the heaviest part is first, and sums are those of the plain method."""
    found = differencing(weights, parts)
    assert sorted(number for part in found for number in part) == [*range(len(weights))]
    assert [sum(weights[number] for number in part) for part in found] == plain(weights, parts)
    assert sum(map(bool, found)) == min(parts, len(weights))  # none is empty where there are enough


def test_few() -> None:
    """All are tried where (D x M)^N is at most 100,000."""
    for count, ranks, microbatches in product((*range(15, 20), 10**6), range(1, 6), range(1, 4)):
        few = (ranks * microbatches) ** min(count, 99) <= 100_000
        assert are_few(count, ranks, microbatches) == few
    assert [are_few(count, 2, 2) for count in (4, 8, 9)] == [True, True, False]


Sizes = st.lists(st.integers(1, 12), min_size=1, max_size=7).map(lambda sizes: sorted(sizes, reverse=True))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(1, 9))
def test_first_fit_by_the_plain_loop(sizes: list[int], bins: int) -> None:
    """Each document is in the first bin that had room for it, or is left over where none had."""
    room, filled = [*[12] * bins, sum(sizes)], [list[int]() for _ in range(bins + 1)]
    for document, size in enumerate(sizes):
        first = next(number for number, free in enumerate(room) if free >= size)
        room[first] -= size
        filled[first].append(document)
    assert first_fit(tuple(sizes), bins, 12) == (filled[:-1], filled[-1])


@given(Sizes, st.integers(1, 4))
def test_what_fits_is_found(sizes: list[int], bins: int) -> None:
    """Bins within the cap, none empty, are found exactly where some assignment of the documents is one."""
    found = within(sizes, bins, 12)
    ways = (np.bincount(target, sizes, bins) for target in product(range(bins), repeat=len(sizes)))
    assert (found is not None) == any(used.min() > 0 and used.max() <= 12 for used in ways)
    if found is not None:
        assert sorted(document for members in found for document in members) == [*range(len(sizes))]
        assert all(members and sum(sizes[document] for document in members) <= 12 for members in found)


def test_steps_back_find_what_first_fit_misses() -> None:
    """5, 4, 3, 3, 3, 2 fill two bins of 10 in one way, which first fit misses."""
    sizes = [5, 4, 3, 3, 3, 2]
    assert first_fit(tuple(sizes), 2, 10) == ([[0, 1], [2, 3, 4]], [5])
    assert within(sizes, 2, 10) == [[0, 2, 5], [1, 3, 4]]


def test_the_fullest_bins_give() -> None:
    """An empty bin gets the last document of a bin with most of them."""
    assert none_empty([[0, 1, 2], [], [3, 4], []]) == [[0], [2], [3, 4], [1]]


CAP = 4096
SETUP: dict[str, Any] = {
    "model": "llama-2-7b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 4, "tensor": 1, "pipeline": 4},
    "batch": {"sequence": CAP, "micro": 1, "global": 8},
}
TIMES = ("forward", "backward_input", "backward_weight")


@pytest.mark.parametrize(
    "training", at_night_but([{"recompute": {"full": 2}}], [{}, {"recompute": {"full": 2}}, {"flash_attention": False}])
)
def test_one_document_of_the_cap(training: dict[str, Any]) -> None:
    """It costs what `estimate` says of one sequence as long, number for number, by any way of recompute."""
    problem = pipesched.load(**SETUP, training=training)
    base, _, costs = model_costs(problem, FAMILIES["1f1b"], CAP)
    made = costs.problem(base, [load_of([CAP])] * 8)
    estimated = pipesched.run(problem, "1f1b").problem
    for key in (*TIMES, "p2p"):
        assert getattr(made.costs, key) == getattr(estimated.costs, key), key
    assert made.memory == estimated.memory
    assert costs.work(load_of([CAP])) == 1
    assert all(0 < core < costs.linear["forward"][stage] for stage, core in enumerate(costs.core["forward"]))
    assert not any(costs.core["backward_weight"])


def test_times_that_were_given() -> None:
    """A time in place of the model's own grows with the tokens alone."""
    *_, costs = model_costs(pipesched.load(**SETUP, forward=3), FAMILIES["1f1b"], CAP)
    assert [*costs.core["forward"]] == [0] * 4
    assert [*costs.linear["forward"]] == [3] * 4
    assert all(costs.core["backward_input"])


@pytest.mark.parametrize("algorithm", at_night_but(["zb-h1"], ["1f1b", "zb-h1", "interleaved"]))
def test_packing(algorithm: str) -> None:
    """A packing of a model takes what `run` says of its ranks, and is above its bound."""
    problem = pipesched.load(**SETUP)
    lengths = [4000, 3000, 2500, 1700, 1200, 900, 700, 600, 500, 400, 300, 300, 200, 150, 100, 90, 80, 60, 50, 40]
    packing = pipesched.pack(lengths, ranks=2, cap=CAP, problem=problem, microbatches=4, algorithm=algorithm)
    assert [packing.schedule(rank).makespan for rank in range(2)] == [*packing.makespans]
    assert packing.bound <= packing.makespan
    factors = pipesched.pack(lengths, ranks=2, cap=CAP, problem=problem, microbatches=4, attention=0.1)
    assert factors.problem(0).costs == factors.base.costs


LOADS = st.lists(st.integers(1, 100), min_size=1, max_size=3).map(load_of)


@given(st.data(), problems(("auto",), most_devices=3, unlike=True))
@examples(60)
def test_times_of_ranks_are_those_of_run(data: st.DataObject, problem: Any) -> None:
    """Ranks that are timed together take what `run` says of each, on devices of any speed and with messages."""
    algorithm = data.draw(st.sampled_from([*SETTLED, "list"]))
    costs = FactorCosts(Fraction(3, 10), 100)
    counts = st.integers(2, 5)
    ranks = data.draw(st.lists(counts.flatmap(lambda n: st.tuples(*[LOADS] * n)), min_size=1, max_size=4))
    for rank, timed in zip(ranks, RankTimes(problem, algorithm, costs).of(ranks), strict=True):
        try:
            schedule = pipesched.run(costs.problem(problem, rank), algorithm).schedule
        except NotApplicable:
            assert timed is None
        else:
            assert timed is not None
            assert timed.makespan == Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)


@given(st.data(), problems(("auto",), most_devices=3, least=1))
@examples(60)
def test_slopes(data: st.DataObject, problem: Any) -> None:
    """Without messages, works times slopes are the makespan: the slopes are the ticks of one longest path."""
    try:
        positions = positions_of(problem, data.draw(st.sampled_from(SETTLED)))
    except NotApplicable:
        return
    numbers = st.lists(st.integers(0, 1000), min_size=positions.microbatches, max_size=positions.microbatches)
    work = np.array(data.draw(st.lists(numbers, min_size=1, max_size=3))).T
    makespans, slopes = positions.slopes(work)
    assert ((work * slopes).sum(axis=0) == makespans).all()


def test_ticks_are_rounded_where_they_are_many() -> None:
    """Works of 2^32 times ticks of nine digits stay within 64 bits, and are right in six digits."""
    problem = pipesched.make_problem(devices=4, microbatches=8, forward="1.23456789", backward="2.98765432")
    positions = positions_of(problem, "1f1b")
    work = np.full((8, 1), 1 << 29)
    expected = pipesched.run(problem, "1f1b").schedule.makespan
    scale = MOST_TICKS / (4 * (1.23456789 + 2.98765432))
    assert positions.lasting(work)[0] / (1 << 29) / scale == pytest.approx(expected, rel=1e-2)
    assert 2 * positions.lasting(work // 2)[0] == positions.lasting(work)[0] > 0


def test_the_bin_that_lacks_most_is_next() -> None:
    """Documents from long to short go where most is lacking, of equals to the first bin, and not beyond the cap."""
    assert fill([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], [9, 6], 99) == [[0, 2, 4], [1, 3]]
    assert fill([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], [9, 6], 8) == [[0, 2], [1, 3, 4]]
    assert fill([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], [9, 6], 7) is None


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.lists(st.integers(0, 90), min_size=1, max_size=6))
def test_every_document_is_in_one_bin(sizes: list[int], aims: list[int]) -> None:
    """Nothing is lost, and no bin is above the cap."""
    tokens = sorted(sizes, reverse=True)
    filled = fill(tokens, tokens, aims, 60)
    if filled is not None:
        assert sorted(document for members in filled for document in members) == [*range(len(tokens))]
        assert all(sum(tokens[document] for document in members) <= 60 for members in filled)


WHOLE = 1 << 32
LEAST = {(2, 2): 1.46667, (4, 8): 1.273848, (4, 16): 1.108539, (8, 16): 1.315607}  # by a linear program; even: more


@pytest.mark.parametrize(("devices", "microbatches"), LEAST)
def test_near_the_least_of_all_works(devices: int, microbatches: int) -> None:
    """1F1B of f 1 and B 2 comes within 2 % of the least makespan of any works, from the even ones' (P-1)/M more."""
    problem = pipesched.make_problem(devices=devices, microbatches=microbatches, forward=1, backward=2)
    positions = positions_of(problem, "1f1b")
    works = shape_of(positions, WHOLE, 100)[0]
    assert works.sum() == pytest.approx(WHOLE, rel=1e-8)
    length = positions.lasting(works[:, None])[0] / (3 * WHOLE)
    least = LEAST[devices, microbatches]
    assert least * (1 - 1e-5) <= length <= 1.02 * least < 1 + (devices - 1) / microbatches


def test_places_for_a_long_document() -> None:
    """A long document is best fed when the pipeline is full, and worst as the first or the last."""
    problem = pipesched.make_problem(devices=4, microbatches=12, forward=1, backward=2)
    places = shape_of(positions_of(problem, "1f1b"), WHOLE, 40)[1].tolist()
    assert sorted(places) == [*range(12)]
    assert {0, 1, 11}.isdisjoint(places[:6])
    assert 0 in places[-3:]
