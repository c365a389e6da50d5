"""Megatron-Bridge and MaxText: what is set, and why a schedule is refused."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import pipesched
from pipesched.errors import Inexpressible
from tests.results.handover.test_hand_over import BATCH, M, P, made, of_model, pasted, remarks


def assigned(text: str) -> dict[str, Any]:
    """What a snippet sets, by the names."""
    found: dict[str, Any] = {}
    for line in ast.parse(pasted(text)).body:
        if not isinstance(line, ast.ImportFrom):
            assert isinstance(line, ast.Assign)
            value = line.value.args[0] if isinstance(line.value, ast.Call) else line.value
            found[ast.unparse(line.targets[0])] = ast.literal_eval(value)
    return found


def test_bridge() -> None:
    """Ranks, chunks, groups where they are not P, and the overlap; what Megatron-LM refuses is refused."""
    size = {"cfg.model.pipeline_model_parallel_size": P, "cfg.model.virtual_pipeline_model_parallel_size": None}
    assert assigned(pipesched.hand_over(made("1f1b"), "megatron-bridge")) == size
    groups = made("interleaved", chunks=2, microbatches=16, group_size=8)
    assert assigned(pipesched.hand_over(groups, "megatron-bridge")) == {
        **size,
        "cfg.model.virtual_pipeline_model_parallel_size": 2,
        "cfg.model.microbatch_group_size_per_vp_stage": 8,
    }
    overlapped = assigned(pipesched.hand_over(made("interleaved-overlap", chunks=2), "megatron-bridge"))
    assert overlapped["cfg.comm_overlap.overlap_moe_expert_parallel_comm"]
    with pytest.raises(Inexpressible, match=r"Megatron-Bridge has 1F1B .* nearest that it has is interleaved"):
        pipesched.hand_over(made("zb-v", chunks=2), "megatron-bridge")


def test_bridge_of_a_model() -> None:
    """All that the config knows of ways of parallelism, batches, numbers and recompute."""
    given = of_model(model="mixtral-8x7b", parallel={"expert": 8, "sequence": False}, recompute="full")
    found = assigned(pipesched.hand_over(given, "megatron-bridge"))
    assert found["cfg.model.pipeline_model_parallel_layout"] == "Et*8|t*8|t*8|t*8L"
    assert found["cfg.model.expert_model_parallel_size"] == 8
    assert found["cfg.model.moe_token_dispatcher_type"] == "flex"
    assert (found["cfg.train.global_batch_size"], found["cfg.model.seq_length"]) == tuple(BATCH.values())
    assert (found["cfg.mixed_precision"], found["cfg.model.recompute_method"]) == ("bf16_mixed", "uniform")


@pytest.mark.parametrize(
    ("precision", "recipe"),
    [
        ("fp16", "fp16_mixed"),
        ("fp8", "bf16_with_fp8_current_scaling_mixed"),
        ("fp8-blockwise", "bf16_with_fp8_subchannel_scaling_mixed"),
        ("mxfp8", "bf16_with_mxfp8_mixed"),
        ("nvfp4", "bf16_with_nvfp4_mixed"),
    ],
)
def test_bridge_has_a_recipe_for_each_precision(precision: str, recipe: str) -> None:
    """One recipe is set, a remark says what it keeps in bf16, and fp32, which has none, is refused."""
    text = pipesched.hand_over(of_model(hardware="b200", precision=precision), "megatron-bridge")
    assert assigned(text)["cfg.mixed_precision"] == recipe
    assert text.count("cfg.mixed_precision = ") == 1
    assert any("the first and the last layer in bf16" in line for line in remarks(text)) == (precision == "fp8")
    with pytest.raises(Inexpressible, match=r"fp32 has none$"):
        pipesched.hand_over(of_model(precision="fp32"), "megatron-bridge")


@pytest.mark.parametrize(
    ("training", "own"),
    [
        ({}, {"grad_reduce_in_fp32": True}),
        ({"gradients": "bf16"}, {"grad_reduce_in_fp32": False}),
        ({"precision": "fp16"}, {"grad_reduce_in_fp32": True}),
        ({"precision": "fp8"}, {"grad_reduce_in_fp32": True, "fp8_param_gather": True}),
        ({"precision": "fp8", "gradients": "bf16", "distributed_optimizer": False},
         {"grad_reduce_in_fp32": False, "fp8_param_gather": False}),
        ({"precision": "nvfp4", "distributed_optimizer": False},
         {"grad_reduce_in_fp32": True, "fp4_param_gather": False}),
    ],
)  # fmt: skip
def test_what_a_recipe_overwrites_is_set_in_it(training: dict[str, Any], own: dict[str, bool]) -> None:
    """Gradients and gathers that a recipe of mixed precision has otherwise; nothing of it stands in `cfg.ddp`."""
    text = pipesched.hand_over(of_model(hardware="b200", **training), "megatron-bridge")
    found = assigned(text)
    assert {key: value for key, value in found.items() if key.startswith("cfg.mixed_precision.")} == {
        f"cfg.mixed_precision.{key}": value for key, value in own.items()
    }
    assert "cfg.ddp.grad_reduce_in_fp32" not in found
    assert text.count("import get_mixed_precision_config") == 1


def options(text: str) -> dict[str, str]:
    """The options of MaxText in a text."""
    return dict(word.split("=") for word in pasted(text).split())


def test_maxtext() -> None:
    """Its circular pipeline is looped-bfs, of as many layers a stage."""
    expected = {"ici_pipeline_parallelism": f"{P}", "num_pipeline_microbatches": f"{M}", "num_pipeline_repeats": "2"}
    assert options(pipesched.hand_over(made("looped-bfs", chunks=2), "maxtext")) == expected
    with_layers = pipesched.hand_over(made("looped-bfs", chunks=2), "maxtext", layers=[3] * 8)
    assert options(with_layers) == {**expected, "num_layers_per_pipeline_stage": "3"}
    assert any("num_layers_per_pipeline_stage is 1" in line for line in remarks(pipesched.hand_over(
        made("naive", lifo=True), "maxtext"
    )))  # fmt: skip


@pytest.mark.parametrize(("gather", "once"), [("ahead", "true"), ("each", "false")])
def test_maxtext_of_a_model(gather: str, once: str) -> None:
    """Batches by device, what ranks divide, and whether weights are gathered once."""
    sections = {
        "model": "llama-3-8b", "hardware": "h100-sxm", "parallel": {"gpus": 64, "pipeline": P, "chunks": 2},
        "batch": {"sequence": 8192, "global": 128}, "training": {"shard": "weights", "layout": "equal"},
    }  # fmt: skip
    problem = pipesched.load(None, **sections, shard={"gather": gather})
    found = options(pipesched.hand_over(pipesched.run(problem, "looped-bfs"), "maxtext"))
    assert (found["per_device_batch_size"], found["max_target_length"]) == ("2", "8192")
    assert (found["ici_fsdp_parallelism"], found["pipeline_fsdp_ag_once"]) == ("16", once)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_maxtext_in_few_bits(precision: str) -> None:
    """FP8 is a remark: MaxText has quantizations of its own to choose from."""
    outcome = of_model("looped-bfs", precision=precision, parallel={"chunks": 2}, layout="equal")
    found = [line for line in remarks(pipesched.hand_over(outcome, "maxtext")) if "quantization" in line]
    assert [line.partition(":")[0] for line in found] == ["precision fp8"] * (precision == "fp8")


@pytest.mark.parametrize(
    ("outcome", "layers", "why"),
    [
        (made("1f1b"), None, "1f1b takes code; the nearest that it has is looped-bfs"),
        (made("looped-bfs", chunks=2, microbatches=6), None, "in multiples of P, 4; this has 6, the nearest is 4"),
        (made("looped-bfs", chunks=2), [3] * 7 + [2], "gives each stage as many layers"),
        (made("looped-bfs", chunks=2), "Et|(t|)*6tLL", "pipelines decoder layers alone"),
    ],
)
def test_what_maxtext_cannot(outcome: Any, layers: Any, why: str) -> None:
    """The reason, and the nearest that it has."""
    with pytest.raises(Inexpressible, match=why):
        pipesched.hand_over(outcome, "maxtext", layers=layers)
