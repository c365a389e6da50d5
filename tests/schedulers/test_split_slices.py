"""ZB-H1, ZB-H2 and ZB-V with slices: orders by hand, what they idle and hold, and that a split backward pays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import Outcome, make_problem, run
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.zero_bubble import published_order
from tests.strategies import texts_of

sizes = st.integers(1, 6), st.integers(1, 9), st.integers(1, 5)


def outcome_of(name: str, devices: int, microbatches: int, slices: Any, **given: Any) -> Outcome:
    """Two stages a device, of f = b = w = 1 each, and an activation of 1 a device."""
    costs: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1, **given}
    return run(
        make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, slices=slices, **costs), name
    )


def test_zb_h1_by_hand() -> None:
    """P2 M2 n2: a forward more before the first backward, and the last slice goes back first."""
    assert [" ".join(row) for row in texts_of(outcome_of("zb-h1", 2, 2, 2).schedule.plan)] == [
        "0F0.0 0F0.1 0F1.0 0I0.1 0W0.1 0F1.1 0I0.0 0W0.0 0I1.1 0W1.1 0I1.0 0W1.0",
        "1F0.0 1F0.1 1I0.1 1F1.0 1I0.0 1W0.1 1F1.1 1I1.1 1W0.0 1I1.0 1W1.1 1W1.0",
    ]


def test_zb_v_by_hand() -> None:
    """P2 M2 n2, before the search: another F1 and F0 before the first backward, another I0 and I1 behind the last F."""
    index = OpIndex("FIW", 4, 2, 2)
    assert [" ".join(str(index.op(one)) for one in published_order(index, 2, device)) for device in range(2)] == [
        "0F0.0 0F0.1 0F1.0 3F0.0 0F1.1 3F0.1 3I0.1 3W0.1 3F1.0 3I0.0 3W0.0 0I0.1"
        " 0W0.1 3F1.1 3I1.1 3W1.1 0I0.0 3I1.0 0I1.1 0W0.0 0I1.0 0W1.1 3W1.0 0W1.0",
        "1F0.0 2F0.0 1F0.1 2F0.1 1F1.0 2F1.0 2I0.1 2W0.1 1F1.1 1I0.1 1W0.1 2F1.1"
        " 2I0.0 2W0.0 1I0.0 2I1.1 1I1.1 2I1.0 1I1.0 1W0.0 2W1.1 2W1.0 1W1.1 1W1.0",
    ]


@given(*sizes)
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


@given(*sizes, st.tuples(*[st.integers(0, 9)] * 3), st.sampled_from([0, 1, 4]))
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
