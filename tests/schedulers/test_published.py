"""Published figures of the families, and orders by hand of the simple ones and of slices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, make_problem, run
from pipesched.pipeline.check.check import violations


def unit(algorithm: str, devices: int, microbatches: int, stages: int | None = None, **values: Any) -> Outcome:
    """Unit costs f = b = w = 1 (so B = 2 and a pair takes 3), one activation a stage."""
    costs = {"forward": 1, "backward_input": 1, "backward_weight": 1, "activation": 1, **values}
    problem = make_problem(devices=devices, stages=stages or devices, microbatches=microbatches, **costs)
    return run(problem, algorithm)


def peaks(outcome: Outcome) -> list[int]:
    return [peak // outcome.schedule.problem.grains.per_unit for peak in outcome.schedule.peak_grains]


@pytest.mark.parametrize(
    ("devices", "microbatches", "zb_1p", "dualpipe", "dualpipe_v"),
    [(4, 8, 27, 26, 54), (8, 16, 55, 54, 110), (8, 32, 103, 102, 206), (16, 64, 207, 206, 414)],
)
def test_makespans_at_unit_costs(devices: int, microbatches: int, zb_1p: int, dualpipe: int, dualpipe_v: int) -> None:
    """The published makespans of ZB-1P, DualPipe and DualPipe-V, and their peaks P, P+1 and 2P+1."""
    one = unit("zb-1p", devices, microbatches)
    two = unit("dualpipe", devices, microbatches)
    cut = unit("dualpipe-v", devices, microbatches, 2 * devices)
    assert [outcome.schedule.makespan_ticks for outcome in (one, two, cut)] == [zb_1p, dualpipe, dualpipe_v]
    assert peaks(one) == [devices] * devices
    assert max(peaks(two)) == devices + 1
    assert max(peaks(cut)) == 2 * devices + 1


def zb_1p_order(devices: int, microbatches: int, device: int) -> list[str]:
    """PPViz's rule: P-d-1 F; then F, I and one W if (F issued) - (W issued) >= P; then I, W; then the W left."""
    order, forwards, weights = [], 0, 0
    for _ in range(min(devices - device - 1, microbatches)):
        order.append(f"{device}F{forwards}")
        forwards += 1
    for backward in range(microbatches):
        if forwards < microbatches:
            order.append(f"{device}F{forwards}")
            forwards += 1
            due = forwards - weights >= devices
        else:
            due = True
        order.append(f"{device}I{backward}")
        if due:
            order.append(f"{device}W{weights}")
            weights += 1
    return order + [f"{device}W{left}" for left in range(weights, microbatches)]


@pytest.mark.parametrize(("devices", "microbatches"), [(1, 3), (2, 4), (4, 8), (4, 16), (8, 24)])
def test_zb_h1_is_the_rule_of_zb_1p(devices: int, microbatches: int) -> None:
    """ZB-H1 and PPViz's ZB-1P are the same order, op by op."""
    plan = unit("zb-h1", devices, microbatches).schedule.plan
    for device in range(devices):
        assert [str(slot) for slot in plan.slots(device)] == zb_1p_order(devices, microbatches, device)


@pytest.mark.parametrize(("f", "b", "w"), [(3, 3, 2), (4, 5, 4), (7, 9, 5)])
def test_zb_h1_idles_as_published(f: int, b: int, w: int) -> None:
    """The busiest device of ZB-H1 idles (P-1)(f+b-w) when w <= min(f, b)."""
    schedule = unit("zb-h1", 4, 12, forward=f, backward_input=b, backward_weight=w).schedule
    assert schedule.makespan_ticks - schedule.ideal_ticks == 3 * (f + b - w)


def test_a_pair_that_hides_half_is_faster() -> None:
    """Where a pair takes less than its parts, the overlapped schedule beats plain 1F1B, and the bound stays below."""
    outcome = unit("1f1b-overlap", 4, 16, overlap=2)
    assert outcome.bound.ticks <= outcome.schedule.makespan_ticks < unit("1f1b", 4, 16).schedule.makespan_ticks


@pytest.mark.parametrize(
    ("devices", "microbatches", "waves", "makespan"), [(4, 4, 1, 36), (4, 4, 2, 61), (8, 8, 1, 76), (8, 8, 2, 126)]
)
def test_hanayo(devices: int, microbatches: int, waves: int, makespan: int) -> None:
    """Hanayo's makespans in fused units, under its cap of 2WP chunks."""
    outcome = unit("hanayo", devices, microbatches, 2 * waves * devices)
    assert outcome.schedule.makespan_ticks == makespan
    assert max(peaks(outcome)) <= 2 * waves * devices


@pytest.mark.parametrize(("devices", "microbatches", "makespan"), [(4, 8, 30), (8, 16, 66)])
def test_chimera(devices: int, microbatches: int, makespan: int) -> None:
    """Chimera at B = 2f, and its bubble (P-2)/(2M+P-2) at B = f; peaks between P/2+1 and P."""
    outcome = unit("chimera", devices, microbatches)
    assert outcome.schedule.makespan_ticks == makespan
    assert {devices // 2 + 1, devices} >= {min(peaks(outcome)), max(peaks(outcome))}
    even = unit("chimera", devices, microbatches, backward_input=0.5, backward_weight=0.5)
    assert even.schedule.bubble == pytest.approx((devices - 2) / (2 * microbatches + devices - 2), abs=1e-15)


sizes = st.integers(1, 8), st.integers(1, 16)


@given(*sizes, st.integers(0, 3))
def test_figures_of_sequential(devices: int, microbatches: int, p2p: int) -> None:
    """Equal stages: M times one microbatch's path, one activation a device, bubble 1 - 1/P without p2p."""
    schedule = run(make_problem(devices=devices, microbatches=microbatches, p2p=p2p), "sequential").schedule
    assert schedule.makespan_ticks == microbatches * (3 * devices + 2 * (devices - 1) * p2p)
    assert schedule.peak_grains == [1] * devices
    if not p2p:
        assert schedule.bubble == pytest.approx(1 - 1 / devices)


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


def seq_1f1b(devices: int, microbatches: int, slices: Any, **given: Any) -> Outcome:
    """Of f 4, B 8 a device."""
    costs = {"forward": 4, "backward": 8, **given}
    return run(make_problem(devices=devices, microbatches=microbatches, slices=slices, **costs), "seq-1f1b")


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


sliced_sizes = st.integers(1, 6), st.integers(1, 9), st.integers(1, 5)


def outcome_of(name: str, devices: int, microbatches: int, slices: Any, **given: Any) -> Outcome:
    """Two stages a device, of f = b = w = 1 each, and an activation of 1 a device."""
    costs: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1, **given}
    return run(
        make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, slices=slices, **costs), name
    )


@given(*sliced_sizes)
def test_figures_at_unit_costs(devices: int, microbatches: int, slices: int) -> None:
    """From 2P-1 microbatches on ZB-V and ZB-H2 have no idle span, beside P-1 slices of a stage and of a device."""
    work, units = 6 * microbatches, microbatches * slices
    one, two, v = (outcome_of(name, devices, microbatches, slices).schedule for name in ("zb-h1", "zb-h2", "zb-v"))
    for schedule, most in ((one, devices - 1 + slices), (two, 2 * devices - 2 + slices), (v, devices - 1 + slices)):
        assert max(schedule.peak_memory) * slices == pytest.approx(min(units, most))
        assert list(violations(schedule)) == []
    if microbatches >= 2 * devices - 1:
        assert one.makespan == pytest.approx(work + 2 * (devices - 1) / slices)
        assert two.span == pytest.approx(work)
        assert v.span == pytest.approx(work)
        assert v.makespan == pytest.approx(work + (devices - 1) / slices)


@given(*sliced_sizes, st.tuples(*[st.integers(0, 9)] * 3), st.sampled_from([0, 1, 4]))
def test_never_longer_than_with_whole_backwards(
    devices: int, microbatches: int, slices: int, costs: tuple[int, int, int], p2p: int
) -> None:
    """With stages and slices alike, ZB-H1 is never longer than Seq1F1B, and ZB-V not where f = b = w."""
    given_costs = dict(zip(("forward", "backward_input", "backward_weight"), costs, strict=True))
    whole, split = (
        outcome_of(name, devices, microbatches, slices, p2p=p2p, **given_costs).schedule
        for name in ("seq-1f1b", "zb-h1")
    )
    assert split.makespan <= whole.makespan
    whole, split = (outcome_of(name, devices, microbatches, slices).schedule for name in ("seq-1f1b", "zb-v"))
    assert split.makespan <= whole.makespan
