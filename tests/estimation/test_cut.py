"""Cuts of items into chunks: equal to trying all of them, by each method; and the sizes that models have."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import accumulate, combinations, pairwise
from subprocess import run

import pytest
from hypothesis import assume, example, given, settings, strategies as st

from pipesched.errors import ConfigError
from pipesched.estimation.cutting.costs import ChunkCost, ChunkCostOf, ChunkCosts, CutProblem, CutValue
from pipesched.estimation.cutting.cut import CutAnswer, cut, cut_any_items, smallest_chunks
from pipesched.estimation.cutting.end_cuts import equal_runs
from pipesched.estimation.cutting.equal_items import cut_equal_items
from pipesched.estimation.cutting.two_runs import cut_two_runs
from tests.examples import examples
from tests.fake_clock import FakeClock

Items = list[tuple[int, int, int]]  # work, static, activation of each


def added(items: Items, extra: int = 0, first: int = 0) -> ChunkCostOf:
    """The sum of the items; each of the first few of a chunk costs `extra` more work, and keeps nothing."""
    works, statics, activations = ([0, *accumulate(column)] for column in zip(*items, strict=True))

    def chunk(begin: int, end: int) -> ChunkCost:
        freed = min(end, begin + first)
        work = works[end] - works[begin] + extra * (freed - begin)
        return ChunkCost(work, statics[end] - statics[begin], activations[end] - activations[freed])

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


def value(problem: CutProblem, ends: tuple[int, ...]) -> CutValue:
    """How good a cut is, from the definition."""
    slowness = problem.slowness or (1,) * len(problem.capacity)
    runs = zip((0, *ends), ends, problem.devices, strict=False)
    chunks = [(cost := problem.chunk(begin, end))._replace(work=cost.work * slowness[to]) for begin, end, to in runs]
    loads, excess = [], list[int]()
    for device, capacity in enumerate(problem.capacity):
        its = [chunk for chunk, owner in zip(chunks, problem.devices, strict=True) if owner == device]
        loads.append(sum(chunk.work for chunk in its))
        for vector in problem.held[device]:
            held = sum(chunk.static + count * chunk.activation for chunk, count in zip(its, vector, strict=True))
            excess.append(0 if capacity is None else held - capacity)
    return CutValue(max(0, *excess), max(loads), max(chunk.work for chunk in chunks))


def best(problem: CutProblem) -> CutValue:
    """The best of all cuts, by trying them."""
    inner = combinations(range(1, problem.items), len(problem.devices) - 1)
    return min(value(problem, (*ends, problem.items)) for ends in inner)


def sizes(ends: tuple[int, ...]) -> tuple[int, ...]:
    """How many items each chunk has."""
    return tuple(end - begin for begin, end in zip((0, *ends), ends, strict=False))


def check(problem: CutProblem, answer: CutAnswer) -> None:
    """The answer is optimal, its cuts legal, different and equal in the work of a device and the excess."""
    expected = best(problem)
    assert answer.proved
    assert (answer.excess, answer.device, answer.chunk) == expected
    assert answer.fits is (expected.excess == 0)
    assert value(problem, answer.cuts[0]) == expected
    assert len({*answer.cuts}) == len(answer.cuts)
    for ends in answer.cuts:
        assert min(sizes(ends)) >= 1
        assert ends[-1] == problem.items
        assert value(problem, ends)[:2] == expected[:2]


@st.composite
def problems(draw: st.DrawFn, *, equal: bool = False) -> CutProblem:
    """Small problems; with `equal`, all items but for a few at the ends are the same."""
    devices = draw(st.integers(1, 4))
    places = draw(st.sampled_from([loop(devices, 1), loop(devices, 2), vee(devices), loop(devices, 3)]))
    items = draw(st.integers(len(places), min(len(places) + 5, 14)))
    one = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5))
    if equal:
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
    limit = st.none() | st.integers(5, 90)
    capacity = tuple(draw(st.just(None) | limit) for _ in range(devices))
    chunk = added(costs, draw(st.sampled_from([0, 0, 3])), draw(st.integers(0, 2)))
    return CutProblem(items, chunk, places, held, capacity)


@examples(150)
@given(problems(equal=True))
def test_equal_items_against_all_cuts(problem: CutProblem) -> None:
    check(problem, cut(problem))


@settings(max_examples=80, deadline=None)
@given(problems())
def test_any_items_against_all_cuts(problem: CutProblem) -> None:
    check(problem, cut(problem))


@settings(max_examples=80, deadline=None)
@given(problems() | problems(equal=True), st.data())
def test_devices_of_other_speeds_against_all_cuts(problem: CutProblem, data: st.DataObject) -> None:
    """Where work takes longer on some devices, the cut is still the best of all."""
    slowness = tuple(data.draw(st.integers(1, 5)) for _ in problem.capacity)
    unlike = replace(problem, slowness=slowness)
    check(unlike, cut(unlike))


@settings(max_examples=40, deadline=None)
@given(problems())
def test_moves_of_any_items(problem: CutProblem) -> None:
    """They lead to legal cuts, no worse than the one with the least largest chunk, whatever could be proved."""
    costs = ChunkCosts(problem)
    cuts = cut_any_items(costs)
    assert all([0, *ends] == sorted({0, *ends}) and ends[-1] == problem.items for ends in cuts)
    assert min(map(costs.value, cuts)) <= costs.value(smallest_chunks(costs)[0])


@st.composite
def two_runs(draw: st.DrawFn) -> CutProblem:
    """Small problems of two runs of equal items, with another one at each end."""
    devices = draw(st.integers(1, 3))
    places = draw(st.sampled_from([loop(devices, 2), vee(devices), loop(devices, 3)]))
    one = st.tuples(st.integers(5, 9), st.integers(1, 9), st.integers(0, 5))
    runs = [[draw(one)] * draw(st.integers(2, 4)) for _ in range(2)]
    more = [draw(one)] * max(len(places) - 1 - sum(map(len, runs)), 0)
    items = [draw(one), *runs[0], *runs[1], *more, draw(one)]
    held = tuple((tuple(draw(st.integers(1, 3)) for _ in range(places.count(device))),) for device in range(devices))
    capacity = tuple(draw(st.none() | st.integers(20, 90)) for _ in range(devices))
    return CutProblem(len(items), added(items), places, held, capacity)


def counted(problem: CutProblem, ends: tuple[int, ...]) -> bool:
    """Whether counting looks at a cut: a chunk has no item of the ends, and those that have any none of both runs."""
    pairs = [*pairwise(equal_runs(ChunkCosts(problem)))]
    first, second = max(pairs, key=lambda pair: pair[1].end - pair[0].begin)
    most = 2 * -(-(first.items + second.items) // len(ends)) + 2
    chunks = [*zip((0, *ends), ends, strict=False)]
    return any(begin >= first.begin and end <= second.end for begin, end in chunks) and all(
        (begin >= first.begin or end <= first.end)
        and (end <= second.end or begin >= second.begin)
        and all(min(end, run.end) - max(begin, run.begin) <= most for run in (first, second))
        for begin, end in chunks
    )


@settings(max_examples=80, deadline=None)
@example(CutProblem(6, added([*[(5, 1, 1)] * 3, *[(5, 1, 2)] * 2, (5, 1, 0)]), (0, 0), (((1, 2),),), (13,)))
@given(two_runs())
def test_two_runs_against_all_cuts(problem: CutProblem) -> None:
    """Where a cut of those that are counted fits, none of them has less work of a device than what is found."""
    costs = ChunkCosts(problem)
    assume(len([*equal_runs(costs)]) > 1)
    inner = combinations(range(1, problem.items), len(problem.devices) - 1)
    cuts = [ends for chosen in inner if counted(problem, ends := (*chosen, problem.items))]
    expected = min((value(problem, ends) for ends in cuts), default=CutValue(1, 0, 0))
    found = costs.value(cut_two_runs(costs, smallest_chunks(costs)[0]))
    if not expected.excess:
        assert found[:2] <= expected[:2]


@pytest.mark.parametrize(("devices", "chunks"), [(4, 2), (8, 2), (8, 4), (12, 3), (16, 3)])
def test_dense_layers_before_as_many_with_experts(devices: int, chunks: int) -> None:
    """30 of each, an embedding and a head: no device has 0.5 % more than the least possible, and nothing is proved."""
    items = [(28, 0, 0), *[(4494, 0, 0)] * 30, *[(9504, 0, 0)] * 30, (19079, 0, 0)]
    held = (((1,) * chunks,),) * devices
    answer = cut(CutProblem(62, added(items), loop(devices, chunks), held, (None,) * devices))
    least = {(4, 2): 110436, (8, 2): 55992, (8, 4): 55992, (12, 3): 37500, (16, 3): 33077}  # by an exhaustive count
    assert not answer.proved
    assert answer.device <= 1.005 * least[devices, chunks]


@settings(max_examples=60, deadline=None)
@given(problems(equal=True))
def test_counting_answers_where_it_can(problem: CutProblem) -> None:
    """Also with one chunk a device; None says only that another method must answer."""
    cuts = cut_equal_items(ChunkCosts(problem))
    if cuts is not None:
        assert min(value(problem, ends) for ends in cuts) == best(problem)


def llama(layers: int, dense: int = 0) -> Items:
    """An embedding, layers of which the first ones are dense, a heavy head; bytes."""
    first = [(777, 200_000_000, 30_000_000)] * dense
    rest = [(1000, 300_000_000, 50_000_000)] * (layers - dense)
    return [(300, 10**9, 10**6), *first, *rest, (2500, 10**9, 2 * 10**8)]


def large(items: Items, capacity: int | None = None) -> CutProblem:
    """128 chunks on 16 devices."""
    return CutProblem(len(items), added(items), loop(16, 8), interleaved(16, 8), (capacity,) * 16)


@pytest.mark.parametrize("dense", [0, 3])
@pytest.mark.parametrize("layers", [126, 128, 160, 200, 258])
def test_128_chunks_are_proved(layers: int, dense: int, fake_clock: FakeClock) -> None:
    """No device has less than the mean: the first one has the embedding, and the last one the head.

    That is counted in some thousand steps, each of which looks at the clock.
    """
    items = llama(layers, dense)
    answer = cut(large(items), seconds=20_000)
    assert fake_clock.now < 20_000
    assert answer.proved
    assert answer.fits
    assert -(-sum(work for work, _, _ in items) // 16) <= answer.device
    assert value(large(items), answer.cuts[0]) == (0, answer.device, answer.chunk)


@pytest.mark.nightly
def test_128_chunks_within_memory() -> None:
    """Of 261 items; a limit that one more byte would keep is broken, one that moves layers costs nothing at first."""
    items = llama(259, 3)
    free = cut(large(items), seconds=60)
    fullest = value(large(items, 0), free.cuts[0]).excess
    costs = [cut(large(items, int(fullest * part / 100)), seconds=60) for part in (100, 95, 85, 50)]
    assert all(answer.proved for answer in costs)
    assert [answer.fits for answer in costs] == [True, True, True, False]
    assert costs[0].device == costs[1].device == free.device < costs[2].device
    least = int(fullest * 50 / 100) + int(costs[3].excess)
    assert cut(large(items, least), seconds=60).fits
    assert not cut(large(items, least - 1), seconds=60).fits


def test_like_layers_go_first_to_the_first_stages() -> None:
    """Evenly, and where that leaves some over, to the first chunks."""
    problem = CutProblem(10, added([(1, 0, 0)] * 10), loop(4, 1), (((1,),),) * 4, (None,) * 4)
    answer = cut(problem)
    assert sizes(answer.cuts[0]) == (3, 3, 2, 2)
    assert (answer.device, answer.chunk) == (3, 3)
    assert (1, 3, 3, 3) in {sizes(ends) for ends in answer.cuts}
    assert (3, 3, 3, 1) in {sizes(ends) for ends in answer.cuts}
    assert len(cut(problem, keep=3).cuts) == 3
    assert cut(problem, keep=1).cuts == answer.cuts[:1]


def test_a_heavy_head_leaves_the_last_device_fewer_layers() -> None:
    items = [(1, 0, 0), *[(10, 0, 0)] * 14, (25, 0, 0)]
    answer = cut(CutProblem(16, added(items), loop(4, 1), (((1,),),) * 4, (None,) * 4))
    assert (answer.device, sizes(answer.cuts[0])) == (45, (5, 4, 4, 3))


def test_recomputed_layers_of_each_chunk() -> None:
    """The first two layers of a chunk cost more: the sum of items says nothing, but counting still answers."""
    items = [(3, 5, 4), *[(6, 5, 4)] * 12, (9, 5, 4)]
    problem = CutProblem(14, added(items, 2, 2), loop(4, 2), interleaved(4, 2), (30, 30, None, 30))
    assert cut_equal_items(ChunkCosts(problem)) is not None
    check(problem, cut(problem))


def test_fewer_items_than_chunks() -> None:
    with pytest.raises(
        ConfigError, match=r"3 items cannot be cut into 4 chunks.*at most 3 chunks, or at least 4 items"
    ):
        CutProblem(3, added([(1, 0, 0)] * 3), loop(4, 1), (((1,),),) * 4, (None,) * 4)


@pytest.mark.parametrize("devices", [(0, 0), (0, 2)])
def test_devices_without_chunks(devices: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="each of the 2 devices must have chunks"):
        CutProblem(3, added([(1, 0, 0)] * 3), devices, (((1,),),) * 2, (None,) * 2)


def test_vectors_of_other_lengths() -> None:
    with pytest.raises(ConfigError, match="device 1 must have vectors of 2 microbatches"):
        CutProblem(4, added([(1, 0, 0)] * 4), loop(2, 2), (((1, 1),), ((1,),)), (None,) * 2)


def test_the_same_answer_again() -> None:
    """Moves too are repeatable."""
    items = [((7 * number) % 13 + 1, 0, 0) for number in range(20)]
    problem = CutProblem(20, added(items), loop(3, 3), interleaved(3, 3), (None,) * 3)
    assert cut(problem) == cut(problem)


def test_layers_are_cut_without_ortools() -> None:
    """It takes most of a second to load."""
    code = (
        "import sys\n"
        "from pipesched.estimation.cutting.costs import *\n"
        "from pipesched.estimation.cutting.cut import cut\n"
        "chunk = lambda b, e: ChunkCost(2 * (e - b) + 3 * (b == 0) + 5 * (e == 128), e - b, e - b)\n"
        "assert cut(CutProblem(128, chunk, (*range(16),) * 4, (((1,) * 4,),) * 16, (40,) * 16)).proved\n"
        "assert 'ortools' not in sys.modules"
    )
    run([sys.executable, "-c", code], check=True)


@pytest.mark.nightly
@pytest.mark.parametrize("places", [loop(256, 1), loop(16, 16), loop(128, 2)])
def test_many_items(places: tuple[int, ...]) -> None:
    """500 items into 256 chunks, and where too little memory makes it harder."""
    items = llama(498, 3)
    devices = max(places) + 1
    held = tuple(((4,) * (256 // devices),) for _ in range(devices))
    for capacity in (None, 2_000_000_000 * (256 // devices)):
        assert cut(CutProblem(500, added(items), places, held, (capacity,) * devices), seconds=60).proved


def test_without_time_to_count() -> None:
    """Moves alone lead to a legal cut, of which nothing is proved."""
    problem = CutProblem(62, added(llama(60, 30)), loop(8, 3), interleaved(8, 3), (None,) * 8)
    found, counted = cut(problem, seconds=0.0), cut(problem)
    assert not found.proved
    assert value(problem, found.cuts[0]) == (0, found.device, found.chunk)
    assert counted.device <= found.device


def test_of_other_lists_nothing_is_proved() -> None:
    """There still is a legal cut, better than the one with the least largest chunk."""
    items = [(1000 + (number * 7919) % 997, 0, 0) for number in range(200)]
    answer = cut(CutProblem(200, added(items), loop(16, 8), interleaved(16, 8), (None,) * 16))
    mean = sum(work for work, _, _ in items) / 16
    assert not answer.proved
    assert answer.device < 1.06 * mean


def test_many_chunks_on_devices_of_other_speeds() -> None:
    """Where not all cuts can be tried, the largest work is within 1.005 of all work divided by the devices' rates."""
    slowness, places = (3, 3, 5, 3), loop(4, 3)
    items = [(40 + 7 * item % 23, 0, 0) for item in range(60)]
    held = tuple(((1,) * 3,) for _ in slowness)
    answer = cut(CutProblem(len(items), added(items), places, held, (None,) * 4, slowness))
    least = sum(work for work, _, _ in items) / sum(1 / times for times in slowness)
    assert least <= answer.device <= 1.005 * least
    assert not answer.proved
