"""Cuts of items into chunks: equal to trying all of them, by each method; and the sizes that models have."""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import accumulate, combinations
from subprocess import run
from time import perf_counter

import pytest
from hypothesis import given, settings, strategies as st

from pipesched.core.clock import Clock
from pipesched.errors import ConfigError
from pipesched.estimation.cutting.alike import cut_alike
from pipesched.estimation.cutting.costs import Amount, Costs, Judgement
from pipesched.estimation.cutting.cut import Answer, Chunk, Chunks, Question, cut
from pipesched.estimation.cutting.search import search

Items = list[tuple[int, int, int]]  # work, static, activation of each


def added(items: Items, extra: int = 0, first: int = 0) -> Chunks:
    """The sum of the items; each of the first few of a chunk costs `extra` more work, and keeps nothing."""
    works, statics, activations = ([0, *accumulate(column)] for column in zip(*items, strict=True))

    def chunk(begin: int, end: int) -> Chunk:
        freed = min(end, begin + first)
        work = works[end] - works[begin] + extra * (freed - begin)
        return Chunk(work, statics[end] - statics[begin], activations[end] - activations[freed])

    return chunk


def loop(devices: int, chunks: int) -> tuple[int, ...]:
    return tuple(range(devices)) * chunks


def vee(devices: int) -> tuple[int, ...]:
    return (*range(devices), *reversed(range(devices)))


def interleaved(devices: int, chunks: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The microbatches in flight of interleaved 1F1B."""
    held = []
    for device in range(devices):
        counts = [0] * chunks
        for number in range(2 * (devices - device - 1) + (chunks - 1) * devices + 1):
            counts[number // devices % chunks] += 1
        held.append((tuple(counts),))
    return tuple(held)


def judge(question: Question, ends: tuple[int, ...]) -> Judgement:
    """How good a cut is, from the definition."""
    chunks = [question.chunk(begin, end) for begin, end in zip((0, *ends), ends, strict=False)]
    loads, excess = [], list[Amount]()
    for device, capacity in enumerate(question.capacity):
        its = [chunk for chunk, owner in zip(chunks, question.devices, strict=True) if owner == device]
        loads.append(sum(chunk.work for chunk in its))
        for vector in question.held[device]:
            held = sum(chunk.static + count * chunk.activation for chunk, count in zip(its, vector, strict=True))
            excess.append(0 if capacity is None else held - capacity)
    return Judgement(max(0, *excess), max(loads), max(chunk.work for chunk in chunks))


def best(question: Question) -> Judgement:
    """The best of all cuts, by trying them."""
    inner = combinations(range(1, question.items), len(question.devices) - 1)
    return min(judge(question, (*ends, question.items)) for ends in inner)


def check(question: Question, answer: Answer) -> None:
    """The answer is optimal, its cuts legal, different and equal in the work of a device and the excess."""
    expected = best(question)
    assert answer.proved
    assert (answer.excess, answer.device, answer.chunk) == expected
    assert answer.fits is (expected.excess == 0)
    assert judge(question, answer.cuts[0].ends) == expected
    assert len({one.ends for one in answer.cuts}) == len(answer.cuts)
    for one in answer.cuts:
        assert min(one.sizes) >= 1
        assert sum(one.sizes) == question.items
        assert judge(question, one.ends)[:2] == expected[:2]


@st.composite
def questions(draw: st.DrawFn, *, alike: bool = False) -> Question:
    """Small questions; with `alike`, all items but for a few at the ends are the same."""
    devices = draw(st.integers(1, 4))
    places = draw(st.sampled_from([loop(devices, 1), loop(devices, 2), vee(devices), loop(devices, 3)]))
    items = draw(st.integers(len(places), min(len(places) + 5, 14)))
    one = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5))
    if alike:
        head, tail = draw(st.integers(0, min(3, items))), draw(st.integers(0, min(2, items)))
        kinds = [draw(one)] * items
        kinds[:head] = [draw(one) for _ in range(head)]
        kinds[items - tail :] = [draw(one) for _ in range(tail)]
        costs = kinds[:items]
    else:
        costs = [draw(one) for _ in range(items)]
    counts = [places.count(device) for device in range(devices)]
    vectors = [st.lists(st.tuples(*[st.integers(0, 4)] * count), min_size=1, max_size=2) for count in counts]
    held = tuple(tuple(draw(of_device)) for of_device in vectors)
    limit = st.none() | st.integers(5, 90) | st.fractions(5, 90, max_denominator=7)
    capacity = tuple(draw(st.just(None) | limit) for _ in range(devices))
    chunk = added(costs, draw(st.sampled_from([0, 0, 3])), draw(st.integers(0, 2)))
    return Question(items, chunk, places, held, capacity)


@settings(max_examples=150, deadline=None)
@given(questions(alike=True))
def test_alike_items_against_all_cuts(question: Question) -> None:
    check(question, cut(question))


@settings(max_examples=80, deadline=None)
@given(questions())
def test_any_items_against_all_cuts(question: Question) -> None:
    check(question, cut(question))


@settings(max_examples=40, deadline=None)
@given(questions())
def test_the_search_against_all_cuts(question: Question) -> None:
    """Also where another method would answer."""
    cuts, proved = search(Costs(question), Clock(10))
    assert proved
    assert [judge(question, ends) for ends in cuts] == [best(question)]


@settings(max_examples=60, deadline=None)
@given(questions(alike=True))
def test_counting_answers_where_it_can(question: Question) -> None:
    """Also with one chunk a device; None says only that another method must answer."""
    cuts = cut_alike(Costs(question))
    if cuts is not None:
        assert min(judge(question, ends) for ends in cuts) == best(question)


def llama(layers: int, dense: int = 0) -> Items:
    """An embedding, layers of which the first ones are dense, a heavy head; bytes."""
    first = [(777, 200_000_000, 30_000_000)] * dense
    rest = [(1000, 300_000_000, 50_000_000)] * (layers - dense)
    return [(300, 10**9, 10**6), *first, *rest, (2500, 10**9, 2 * 10**8)]


def large(items: Items, capacity: int | None = None) -> Question:
    """128 chunks on 16 devices."""
    return Question(len(items), added(items), loop(16, 8), interleaved(16, 8), (capacity,) * 16)


@pytest.mark.parametrize("dense", [0, 3])
@pytest.mark.parametrize("layers", [126, 128, 160, 200, 258])
def test_128_chunks_are_proved(layers: int, dense: int) -> None:
    """No device has less than the mean: the first one has the embedding, and the last one the head."""
    items = llama(layers, dense)
    began = perf_counter()
    answer = cut(large(items))
    assert perf_counter() - began < 5
    assert answer.proved
    assert answer.fits
    assert -(-sum(work for work, _, _ in items) // 16) <= answer.device
    assert judge(large(items), answer.cuts[0].ends) == (0, answer.device, answer.chunk)


def test_128_chunks_within_memory() -> None:
    """Of 261 items; a limit that one more byte would keep is broken, one that moves layers costs nothing at first."""
    items = llama(259, 3)
    free = cut(large(items))
    fullest = judge(large(items, 0), free.cuts[0].ends).excess
    costs = [cut(large(items, int(fullest * part / 100))) for part in (100, 95, 85, 50)]
    assert all(answer.proved for answer in costs)
    assert [answer.fits for answer in costs] == [True, True, True, False]
    assert costs[0].device == costs[1].device == free.device < costs[2].device
    least = int(fullest * 50 / 100) + int(costs[3].excess)
    assert cut(large(items, least)).fits
    assert not cut(large(items, least - 1)).fits


def test_like_layers_go_first_to_the_first_stages() -> None:
    """Evenly, and where that leaves some over, to the first chunks."""
    question = Question(10, added([(1, 0, 0)] * 10), loop(4, 1), (((1,),),) * 4, (None,) * 4)
    answer = cut(question)
    assert answer.cuts[0].sizes == (3, 3, 2, 2)
    assert (answer.device, answer.chunk) == (3, 3)
    assert (1, 3, 3, 3) in {one.sizes for one in answer.cuts}
    assert (3, 3, 3, 1) in {one.sizes for one in answer.cuts}
    assert len(cut(question, keep=3).cuts) == 3
    assert cut(question, keep=1).cuts == answer.cuts[:1]


def test_a_heavy_head_leaves_the_last_device_fewer_layers() -> None:
    items = [(1, 0, 0), *[(10, 0, 0)] * 14, (25, 0, 0)]
    answer = cut(Question(16, added(items), loop(4, 1), (((1,),),) * 4, (None,) * 4))
    assert (answer.device, answer.cuts[0].sizes) == (45, (5, 4, 4, 3))


def test_recomputed_layers_of_each_chunk() -> None:
    """The first two layers of a chunk cost more: the sum of items says nothing, but counting still answers."""
    items = [(3, 5, 4), *[(6, 5, 4)] * 12, (9, 5, 4)]
    question = Question(14, added(items, 2, 2), loop(4, 2), interleaved(4, 2), (30, 30, None, 30))
    assert cut_alike(Costs(question)) is not None
    check(question, cut(question))


def test_fewer_items_than_chunks() -> None:
    with pytest.raises(
        ConfigError, match=r"3 items cannot be cut into 4 chunks.*at most 3 chunks, or at least 4 items"
    ):
        Question(3, added([(1, 0, 0)] * 3), loop(4, 1), (((1,),),) * 4, (None,) * 4)


@pytest.mark.parametrize("devices", [(0, 0), (0, 2)])
def test_devices_without_chunks(devices: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="each of the 2 devices must have chunks"):
        Question(3, added([(1, 0, 0)] * 3), devices, (((1,),),) * 2, (None,) * 2)


def test_vectors_of_other_lengths() -> None:
    with pytest.raises(ConfigError, match="device 1 must have vectors of 2 microbatches"):
        Question(4, added([(1, 0, 0)] * 4), loop(2, 2), (((1, 1),), ((1,),)), (None,) * 2)


def test_fractions_of_bytes_are_exact() -> None:
    """What fits to a third of a byte fits, and what is above by that does not: by each method."""
    items = 6
    for places in (loop(2, 1), loop(2, 2)):
        chunks = len(places) // 2
        third = Fraction(1, 3)

        def chunk(begin: int, end: int) -> Chunk:
            return Chunk(end - begin, Fraction(end - begin, 3), 0)

        held = (((1,) * chunks,),) * 2
        assert cut(Question(items, chunk, places, held, (Fraction(1), Fraction(1)))).fits
        assert cut(Question(items, chunk, places, held, (Fraction(1), 1 - third))).excess == third
        assert cut(Question(items, chunk, places, held, (Fraction(1), Fraction(1) - third / 2))).excess == third / 2


def test_the_same_answer_again() -> None:
    """A search too is repeatable."""
    items = [((7 * number) % 13 + 1, 0, 0) for number in range(20)]
    question = Question(20, added(items), loop(3, 3), interleaved(3, 3), (None,) * 3)
    assert cut(question) == cut(question)


def test_layers_are_cut_without_ortools() -> None:
    """It takes most of a second to load."""
    code = (
        "import sys; from pipesched.estimation.cutting.cut import *\n"
        "chunk = lambda b, e: Chunk(2 * (e - b) + 3 * (b == 0) + 5 * (e == 128), e - b, e - b)\n"
        "assert cut(Question(128, chunk, (*range(16),) * 4, (((1,) * 4,),) * 16, (40,) * 16)).proved\n"
        "assert 'ortools' not in sys.modules"
    )
    run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("places", [loop(256, 1), loop(16, 16), loop(128, 2)])
def test_many_items(places: tuple[int, ...]) -> None:
    """500 items into 256 chunks, and where too little memory makes it harder."""
    items = llama(498, 3)
    devices = max(places) + 1
    held = tuple(((4,) * (256 // devices),) for _ in range(devices))
    for capacity in (None, 2_000_000_000 * (256 // devices)):
        assert cut(Question(500, added(items), places, held, (capacity,) * devices), seconds=60).proved


def test_a_search_that_ends_early_says_so() -> None:
    """It still has a legal cut, no worse than the one with the least largest chunk."""
    items = [(1000 + (number * 7919) % 997, 0, 0) for number in range(200)]
    answer = cut(Question(200, added(items), loop(16, 8), interleaved(16, 8), (None,) * 16), seconds=1.0)
    mean = sum(work for work, _, _ in items) / 16
    assert not answer.proved
    assert answer.device < 1.06 * mean
