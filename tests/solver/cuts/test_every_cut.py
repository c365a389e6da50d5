"""The bound over all cuts, on plain numbers: the numbers of two models, and random chains against all of their cuts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from random import Random

import pytest

from pipesched.pipeline.layers.cutting import CutItems
from pipesched.solver.cuts.chain import Chain, Devices, cuts_in_order
from pipesched.solver.cuts.tried import least_by_work

NOTHING = Fraction(0)


def numbers(*values: float | str) -> list[Fraction]:
    return [Fraction(str(value)) for value in values]


def uneven(speed: tuple[float, ...] = (1, 1, 1), budget: float | None = None) -> Chain:
    """Eight layers whose backwards are whole, on three devices."""
    forward, weight = numbers(3, 1, 4, 1, 5, 9, 2, 6), numbers(2, 7, 1, 8, 2, 8, 1, 8)
    backward = [one + other for one, other in zip(forward, weight, strict=True)]
    held = numbers(1, 2, 1, 2, 1, 2, 1, 2)
    items = CutItems(forward, backward, [NOTHING] * 8, None, [NOTHING] * 7, numbers(*[1] * 8), [held])
    room = None if budget is None else numbers(*[budget] * 3)
    return Chain(items, Devices((0, 1, 2), numbers(*speed), room), 4)


def least_of_every_cut(chain: Chain) -> float:
    """Return ticks that no schedule on any cut is below with which one microbatch fits; infinite where none does."""
    order = cuts_in_order(chain)
    if order is None:
        return least_by_work(chain)
    first = next(iter(order), None)
    return order.ahead if first is None else first.bound


def large(*, split: bool, chunks: int = 1) -> Chain:
    """32 layers that differ and a head, on eight devices of 80."""
    forward = [Fraction(28 + 7 * layer % 15, 10) for layer in range(32)]
    gradient = [Fraction(106, 100) * time for time in forward]
    head = numbers("4.4")
    forward, gradient, weight = [*forward, *head], [*gradient, *head], [*forward, *head]
    if not split:
        gradient, weight = [one + other for one, other in zip(gradient, weight, strict=True)], [NOTHING] * 33
    static, held = [*numbers(*[11] * 32), NOTHING], [*numbers(*["0.42"] * 32), NOTHING]
    items = CutItems(forward, gradient, weight, None, numbers(*["0.25"] * 32), static, [held])
    return Chain(items, Devices((*range(8),) * chunks, numbers(*[1] * 8), numbers(*[80] * 8)), 32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "bound"),
    [
        (uneven(), 188), (uneven((1, 0.5, 1)), 252), (uneven(budget=9), 218), (large(split=True), 1658.73),
        (large(split=False), 1746.618),
        pytest.param(large(split=True, chunks=2), 1527.552, marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_the_bounds_of_two_models_are_known(chain: Chain, bound: float) -> None:
    assert least_of_every_cut(chain) == Fraction(str(bound)) * chain.per_unit


def a_chain(random: Random, *, single: bool) -> Chain:
    """A small chain of random times, latencies, speeds and memory."""
    size, devices = random.randint(3, 7), random.randint(2, 3)

    def some(count: int, *, zero: bool = False) -> list[Fraction]:
        return [Fraction(random.randint(0 if zero else 1, 9), 2) for _ in range(count)]

    pair = some(size) if random.random() < 0.3 else None
    weight = some(size) if random.random() < 0.5 else [NOTHING] * size
    p2p = some(size - 1, zero=True) if random.random() < 0.5 else [Fraction(1, 2)] * (size - 1)
    items = CutItems(some(size), some(size), weight, pair, p2p, some(size), [some(size), some(size)])
    speed = [Fraction(random.choice(["1", "1", "1", "2", "1/3", "0.7"])) for _ in range(devices)]
    links = [
        [NOTHING if one == other else Fraction(random.randint(0, 3)) for one in range(devices)]
        for other in range(devices)
    ]
    room = [Fraction(random.randint(10, 30)) for _ in range(devices)] if random.random() < 0.5 else None
    of_stages = random.sample(range(devices), devices)
    if not single:
        more = random.choice([of_stages, of_stages[::-1]])
        of_stages += more[: random.choice([size - devices, devices])] if size >= 2 * devices else more[: size - devices]
    return Chain(items, Devices(tuple(of_stages), speed, room, links), random.randint(1, 4))


def cuts_of(chain: Chain) -> list[tuple[int, ...]]:
    inner = combinations(range(1, len(chain)), chain.stages - 1)
    return [(*ends, len(chain)) for ends in inner]


def fits(chain: Chain, ends: tuple[int, ...]) -> bool:
    """Return whether one microbatch fits each device."""
    runs = [*zip((0, *ends), ends, strict=False)]
    of_stages = chain.devices.of_stages
    return all(
        chain.fits(
            of_stages.index(device), [run for run, there in zip(runs, of_stages, strict=True) if there == device]
        )
        for device in of_stages
    )


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("seed", range(80))
def test_cuts_come_in_the_order_of_their_bounds_and_all_of_them(seed: int, single: bool) -> None:
    chain = a_chain(Random(seed), single=single)
    fitting = [ends for ends in cuts_of(chain) if fits(chain, ends)]
    order = cuts_in_order(chain)
    if order is None:
        assert not single
        return
    ranked = [*order]
    assert sorted(cut.ends for cut in ranked) == sorted(fitting)
    assert all(chain.bound_of(cut.ends) == cut[:2] for cut in ranked)
    assert [cut[:2] for cut in ranked] == sorted(cut[:2] for cut in ranked)
    least = least_of_every_cut(chain)
    assert least == min((chain.bound_of(ends)[0] for ends in fitting), default=float("inf"))


@pytest.mark.parametrize("seed", range(40))
def test_cuts_up_to_a_bound_are_all_of_those(seed: int) -> None:
    chain = a_chain(Random(seed), single=False)
    every = cuts_in_order(chain)
    if every is None:
        return
    ranked = [*every]
    most = ranked[len(ranked) // 2].bound if ranked else 100
    order = cuts_in_order(chain, most)
    assert order is not None
    assert [*order] == [cut for cut in ranked if cut.bound <= most]
    assert order.ahead == most


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_has_less_work_than_all_devices_can_do(seed: int) -> None:
    chain = a_chain(Random(seed), single=False)
    least = least_by_work(chain)
    assert least_by_work(replace(chain, counts_ways=False)) <= least
    if chain.items.pair is None:
        assert all(least <= chain.bound_of(ends)[0] for ends in cuts_of(chain))
