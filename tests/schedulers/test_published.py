"""Figures that papers and peers publish for the families beyond 1F1B."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched.errors import NotApplicable
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import Outcome, run


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


@pytest.mark.parametrize(("devices", "microbatches"), [(4, 8), (8, 24), (8, 32), (16, 48)])
def test_zb_h2_leaves_nothing_idle_in_its_span(devices: int, microbatches: int) -> None:
    """At w = f = b the idle time within the span is max(0, (P-1)(f+b-2w)) = 0, with 2P-1 activations."""
    outcome = unit("zb-h2", devices, microbatches)
    assert outcome.schedule.bubble_span == 0
    assert max(peaks(outcome)) == 2 * devices - 1


@pytest.mark.parametrize(("f", "b", "w"), [(3, 3, 2), (4, 5, 4), (7, 9, 5)])
def test_zb_h1_idles_as_published(f: int, b: int, w: int) -> None:
    """The busiest device of ZB-H1 idles (P-1)(f+b-w) when w <= min(f, b)."""
    schedule = unit("zb-h1", 4, 12, forward=f, backward_input=b, backward_weight=w).schedule
    assert schedule.makespan_ticks - schedule.ideal_ticks == 3 * (f + b - w)


def test_peaks_of_the_overlapped_families() -> None:
    """P4 M8: 1f1b-overlap 8, 6, 4, 2; interleaved-overlap with two chunks 12, 10, 8, 6 chunks."""
    assert peaks(unit("1f1b-overlap", 4, 8)) == [8, 6, 4, 2]
    assert peaks(unit("interleaved-overlap", 4, 8, 8)) == [12, 10, 8, 6]


def test_a_pair_that_hides_half_is_faster() -> None:
    """Where a pair takes less than its parts, the overlapped schedule beats plain 1F1B, and the bound stays below."""
    outcome = unit("1f1b-overlap", 4, 16, overlap=2)
    assert outcome.bound.ticks <= outcome.schedule.makespan_ticks < unit("1f1b", 4, 16).schedule.makespan_ticks


@pytest.mark.parametrize(("name", "group"), [("gis", 4), ("gis-h", 2)])
def test_peak_of_the_grouped_families(name: str, group: int) -> None:
    """PipeOffload: device 0 holds (V-1)g + P chunks; GIS-H takes g = P/2."""
    for chunks in (2, 3, 4):
        assert peaks(unit(name, 4, 8, 4 * chunks))[0] == (chunks - 1) * group + 4


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


@pytest.mark.parametrize(("name", "devices", "microbatches", "key", "nearest"), [
    ("dualpipe", 3, 8, "devices", "2 or 4"), ("dualpipe", 1, 8, "devices", "2"),
    ("dualpipe", 4, 9, "microbatches", "8 or 10"), ("dualpipe", 4, 1, "microbatches", "2"),
    ("chimera", 5, 8, "devices", "4 or 6"),
])  # fmt: skip
def test_refusals_name_the_rule_and_the_nearest_values(
    name: str, devices: int, microbatches: int, key: str, nearest: str
) -> None:
    """What a family needs is said with the nearest values that work."""
    with pytest.raises(
        NotApplicable, match=f"^{name} needs an even number of {key}, for instance {nearest}, "
    ) as caught:
        unit(name, devices, microbatches)
    assert caught.value.key == key
