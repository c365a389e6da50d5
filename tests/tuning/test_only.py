"""`only` a trainer: groups of microbatches that it runs, where those that were found it refuses."""

from __future__ import annotations

import pytest

import pipesched
from tests.tuning.spaces import GPU, LLAMA, Config

EVEN: Config = {
    "model": {**LLAMA, "num_hidden_layers": 12},
    "hardware": {**GPU, "memory": 80},
    "parallel": {"gpus": 4, "tensor": 1, "pipeline": 4, "chunks": 2, "context": 1},
    "training": {"layout": "equal"},
}


@pytest.mark.parametrize(("microbatches", "is_refused"), [(7, True), (9, False), (11, True)])
def test_groups_that_megatron_runs(microbatches: int, is_refused: bool) -> None:
    """Those of the shortest schedule, where it takes them, else the next best; the config of the winner names them."""
    config: Config = {**EVEN, "batch": {"sequence": 1024, "global": microbatches}}
    free, own = (pipesched.tune(None, ["interleaved"], only=only, beyond=True, **config) for only in (None, "megatron"))
    assert free.best is not None
    assert own.best is not None
    assert ("megatron" not in free.best.runs_in) == is_refused
    assert "megatron" in own.best.runs_in
    assert (own.best.rate < free.best.rate) == is_refused
    assert ("group_size" in own.config) == is_refused
    again = pipesched.estimate(own.config)
    assert again.step == own.best.step
    assert "--pipeline-model-parallel-size 4" in pipesched.hand_over(again.outcome, "megatron")
