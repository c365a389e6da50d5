"""What DeepSpeed is handed: a call in Python, a config in JSON, and what its pipelines refuse."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

import pipesched
from pipesched.errors import Inexpressible
from pipesched.file_formats.pytorch_csv import dump
from pipesched.results.outcome import Outcome
from pipesched.results.trainers import runs_in, takes
from tests.results.handover.test_hand_over import (
    BY_CLASS,
    DENSE,
    EXPERTS,
    LONG,
    PLAIN,
    M,
    P,
    from_the_gpus,
    made,
    of_model,
    pasted,
    remarks,
)

BF16_ZERO = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}}
DEEPSPEED = [  # -> data-parallel ranks, other arguments, other keys of the config, and remarks
    (
        DENSE,
        8,
        {"topology": "PipeModelDataParallelTopology(num_pp=4, num_mp=2, num_dp=8)"},
        BF16_ZERO,
        ["sequence parallelism: the layers do it themselves", "activation checkpointing: selective"],
    ),
    (of_model(recompute="full"), 16, {"activation_checkpoint_interval": "1"}, BF16_ZERO, []),
    (PLAIN, 16, {}, {"fp16": {"enabled": True}}, ["activation checkpointing: full of 3 layers a stage"]),
]


def test_deepspeed() -> None:
    """A call in Python, of the number of stages."""
    call = ast.parse(pipesched.hand_over(made("1f1b"), "deepspeed")).body[0].value  # type: ignore[attr-defined]
    assert call.func.id == "PipelineModule"
    assert {one.arg: ast.literal_eval(one.value) for one in call.keywords} == {
        "num_stages": P,
        "partition_method": "type:YourDecoderLayer",
    }


def test_deepspeed_has_dualpipev() -> None:
    """With whole backwards, from 2P microbatches on."""
    text = pipesched.hand_over(made("dualpipe-v-whole", chunks=2), "deepspeed")
    assert text.startswith("DualPipeVModule(layers, num_stages=4, partition_method='type:YourDecoderLayer')\n")
    with pytest.raises(Inexpressible, match=r"takes at least 2P microbatches, 8; this has 7; the nearest .* is 1f1b"):
        pipesched.hand_over(made("dualpipe-v-whole", chunks=2, microbatches=7), "deepspeed")


@pytest.mark.parametrize(("outcome", "data", "arguments", "keys", "told"), DEEPSPEED)
def test_deepspeed_of_a_model(outcome: Outcome, data: int, arguments: Any, keys: Any, told: list[str]) -> None:
    """A call that knows tensor ranks, and a config in JSON whose batch is that of all ranks."""
    text = pipesched.hand_over(outcome, "deepspeed")
    line, config = pasted(text).splitlines()
    call = ast.parse(line).body[0].value  # type: ignore[attr-defined]
    given_arguments = {one.arg: ast.unparse(one.value) for one in call.keywords}
    assert given_arguments == {"num_stages": f"{P}", "partition_method": "'type:YourDecoderLayer'", **arguments}
    count = outcome.problem.microbatches
    batch = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": count, "train_batch_size": 128}
    assert json.loads(config) == {**batch, **keys}
    assert count * data == 128
    assert remarks(text) == [BY_CLASS, from_the_gpus(outcome, data), *told]


def test_deepspeed_refuses_ways_of_parallelism() -> None:
    """Contexts and experts over several ranks, and experts whose tensors are split otherwise."""
    refused = [
        (LONG, "context parallelism of 2"),
        (EXPERTS, "expert parallelism of 8"),
        (of_model(model="mixtral-8x7b", parallel={"tensor": 2}), "expert tensor parallelism of 1"),
    ]
    for outcome, way in refused:
        with pytest.raises(Inexpressible, match=f"DeepSpeed has no {way} in its pipelines"):
            pipesched.hand_over(outcome, "deepspeed")


UNLIKE: list[dict[str, Any]] = [
    {"sizes": {"message": [1, 2] * 4}},
    {"sizes": {"activation": [1, 2] * 4}},
    {"p2p": [[1, 2] * 4] * 3},
]


@pytest.mark.parametrize("unlike", UNLIKE)
def test_microbatches_of_other_shapes(unlike: dict[str, Any]) -> None:
    """Messages that differ in size run in DeepSpeed with dynamic shapes, and nowhere else; the CSV says so."""
    outcome = pipesched.run(pipesched.make_problem(devices=P, microbatches=M, **unlike), "1f1b")
    assert "dynamic_shape=True" in pipesched.hand_over(outcome, "deepspeed")
    for framework in ("megatron", "torchtitan", "primus", "zero-bubble"):
        with pytest.raises(Inexpressible, match="runs microbatches of one shape, and here their messages"):
            pipesched.hand_over(outcome, framework)
    assert not takes(outcome, "pytorch")
    assert runs_in(outcome.schedule) == []
    assert "is for `pipesched train`: PyTorch runs microbatches of one shape" in dump(outcome.schedule).note
    alike = pipesched.run(pipesched.make_problem(devices=P, microbatches=M, sizes={"work": [1, 2] * 4}), "1f1b")
    assert runs_in(alike.schedule) == ["pytorch"]
    assert "dynamic_shape" not in pipesched.hand_over(alike, "deepspeed")
