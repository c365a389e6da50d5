"""Sequential, naive, 1F1B, eager 1F1B, Seq1F1B and looped breadth-first: their orders and their published figures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, make_problem, run
from tests.strategies import texts_of

FORWARDS = ["0F0.0", "0F0.1", "0F1.0", "0F1.1"]
ORDERS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [  # family, problem, options, rows by hand
    ("sequential", {"devices": 2, "microbatches": 3}, {}, ["0F0 0B0 0F1 0B1 0F2 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"]),
    ("naive", {"devices": 2, "microbatches": 2}, {}, ["0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"]),
    ("naive", {"devices": 2, "microbatches": 2}, {"lifo": True}, ["0F0 0F1 0B1 0B0", "1F0 1F1 1B1 1B0"]),
    ("naive", {"devices": 1, "microbatches": 2, "slices": 2}, {"lifo": True},
     [" ".join([*FORWARDS, "0B1.1 0B1.0 0B0.1 0B0.0"])]),
    ("1f1b", {"devices": 3, "microbatches": 4}, {},
     ["0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3", "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"]),
    ("1f1b", {"devices": 2, "microbatches": 1}, {}, ["0F0 0B0", "1F0 1B0"]),
    ("eager-1f1b", {"devices": 3, "microbatches": 6}, {},
     ["0F0 0F1 0F2 0F3 0F4 0F5 0B0 0B1 0B2 0B3 0B4 0B5", "1F0 1F1 1F2 1F3 1B0 1F4 1B1 1F5 1B2 1B3 1B4 1B5",
      "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2B5"]),
    ("looped-bfs", {"devices": 2, "stages": 4, "microbatches": 3}, {},
     ["0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0", "1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0"]),
]  # fmt: skip
sizes = st.integers(1, 8), st.integers(1, 16)


@pytest.mark.parametrize(("name", "problem", "options", "rows"), ORDERS)
def test_orders_by_hand(name: str, problem: dict[str, Any], options: dict[str, Any], rows: list[str]) -> None:
    """One microbatch at a time; all F, then all B; P-d-1 or 2(P-d-1)+1 forwards first; chunk by chunk."""
    plan = run(make_problem(**problem), name, **options).schedule.plan
    assert [" ".join(row) for row in texts_of(plan)] == rows


@given(*sizes, st.integers(0, 3))
def test_figures_of_sequential(devices: int, microbatches: int, p2p: int) -> None:
    """Equal stages: M times one microbatch's path, one activation a device, bubble 1 - 1/P without p2p."""
    schedule = run(make_problem(devices=devices, microbatches=microbatches, p2p=p2p), "sequential").schedule
    assert schedule.makespan_ticks == microbatches * (3 * devices + 2 * (devices - 1) * p2p)
    assert schedule.peak_grains == [1] * devices
    if not p2p:
        assert schedule.bubble == pytest.approx(1 - 1 / devices)


@given(*sizes, st.booleans())
def test_figures_of_naive(devices: int, microbatches: int, lifo: bool) -> None:
    """Equal stages: bubble (P-1)/(M+P-1), as 1F1B; M activations everywhere."""
    schedule = run(make_problem(devices=devices, microbatches=microbatches), "naive", lifo=lifo).schedule
    assert schedule.bubble == pytest.approx((devices - 1) / (microbatches + devices - 1))
    assert schedule.peak_grains == [microbatches] * devices


@given(*sizes, st.integers(1, 5), st.integers(0, 9))
def test_figures_of_1f1b(devices: int, microbatches: int, forward: int, backward: int) -> None:
    """Equal stages: makespan (M+P-1)(f+B), bubble (P-1)/(M+P-1), peak min(P-d, M), and nothing is faster."""
    problem = make_problem(devices=devices, microbatches=microbatches, forward=forward, backward=backward)
    outcome = run(problem, "1f1b")
    schedule = outcome.schedule
    assert schedule.makespan_ticks == problem.ticks.per_unit * (microbatches + devices - 1) * (forward + backward)
    assert schedule.bubble == pytest.approx((devices - 1) / (microbatches + devices - 1))
    assert outcome.status == "optimal"
    if backward:
        assert schedule.peak_grains == [min(devices - d, microbatches) for d in range(devices)]


@given(*sizes)
def test_figures_of_eager_1f1b(devices: int, microbatches: int) -> None:
    """min(M, 2(P-d)) activations on device d; without p2p it is as fast as 1F1B."""
    schedule = run(make_problem(devices=devices, microbatches=microbatches), "eager-1f1b").schedule
    assert schedule.peak_grains == [min(microbatches, 2 * (devices - d)) for d in range(devices)]
    assert schedule.makespan_ticks == 3 * (microbatches + devices - 1)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 5))
def test_figures_of_looped_bfs(devices: int, chunks: int, extra: int) -> None:
    """Bubble (P-1)/(VM+P-1) from P microbatches on, whatever P divides; every device holds all VM chunks."""
    microbatches = devices + extra
    problem = make_problem(devices=devices, stages=chunks * devices, microbatches=microbatches, activation=1)
    schedule = run(problem, "looped-bfs").schedule
    assert schedule.bubble == pytest.approx((devices - 1) / (chunks * microbatches + devices - 1))
    assert schedule.peak_grains == [chunks * microbatches] * devices


def test_the_built_in_default() -> None:
    """Eight stages fused into four: 330 by 1F1B, with 4, 3, 2 and 1 microbatches on the devices."""
    schedule = run(make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10), "1f1b").schedule
    assert (schedule.makespan_ticks, schedule.problem.stages) == (330, 4)
    assert schedule.peak_grains == [held * schedule.problem.grains.per_unit for held in (4, 3, 2, 1)]


@pytest.mark.parametrize(("devices", "microbatches", "p2p"), [(2, 2, 1), (4, 8, 2), (8, 3, 1), (3, 1, 4)])
def test_p2p_of_few_microbatches(devices: int, microbatches: int, p2p: int) -> None:
    """The first microbatch crosses P-1 boundaries there and back, so 2(P-1)c is the least that p2p costs 1F1B."""
    free, slow = (run(make_problem(devices=devices, microbatches=microbatches, p2p=c), "1f1b") for c in (0, p2p))
    assert slow.schedule.makespan_ticks >= free.schedule.makespan_ticks + 2 * (devices - 1) * p2p


@pytest.mark.parametrize(("devices", "microbatches"), [(4, 8), (8, 16), (8, 32)])
def test_eager_1f1b_hides_p2p(devices: int, microbatches: int) -> None:
    """With p2p as long as a forward it is faster than 1F1B, at more memory."""
    problem = make_problem(devices=devices, microbatches=microbatches, p2p=1)
    eager, plain = run(problem, "eager-1f1b").schedule, run(problem, "1f1b").schedule
    assert eager.makespan_ticks < plain.makespan_ticks
    assert sum(eager.peak_grains) > sum(plain.peak_grains)


def test_proven_optima() -> None:
    """By CP-SAT: one activation takes 96 at P4 M8 and 54 at P3 M6; P4 M8 f=2 B=4 p2p 1 at least 72."""
    assert run(make_problem(devices=4, microbatches=8), "sequential").schedule.makespan_ticks == 96
    assert run(make_problem(devices=3, microbatches=6), "sequential").schedule.makespan_ticks == 54
    latent = make_problem(devices=4, microbatches=8, forward=2, backward=4, p2p=1)
    assert run(latent, "eager-1f1b").schedule.makespan_ticks >= 72


@given(st.permutations([1, 2, 3, 4, 5, 6, 7, 8]), st.integers(1, 6))
def test_forward_passes_alone_of_any_order(times: list[int], devices: int) -> None:
    """With equal stages units of times t take sum t + (P-1) max t in every order: 60 at P4 for 1 to 8."""
    schedule = run(make_problem(devices=devices, forward=[times] * devices, mode="forward"), "naive").schedule
    assert schedule.makespan == 36 + (devices - 1) * 8
    assert schedule.peak_memory == [1] * devices


def test_keys_and_values_of_forward_passes() -> None:
    """P4 M2, f 8 in four slices: 22, and each device holds a slice beside a quarter of the three before it."""
    problem = make_problem(devices=4, microbatches=2, slices=4, forward=8, kv=0.25, mode="forward")
    schedule = run(problem, "naive").schedule
    assert (schedule.makespan, schedule.peak_memory) == (22, [0.4375] * 4)


def seq_1f1b(devices: int, microbatches: int, slices: Any, **given: Any) -> Outcome:
    """Of f 4, B 8 a device."""
    costs = {"forward": 4, "backward": 8, **given}
    return run(make_problem(devices=devices, microbatches=microbatches, slices=slices, **costs), "seq-1f1b")


def test_peaks_of_slices() -> None:
    """In microbatches with the gradients of keys and values, and of slices of equal work."""
    assert seq_1f1b(4, 8, 4, kv=0.25).schedule.peak_memory == [1.9375, 1.6875, 1.4375, 1.1875]
    cut = seq_1f1b(4, 8, {"count": 4, "tokens": "work", "attention": 0.5}).schedule
    assert [*map(float, cut.problem.slices.tokens)] == [0.366025, 0.252009, 0.204842, 0.177124]
    assert cut.makespan == 105
    assert cut.peak_memory == [1.984059, 1.73205, 1.44091, 1.236068]


@pytest.mark.parametrize(
    ("devices", "attention", "makespan"),
    [(4, 0.25, 122.4375), (4, 0.5, 139.875), (8, 0.25, 136.6875), (8, 0.5, 156.375)],
)
def test_slices_by_attention(devices: int, attention: float, makespan: float) -> None:
    """M8 n4 of equal tokens: later slices attend to more, and last longer."""
    assert seq_1f1b(devices, 8, {"count": 4, "attention": attention}).schedule.makespan == makespan


@given(*sizes, st.integers(1, 9))
def test_figures_of_seq_1f1b(devices: int, microbatches: int, slices: int) -> None:
    """Equal shares: makespan (M + (P-1)/n)(f+B), bubble (P-1)/(nM+P-1), peak min(P-1-d+n, Mn)/n, nothing is faster."""
    outcome = seq_1f1b(devices, microbatches, slices)
    schedule, units = outcome.schedule, microbatches * slices
    assert schedule.makespan == pytest.approx((microbatches + (devices - 1) / slices) * 12)
    assert schedule.bubble == pytest.approx((devices - 1) / (units + devices - 1))
    held = [min(devices - 1 - d + slices, units) / slices for d in range(devices)]
    assert schedule.peak_memory == pytest.approx(held)
    assert outcome.status == "optimal"


@given(*sizes, st.integers(1, 2))
def test_one_slice_is_1f1b(devices: int, microbatches: int, chunks: int) -> None:
    """Without slices, when named, Seq1F1B is 1F1B, on fused stages too."""
    problem = make_problem(devices=devices, stages=devices * chunks, microbatches=microbatches)
    assert texts_of(run(problem, "seq-1f1b").schedule.plan) == texts_of(run(problem, "1f1b").schedule.plan)
