"""What memory forbids: shortages and rates are those of estimates, nothing misses much, and one point is a layout."""

from __future__ import annotations

import pytest

import pipesched
from pipesched.tuning import tune as tuning_module
from pipesched.tuning.answer import LARGEST_SHARE, MOST_WISHES, nearest_wishes
from pipesched.tuning.result import OverMemory
from tests.tuning.made import ROWS, layout
from tests.tuning.spaces import GPU, LLAMA, SPACE, Config

ALGORITHMS = ["1f1b", "zb-h1", "interleaved", "zb-v"]


def tuned(memory: float) -> pipesched.Tuning:
    """A small space on GPUs of so many GB."""
    config: Config = {**SPACE, "model": {**LLAMA, "num_hidden_layers": 8}, "hardware": {**GPU, "memory": memory}}
    return pipesched.tune(None, ALGORITHMS, **config)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("memory", [2.4, 2.5, 3, 4.5])
def test_a_wish_is_what_estimates_say(memory: float) -> None:
    """GB too much are those of its estimate, at most a tenth of the GPU; the rate is that with ample memory."""
    tuning = tuned(memory)
    assert tuning.best is not None
    for one in tuning.wishes:
        config: Config = {
            **SPACE,
            "parallel": {"gpus": 8, **one.layout.parallel},
            "batch": {**SPACE["batch"], "micro": one.layout.micro},
            "training": {"recompute": one.layout.recompute_value},
        }
        short = pipesched.estimate(None, one.algorithm, **{**config, "hardware": {**GPU, "memory": memory}})
        over = max(float(device.total - device.budget) for device in short.devices) / 1e9
        assert one.over == pytest.approx(over)
        assert 0 < one.over <= LARGEST_SHARE * memory
        ample = pipesched.estimate(None, one.algorithm, **{**config, "hardware": {**GPU, "memory": 1000}})
        assert one.most == pytest.approx(ample.step.tokens_per_second_per_gpu)
        assert one.most > tuning.best.rate


@pytest.mark.nightly
@pytest.mark.slow
def test_there_are_wishes_where_memory_is_short_and_none_where_it_is_ample() -> None:
    """So that the test above says something."""
    assert sum(len(tuned(memory).wishes) for memory in (2.4, 2.5, 3, 4.5)) >= 4
    assert tuned(8).wishes == ()


def test_the_nearest_wishes() -> None:
    """None is slower than the best; of a layout in other chunks there is one; what misses least is first."""
    rate = ROWS[0].rate
    slow = OverMemory(layout(1, 2), "1f1b", 0.1, rate)
    near, far = (OverMemory(layout(1, 4, chunks), "zb-v", over, rate + 1) for chunks, over in ((2, 0.5), (3, 0.7)))
    others = [OverMemory(layout(2, 2, micro=micro), "1f1b", 1.0 + micro, rate + 5) for micro in (1, 2, 4)]
    assert nearest_wishes([*others, far, slow, near], ROWS[0]) == (near, *others[: MOST_WISHES - 1])


@pytest.mark.slow
def test_no_wishes_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are not estimated for it then, and the answer is there."""
    monkeypatch.setattr(tuning_module, "wish", None)
    assert pipesched.tune(None, ALGORITHMS, time_limit=1e-9, **SPACE).wishes == ()
