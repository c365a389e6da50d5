"""The second replay itself: published figures of microbatches that differ, of slices, and of forward passes alone."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.oracle import orders
from tests.oracle.drawn import Config, small_configs
from tests.oracle.optimum import head_work_tail, optimum
from tests.oracle.replay import Replayed, Stuck, replay
from tests.oracle.setup import fused, read_setup

RISING = {"devices": 4, "backward": [[2, 4, 6, 8, 10, 12]] * 4, "forward": [[1, 2, 3, 4, 5, 6]] * 4}
SIX = {"devices": 4, "sizes": {"work": [1, 2, 3, 4, 5, 6], "activation": [1, 2, 3, 4, 5, 6]}}


def seq_1f1b(p: int, m: int, n: int, **slices: Any) -> Replayed:
    """Of f 4, B 8 a device."""
    kv = {"kv": slices.pop("kv")} if "kv" in slices else {}
    config = {"devices": p, "microbatches": m, "forward": 4, "backward": 8, "slices": {"count": n, **slices}, **kv}
    return replay(read_setup(config), orders.seq_1f1b(p, m, n))


def forward_only(p: int, stages: int, m: int, n: int, rows: orders.Rows, **given: Any) -> Replayed:
    config = {"devices": p, "stages": stages, "microbatches": m, "mode": "forward", "slices": n, "placement": "loop"}
    return replay(read_setup({**config, **given}), rows)


@pytest.mark.parametrize("config", [RISING, SIX])
@pytest.mark.parametrize(
    ("order", "makespan"),
    [([0, 1, 2, 3, 4, 5], 103), ([5, 4, 3, 2, 1, 0], 105), ([1, 3, 5, 4, 2, 0], 98), ([0, 1, 2, 5, 4, 3], 96)],
)
def test_orders_of_1f1b(config: dict[str, Any], order: list[int], makespan: int) -> None:
    """P4 M6, f = 1..6, B = 2f: as given, falling, by verl's rule, and the best; as tables and as sizes."""
    setup = read_setup(config)
    assert replay(setup, orders.renamed(orders.one_f_one_b(4, 6), order)).makespan == makespan


def test_rule_of_verl() -> None:
    """The largest in the middle; of equal ones the later first."""
    assert orders.verl([1, 2, 3, 4, 5, 6]) == [1, 3, 5, 4, 2, 0]
    assert orders.verl([2, 2, 2]) == [0, 2, 1]


@pytest.mark.slow
def test_every_order_of_1f1b() -> None:
    """Of all 720 orders one alone takes 96; they take 122.0597 on average, and 143 at most."""
    setup, rows = read_setup(RISING), orders.one_f_one_b(4, 6)
    taken = {order: replay(setup, orders.renamed(rows, order)).makespan for order in permutations(range(6))}
    assert [order for order, makespan in taken.items() if makespan == 96] == [(0, 1, 2, 5, 4, 3)]
    assert round(float(sum(taken.values()) / 720), 4) == 122.0597
    assert min(taken.values()) == 96
    assert max(taken.values()) == 143
    assert head_work_tail(setup, "FB") == 72


@pytest.mark.parametrize(
    ("p", "m", "n", "makespan"),
    [
        (4, 8, 1, 132), (4, 8, 2, 114), (4, 8, 4, 105), (8, 8, 4, 117), (8, 16, 8, 202.5), (8, 4, 8, 58.5),
        (4, 2, 4, 33), (3, 4, 3, 56),
    ],
)  # fmt: skip
def test_seq_1f1b(p: int, m: int, n: int, makespan: float) -> None:
    """Makespan (M + (P-1)/n)(f+B), peak of device d min(P-1-d+n, Mn)/n microbatches, bubble (P-1)/(nM+P-1)."""
    replayed = seq_1f1b(p, m, n)
    assert replayed.makespan == makespan == (m + Fraction(p - 1, n)) * 12
    assert replayed.peak == [Fraction(min(p - 1 - d + n, m * n), n) for d in range(p)]
    assert replayed.bubble == Fraction(p - 1, n * m + p - 1)


def test_gradients_of_keys_and_values() -> None:
    """With `kv` of a quarter the peaks of P4 M8 in four slices rise by 3/16 of a microbatch."""
    assert seq_1f1b(4, 8, 4).peak == [Fraction(slices, 4) for slices in (7, 6, 5, 4)]
    assert seq_1f1b(4, 8, 4, kv=0.25).peak == [1.9375, 1.6875, 1.4375, 1.1875]


@pytest.mark.parametrize(
    ("p", "attention", "makespan"),
    [(4, "0.25", 122.4375), (4, "0.5", 139.875), (8, "0.25", 136.6875), (8, "0.5", 156.375)],
)
def test_attention_makes_slices_unequal(p: int, attention: str, makespan: float) -> None:
    """Equal tokens are unequal work: the last slice attends to all before it."""
    assert seq_1f1b(p, 8, 4, attention=attention).makespan == makespan


def test_slices_of_equal_work() -> None:
    """Cut where the work is equal, the slices have fewer and fewer tokens."""
    config = {"devices": 4, "slices": {"count": 4, "tokens": "work", "attention": "0.5"}}
    assert [*map(float, read_setup(config).tokens)] == [0.366025, 0.252009, 0.204842, 0.177124]
    replayed = seq_1f1b(4, 8, 4, tokens="work", attention="0.5")
    assert replayed.makespan == 105
    assert [*map(float, replayed.peak)] == [1.984059, 1.732050, 1.440910, 1.236068]


@pytest.mark.parametrize(
    ("p", "m", "n", "makespan", "halves"),
    [
        (4, 8, 1, 228, None), (4, 8, 2, 210, [12, 10, 8, 6]), (4, 8, 4, 201, None), (4, 4, 4, 105, None),
        (2, 4, 4, 99, None), (4, 6, 3, 156, None), (8, 8, 4, 213, None),
    ],
)  # fmt: skip
def test_interleaved(p: int, m: int, n: int, makespan: int, halves: list[int] | None) -> None:
    """Two chunks of f 4, B 8 a device; peaks in halves of a chunk. (VM + (P-1)/n)(f+B) where the groups are full."""
    config = {"devices": p, "stages": 2 * p, "microbatches": m, "forward": 4, "backward": 8, "slices": n}
    replayed = replay(read_setup({**config, "placement": "loop", "activation": 1}), orders.interleaved(p, 2, m, n))
    assert replayed.makespan == makespan
    if p % n == 0 and m % (p // n) == 0:
        assert makespan == (2 * m + Fraction(p - 1, n)) * 12
    if halves is not None:
        assert replayed.peak == [Fraction(slices, n) for slices in halves]


def test_stuck_groups() -> None:
    """Groups of one microbatch on four devices wait for each other for ever, and the replay says where."""
    config = {"devices": 4, "stages": 8, "microbatches": 8, "placement": "loop"}
    with pytest.raises(Stuck) as error:
        replay(read_setup(config), orders.interleaved(4, 2, 8, group=1))
    assert error.value.at


@pytest.mark.parametrize(("times", "makespan"), [([1, 2, 3, 4, 5, 6, 7, 8], 60), ([4] * 8, 44)])
def test_forward_only(times: list[int], makespan: int) -> None:
    """With equal stages units of times t take sum t + (P-1) max t in every order."""
    for order in (times, times[::-1], times[::2] + times[1::2]):
        replayed = forward_only(4, 4, 8, 1, orders.forward_naive(4, 8), forward=[order] * 4)
        assert replayed.makespan == makespan
        assert replayed.peak == [1] * 4


def test_forward_only_chunks_and_slices() -> None:
    """P4, 8 stages of f 4, M4 in two slices: 38 in groups and breadth first."""
    for rows in (orders.forward_interleaved(4, 2, 4, 2), orders.forward_looped_bfs(4, 2, 4, 2)):
        assert forward_only(4, 8, 4, 2, rows, forward=4).makespan == 38


def test_forward_only_keeps_keys_and_values() -> None:
    """P4 M2, f 8, four slices, `kv` of a quarter: three slices' keys and values beside the last slice."""
    replayed = forward_only(4, 4, 2, 4, orders.forward_naive(4, 2, 4), forward=8, kv=Fraction(1, 4))
    assert replayed.makespan == 22
    assert replayed.peak == [Fraction(7, 16)] * 4


def test_fused_stages_add_up() -> None:
    """Eight stages as four: as if each had the sum of two, entry by entry, and the boundaries between them alone."""
    rows = [[1, 2], [3, 0], [1, 1], [2, 5], [0, 1], [4, 4], [1, 2], [2, 1]]
    sums = [[4, 2], [3, 6], [4, 5], [3, 3]]
    config = {"devices": 4, "stages": 8, "forward": rows, "activation": rows, "p2p": [9, 1, 9, 2, 9, 3, 9]}
    whole = {"devices": 4, "forward": sums, "activation": sums, "p2p": [1, 2, 3]}
    assert fused(read_setup(config), 4, range(4)) == read_setup(whole)


@pytest.mark.parametrize(
    ("config", "kinds", "best"),
    [
        ({"devices": 2, "microbatches": 3}, "FB", 12),  # (M + P - 1)(f + B)
        ({"devices": 3, "microbatches": 2}, "FB", 12),
        ({"devices": 2, "microbatches": 3, "budget": 1}, "FB", 18),  # one microbatch at a time
        ({"devices": 2, "microbatches": 1, "slices": 3}, "FB", 4),  # (M + (P-1)/n)(f + B)
        ({"devices": 3, "microbatches": 2, "slices": 2}, "FB", 9),
        ({"devices": 2, "mode": "forward", "forward": [[1, 2, 3]] * 2}, "F", 9),
        ({"devices": 2, "mode": "forward", "forward": [[3, 1, 2], [1, 3, 2]]}, "F", 7),  # Johnson's rule
        ({"devices": 2, "microbatches": 2, "backward_input": 1, "backward_weight": 1}, "FIW", 7),
    ],
)
def test_every_order(config: dict[str, Any], kinds: str, best: int) -> None:
    """Trying every order finds known optima, and no bound by ways in, work and ways out is above them."""
    setup = read_setup(config)
    assert optimum(setup, kinds) == best
    assert head_work_tail(setup, kinds) <= best


@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(lambda kinds: small_configs(slices=kinds[0], forward_only=kinds[1]))
)
def test_no_way_is_longer(config: Config) -> None:
    """No way in, work and way out is longer than the best of all orders, which exists wherever a microbatch fits."""
    setup = read_setup(config)
    for kinds in ["F"] if setup.forward_only else ["FB", "FIW"]:
        best = optimum(setup, kinds)
        assert best is not None
        assert head_work_tail(setup, kinds) <= best
