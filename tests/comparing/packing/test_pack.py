"""`pack`: published packings, the best of all where all are tried, its promises, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pipesched
from pipesched.comparing.packing import pack as module
from pipesched.documents.comparison import packing_document, rank_config
from pipesched.errors import ConfigError, NoSchedule, NotApplicable
from pipesched.schedulers.family import Family
from pipesched.schedulers.registry import FAMILIES, family
from tests.examples import at_night_but
from tests.packings import GOLDEN, Way, by_length, documents, every_value, require_legal, value_of

TWO = pipesched.make_problem(devices=2, forward=1, backward=2)
SETTLED = [name for name in FAMILIES if family(name).settled_order]
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


def test_published_packing_with_attention() -> None:
    """Half of the work grows with the square: 5.600693, first-fit 6.72222, bound 4.020833 less what rounding takes."""
    packing = packed(attention=0.5)
    assert (packing.makespan, packing.baselines[0].makespan, packing.exact) == (5.600693, 6.72222, True)
    assert 4.020833 - 1e-5 < packing.bound <= 4.020834


@pytest.mark.parametrize("algorithm", at_night_but(SETTLED[::3], SETTLED))
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.slow
def test_best_of_all(algorithm: str, name: str) -> None:
    """Of five documents on two ranks, the value is the least over all packings and orders, by budget first."""
    problem = pipesched.make_problem(**UNEVEN, **PROBLEMS[name])
    way = Way(2, 2, 60, Fraction(3, 10), 50)
    lengths = [31, 20, 44, 7, 12]
    packing = packed(
        lengths=lengths, cap=way.cap, problem=problem, algorithm=algorithm, attention=0.3, reference=way.reference
    )
    require_legal(packing)
    assert packing.exact
    assert value_of(packing) == min(every_value(lengths, way, problem, algorithm))


@pytest.mark.parametrize("algorithm", ["list", "hanayo"])
def test_best_of_all_where_each_is_planned(algorithm: str) -> None:
    """So it is by an algorithm whose positions depend on costs."""
    problem = pipesched.make_problem(**UNEVEN)
    way = Way(2, 1, 80, Fraction(0), 80)
    lengths = [31, 20, 44, 7]
    packing = packed(lengths=lengths, cap=80, microbatches=1, problem=problem, algorithm=algorithm)
    assert value_of(packing) == min(every_value(lengths, way, problem, algorithm))


@given(st.data())
@settings(max_examples=40)
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


@pytest.mark.parametrize("seed", range(3))
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
    even = pipesched.run(packing.costs.problem(problem, [pack_of(25)] * 8), "1f1b").schedule.makespan
    assert packing.makespan < 0.94 * even


def pack_of(count: int) -> Any:
    from pipesched.results.document_costs import load_of

    return load_of([10] * count)


def test_all_ways_to_give_lengths() -> None:
    """A list, a tuple, a range and arrays of whole numbers are the same documents."""
    expected = packed(reference=1)
    ways = ([*GOLDEN], np.array(GOLDEN), np.array(GOLDEN, dtype=np.uint8), [*map(np.int64, GOLDEN)])
    assert all(packed(lengths=way, reference=1) == expected for way in ways)
    assert packed(lengths=range(1, 9)).lengths == (1, 2, 3, 4, 5, 6, 7, 8)


def test_microbatches() -> None:
    """The problem's, unless they are given; `auto` is the least number for which documents fit."""
    assert packed(microbatches=None, problem=pipesched.make_problem(devices=2, microbatches=3)).microbatches == 3
    assert packed(microbatches="auto").microbatches == 2
    assert packed(microbatches="auto", cap=11).microbatches == 2
    assert packed(microbatches="auto", cap=9).microbatches == 3
    assert packed(microbatches="auto", cap=9, algorithm="dualpipe").microbatches == 4  # which needs an even number


def test_one_rank_and_one_microbatch() -> None:
    """Everything in one microbatch is the only packing there is."""
    packing = packed(ranks=1, microbatches=1, cap=40, reference=1)
    assert (packing.assignment, packing.exact, packing.makespan) == ([[[*range(8)]]], True, 240)


def test_forward_only() -> None:
    """Passes forward alone are packed too: the bound has the way out as its tail."""
    problem = pipesched.make_problem(devices=2, forward=1, mode="forward")
    packing = packed(problem=problem, algorithm="naive", reference=1)
    assert packing.makespan >= packing.bound >= 20 + 2


def test_overlap_is_refused() -> None:
    """One time for every pair F&B says nothing of pairs of microbatches that differ."""
    with pytest.raises(ConfigError, match="leave it out, and a pair takes both its parts") as caught:
        packed(problem=pipesched.make_problem(devices=2, overlap=2))
    assert caught.value.key == "overlap"


def test_algorithms_that_do_not_apply() -> None:
    """An algorithm that cannot run so many microbatches, or needs options, says so."""
    with pytest.raises(NotApplicable, match="even number of microbatches"):
        packed(microbatches=1, cap=40, algorithm="dualpipe", ranks=1)
    with pytest.raises(NotApplicable, match="block needs `period`, `forward`, which a packing does not take"):
        packed(algorithm="block")


def test_too_many_tokens() -> None:
    """More tokens than there is room for, or documents that do not go into the bins, say how many there must be."""
    with pytest.raises(NoSchedule) as caught:
        packed(microbatches=1)
    assert caught.value.reason == "40 tokens do not go into 2 ranks x 1 microbatches of 12: needs at least M = 2"
    assert [(remedy, remedy.key) for remedy in caught.value.would_fit] == [("`microbatches` 2", "microbatches")]
    with pytest.raises(
        NoSchedule, match="18 tokens do not go into 1 ranks x 2 microbatches of 10: needs at least M = 3"
    ):
        packed(lengths=[6, 6, 6], ranks=1, cap=10)
    with pytest.raises(NoSchedule, match="and documents are too few for more microbatches"):
        packed(lengths=[6, 6, 6], ranks=2, microbatches=1, cap=10)
    with pytest.raises(NoSchedule, match="no number of microbatches on 2 ranks holds the 3 documents, none empty"):
        packed(lengths=[6, 6, 6], ranks=2, microbatches="auto", cap=10)


def test_budget_that_no_schedule_keeps() -> None:
    """Of an algorithm that never exceeds its budget there is no packing then; of others it is said not to fit."""
    small = pipesched.make_problem(devices=2, budget=0.01)
    with pytest.raises(NoSchedule, match="no packing was found that list schedules within the budget"):
        packed(problem=small, algorithm="list")
    assert not packed(problem=small).fits


def test_a_family_is_asked_for_by_any_of_its_names() -> None:
    """The packing has the algorithm's own name; an unknown one is told the nearest."""
    with pytest.raises(ConfigError, match="unknown algorithm '1f2b'; did you mean '1f1b'") as caught:
        packed(algorithm="1f2b")
    assert caught.value.key == "algorithm"
    chosen: Family = family("gpipe")
    assert packed(algorithm="GPipe").algorithm == chosen.name


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


@pytest.mark.parametrize("seed", range(4))
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
    monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(module, "FEW", 1)
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
