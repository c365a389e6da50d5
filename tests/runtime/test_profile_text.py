"""A profile as a config: the backward by its halves, or whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipesched import load
from pipesched.results.outcome import Quartiles
from tests.torch_ranks import needs_torch

pytestmark = needs_torch


@pytest.mark.parametrize(("split", "halves", "whole"), [(True, (3, 4), 5), (False, (2.5, 2.5), 5)])
def test_the_backward_by_its_halves_or_whole(
    tmp_path: Path, *, split: bool, halves: tuple[float, float], whole: float
) -> None:
    """I and W are measured at 3 and 4 ms and B at 5: a config has all three, or the whole alone."""
    from pipesched.runtime.profiling import TIMES, Profile, StageProfile, config_text

    medians = dict(zip(TIMES, (2.0, 5.0, 3.0, 4.0, 2.0, 1.0, 1.0), strict=True))
    times = {key: Quartiles(value - 0.5, value, value + 0.5) for key, value in medians.items()}
    stage = StageProfile(times, 1000, 1.0, 0.5, 4000)
    profile = Profile("a test", 2, 4, 5, [stage, stage], [Quartiles(0.1, 0.2, 0.3)])
    (tmp_path / "config.yaml").write_text(config_text(profile, split_backward=split))
    costs = load(tmp_path / "config.yaml").costs
    assert (costs.backward[0], costs.split) == (whole, split)
    assert (costs.backward_input[0], costs.backward_weight[0]) == halves
