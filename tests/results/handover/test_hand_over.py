"""What is handed over to each framework is in the grammar of that framework, with the numbers of the schedule."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

import pipesched
from pipesched.errors import ConfigError, Inexpressible
from pipesched.pipeline.layout_text import read_megatron_text
from pipesched.results.outcome import Outcome
from tests.torch_ranks import needs_torch

P, M = 4, 8


def made(algorithm: str, devices: int = P, chunks: int = 1, microbatches: int = M, **options: Any) -> Outcome:
    """The schedule of a family."""
    problem = pipesched.make_problem(
        devices=devices,
        chunks=chunks,
        microbatches=microbatches,
        forward=5,
        backward_input=5,
        backward_weight=5,
        offload=1,
    )
    return pipesched.run(problem, algorithm, **options)


PATTERN = "MEMEM*EMEMEM*E|MEMEM*EMEMEM*E|MEMEM*EMEMEMEM|*EMEMEMEME"
MODEL = Path(pipesched.__file__).parent.parent / "docs" / "tutorial" / "hybrid"
HYBRID: dict[str, Any] = {"model": str(MODEL), "parallel": {"expert": 4}, "layout": PATTERN}


def pasted(text: str) -> str:
    """The text without its remarks."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("# "))


def of_model(
    algorithm: str = "1f1b", *, model: str = "llama-3-8b", hardware: str = "h100-sxm", parallel: Any = None,
    micro: int = 1, **training: Any,
) -> Outcome:  # fmt: skip
    """The schedule of a model on 64 GPUs, 4 of them in a pipeline, in steps of 128 sequences of 8192 tokens."""
    sections = {
        "model": model,
        "hardware": hardware,
        "parallel": {"gpus": 64, "pipeline": P, **(parallel or {})},
        "batch": {"sequence": 8192, "micro": micro, "global": 128},
        "training": {"flash_attention": False, "layout": [8] * P, **training},
    }
    return pipesched.run(pipesched.load(json.dumps(sections)), algorithm)


def remarks(text: str) -> list[str]:
    """The remarks of a text."""
    return [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]


def parser(*, fork: bool = False) -> argparse.ArgumentParser:
    """The flags of Megatron-LM that are about what a config says, and those of Zero Bubble's fork."""
    made_parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    add = made_parser.add_argument
    add("--pipeline-model-parallel-size", type=int, default=1)
    stages = made_parser.add_mutually_exclusive_group()
    stages.add_argument("--num-virtual-stages-per-pipeline-rank", type=int)
    stages.add_argument("--num-layers-per-virtual-pipeline-stage", type=int)
    stages.add_argument("--pipeline-model-parallel-layout", type=str)
    add("--microbatch-group-size-per-virtual-pipeline-stage", type=int)
    for way in ("tensor-model", "context", "expert-model"):
        add(f"--{way}-parallel-size", type=int, default=1)
    for count in ("--micro-batch-size", "--global-batch-size", "--seq-length", "--recompute-num-layers"):
        add(count, type=int)
    for flag in ("--sequence-parallel", "--recompute-activations", "--bf16", "--fp16", "--use-distributed-optimizer"):
        add(flag, action="store_true")
    add("--recompute-granularity", choices=("full", "selective"))
    add("--recompute-method", choices=("uniform", "block"))
    for count in ("--num-experts", "--moe-router-topk", "--moe-ffn-hidden-size"):
        add(count, type=int)
    add("--moe-token-dispatcher-type", choices=("allgather", "alltoall", "flex"))
    if not fork:
        add("--moe-flex-dispatcher-backend", choices=("deepep", "hybridep", "ncclep"))
        add("--overlap-moe-expert-parallel-comm", action="store_true")
        add("--expert-tensor-parallel-size", type=int)
        add("--cp-comm-type", type=str)
        add("--grad-reduce-in-bf16", action="store_true")
    if fork:
        add("--enable-zb-runtime", action="store_true")
        add("--interleave-group-size", type=int, default=0)
        add("--enable-zero-bubble", action="store_true")
        add("--zero-bubble-max-pending-backward", type=str)
        add("--zero-bubble-v-schedule", action="store_true")
        add("--zero-bubble-v-schedule-mem-setup", choices=("zb", "half", "min"), default="zb")
        add("--enable-1f1b-v", action="store_true")
        add("--num-seq-splits", type=int, default=1)
    return made_parser


def flags(text: str, *, fork: bool = False) -> dict[str, Any]:
    """The values that a text gives, without those that keep their default."""
    known = parser(fork=fork)
    read = vars(known.parse_args(shlex.split(pasted(text))))
    return {key: value for key, value in read.items() if value != known.get_default(key)}


SIZE = {"pipeline_model_parallel_size": P}
VIRTUAL = {**SIZE, "num_virtual_stages_per_pipeline_rank": 2}
MEGATRON = [
    (made("1f1b"), SIZE),
    (made("interleaved", chunks=2), VIRTUAL),
    (
        made("interleaved", chunks=2, microbatches=16, group_size=8),
        {**VIRTUAL, "microbatch_group_size_per_virtual_pipeline_stage": 8},
    ),
]


@pytest.mark.parametrize(("outcome", "expected"), MEGATRON)
def test_megatron(outcome: Outcome, expected: dict[str, Any]) -> None:
    """1F1B needs the number of ranks, the interleaved schedule its chunks too, and its groups where they are not P."""
    assert flags(pipesched.hand_over(outcome, "megatron")) == expected


FORK = [
    (made("1f1b"), {**SIZE, "enable_zb_runtime": True}),
    (made("interleaved", chunks=2), {**VIRTUAL, "interleave_group_size": P}),
    (made("zb-h1"), {**SIZE, "enable_zero_bubble": True, "zero_bubble_max_pending_backward": f"{P}"}),
    (made("zb-h2"), {**SIZE, "enable_zero_bubble": True, "zero_bubble_max_pending_backward": f"{2 * P}"}),
    (made("zb-auto"), {**SIZE, "enable_zero_bubble": True, "zero_bubble_max_pending_backward": "auto"}),
    (made("zb-v", chunks=2), {**SIZE, "zero_bubble_v_schedule": True}),
    (made("v-half", chunks=2), {**SIZE, "zero_bubble_v_schedule": True, "zero_bubble_v_schedule_mem_setup": "half"}),
    (made("v-min", chunks=2), {**SIZE, "zero_bubble_v_schedule": True, "zero_bubble_v_schedule_mem_setup": "min"}),
    (made("1f1b-v", chunks=2), {**SIZE, "enable_1f1b_v": True}),
]


@pytest.mark.parametrize(("outcome", "expected"), FORK)
def test_zero_bubble(outcome: Outcome, expected: dict[str, Any]) -> None:
    """Each schedule of the fork by its own flags."""
    assert flags(pipesched.hand_over(outcome, "zero-bubble"), fork=True) == expected


BATCH = {"global_batch_size": 128, "seq_length": 8192}
DEEPEP = {"moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "deepep"}
OF_EXPERTS = {"num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 14336, **DEEPEP}
UNIFORM = {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
BLOCK = {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": 3}
DENSE = of_model(parallel={"tensor": 2, "sequence": True}, recompute="selective")
LONG = of_model(parallel={"tensor": 2, "context": 2, "sequence": False}, micro=2, recompute="full")
GATHERED = of_model(parallel={"context": 4}, context="gather")
PLAIN = of_model(precision="fp16", gradients="bf16", distributed_optimizer=False, recompute={"full": 3})
EXPERTS = of_model(
    model="mixtral-8x7b", parallel={"tensor": 2, "expert": 8, "expert_tensor": 1, "sequence": True}, gradients="bf16"
)
TOGETHER = of_model(model="mixtral-8x7b", parallel={"tensor": 2, "expert": 2, "expert_tensor": 2, "sequence": True})
MODELS: dict[str, tuple[Outcome, dict[str, Any]]] = {  # -> what Megatron-LM's own parser reads, but for the layout
    "dense": (
        DENSE,
        {
            "tensor_model_parallel_size": 2,
            "micro_batch_size": 1,
            "sequence_parallel": True,
            "recompute_activations": True,
            "bf16": True,
            "use_distributed_optimizer": True,
        },
    ),
    "long": (
        LONG,
        {
            "tensor_model_parallel_size": 2,
            "context_parallel_size": 2,
            "micro_batch_size": 2,
            **UNIFORM,
            "bf16": True,
            "use_distributed_optimizer": True,
        },
    ),
    "gathered": (
        GATHERED,
        {
            "context_parallel_size": 4,
            "cp_comm_type": "all_gather",
            "micro_batch_size": 1,
            "bf16": True,
            "use_distributed_optimizer": True,
        },
    ),
    "plain": (PLAIN, {"micro_batch_size": 1, **BLOCK, "fp16": True, "grad_reduce_in_bf16": True}),
    "experts": (
        EXPERTS,
        {
            "tensor_model_parallel_size": 2,
            "expert_model_parallel_size": 8,
            "expert_tensor_parallel_size": 1,
            **OF_EXPERTS,
            "micro_batch_size": 1,
            "sequence_parallel": True,
            "bf16": True,
            "use_distributed_optimizer": True,
            "grad_reduce_in_bf16": True,
        },
    ),
    "together": (
        TOGETHER,
        {
            "tensor_model_parallel_size": 2,
            "expert_model_parallel_size": 2,
            **OF_EXPERTS,
            "micro_batch_size": 1,
            "sequence_parallel": True,
            "bf16": True,
            "use_distributed_optimizer": True,
        },
    ),
}
each_model = pytest.mark.parametrize("name", MODELS)


def from_the_gpus(outcome: Outcome, data: int) -> str:
    """The remark on what follows from the GPUs."""
    count = outcome.problem.microbatches
    return f"{count} microbatches a step; the data-parallel size, {data}, follows from the 64 GPUs"


@each_model
def test_megatron_of_a_model(name: str) -> None:
    """All that the config knows, in flags of Megatron-LM, without degrees of 1; the ranks of data follow."""
    outcome, expected = MODELS[name]
    text = pipesched.hand_over(outcome, "megatron")
    found = flags(text)
    assert read_megatron_text(found.pop("pipeline_model_parallel_layout"), stages=P)
    assert found == {**SIZE, **BATCH, **expected}
    each = found["micro_batch_size"] * outcome.problem.microbatches
    follows, own = remarks(text)
    assert follows == from_the_gpus(outcome, found["global_batch_size"] // each)
    model = outcome.problem.cutter.setup.model  # type: ignore[union-attr]
    sizes = (model.layers, model.hidden, model.ffn, model.heads, model.kv_heads)
    names = ("num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-query-groups")
    told = " ".join(f"--{name} {size}" for name, size in zip(names, sizes, strict=True))
    assert own == f"the model's own options are yours to give: {told} .."


@each_model
def test_primus_of_a_model(name: str) -> None:
    """The same in YAML; its own flags that are on by default are said to be off."""
    outcome, expected = MODELS[name]
    content = yaml.safe_load(pipesched.hand_over(outcome, "primus"))
    assert content.pop("pipeline_model_parallel_layout").startswith("E")
    on = {"sequence_parallel": False, "bf16": False}
    assert content == {"pp_algorithm": "1f1b", **SIZE, **BATCH, **on, **expected}


@pytest.mark.parametrize(
    ("precision", "keys"),
    [
        ("fp8", {"fp8": "hybrid", "fp8_recipe": "tensorwise", "fp8_param_gather": True}),
        ("fp8-blockwise", {"fp8": "e4m3", "fp8_recipe": "blockwise"}),
        ("mxfp8", {"fp8": "e4m3", "fp8_recipe": "mxfp8", "fp8_param_gather": True}),
        ("nvfp4", {"fp4": "e2m1", "fp4_recipe": "nvfp4", "fp4_param": True}),
    ],
)
def test_primus_in_few_bits(precision: str, keys: dict[str, Any]) -> None:
    """The keys are those of its trainer_base.yaml, which are not the names of all flags."""
    content = yaml.safe_load(pipesched.hand_over(of_model(hardware="b200", precision=precision), "primus"))
    found = {key: value for key, value in content.items() if key.startswith(("fp8", "fp4"))}
    assert (found, content["bf16"]) == (keys, True)


@pytest.mark.parametrize(
    ("hardware", "backend"), [("h100-sxm", "deepep"), ("b200", "deepep"), ("gb200", "hybridep"), ("gb300", "hybridep")]
)
def test_the_backend_of_flexible_dispatchers(hardware: str, backend: str) -> None:
    """Where NVLink joins the nodes of a rack trainers refuse deepep, and the text has hybridep."""
    outcome = of_model(model="mixtral-8x7b", hardware=hardware, parallel={"expert": 8})
    assert flags(pipesched.hand_over(outcome, "megatron"))["moe_flex_dispatcher_backend"] == backend
    assert f"moe_flex_dispatcher_backend = '{backend}'" in pipesched.hand_over(outcome, "megatron-bridge")
    assert f"moe_flex_dispatcher_backend: {backend}" in pipesched.hand_over(outcome, "primus")
    assert f"has no --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend {backend}" in pipesched.hand_over(
        outcome, "zero-bubble"
    )


@pytest.mark.parametrize("split", [1, 2])
def test_torchtitan_splits_no_experts(split: int) -> None:
    """Experts divided among tensor ranks are a remark; whole ones, which torchtitan has, are none."""
    parallel = {"pipeline": 2, "tensor": 4, "expert": 4, "expert_tensor": split, "sequence": True}
    outcome = of_model(model="mixtral-8x7b", parallel=parallel, layout="equal")
    found = [line for line in remarks(pipesched.hand_over(outcome, "torchtitan")) if "expert tensor" in line]
    assert found == [f"torchtitan has no option for expert tensor parallelism of {split}"] * (split > 1)


def test_the_fork_of_a_model() -> None:
    """The flags that Zero Bubble's fork has too, and remarks on those that it lacks."""
    text = pipesched.hand_over(EXPERTS, "zero-bubble")
    lacks = {"expert_tensor_parallel_size", "grad_reduce_in_bf16", *DEEPEP}
    shared = {key: value for key, value in MODELS["experts"][1].items() if key not in lacks}
    assert flags(text, fork=True) == {**SIZE, **BATCH, **shared, "enable_zb_runtime": True}
    deepep = "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep"
    lacking = ["--expert-tensor-parallel-size 1", "--grad-reduce-in-bf16", deepep]
    assert remarks(text)[1:] == [f"Zero Bubble's fork of Megatron-LM has no {flag}" for flag in lacking]


@pytest.mark.parametrize(
    ("optimizer", "megatron", "remark"),
    [
        ("adam", "", False),
        ("sgd", "--optimizer sgd", True),
        ("adam-bf16", "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", True),
        ("muon", "", True),
        (4, "", False),
    ],
)
def test_the_optimizer_of_a_model(optimizer: str | int, megatron: str, remark: bool) -> None:
    """Megatron-LM has flags, or two by version; others are told to choose it, and the fork what it lacks."""
    sections: dict[str, Any] = {"parallel": {"gpus": 4, "pipeline": 4}, "batch": {"sequence": 4096, "global": 8}}
    training = {"optimizer": optimizer, "layout": "equal"}
    found = pipesched.estimate(None, "1f1b", model="llama-3-8b", hardware="h100-sxm", training=training, **sections)
    texts = {name: pipesched.hand_over(found.outcome, name) for name in ("megatron", "torchtitan", "zero-bubble")}
    assert megatron in pasted(texts["megatron"])
    assert any("--optimizer muon" in line for line in remarks(texts["megatron"])) == (optimizer == "muon")
    assert any(str(optimizer) in line for line in remarks(texts["torchtitan"]) if "optimizer is" in line) == remark
    assert any("exp-avg" in line for line in remarks(texts["zero-bubble"])) == (optimizer == "adam-bf16")
    assert "exp-avg" not in pasted(texts["zero-bubble"])


TORCHTITAN = [
    (made("1f1b"), "1F1B", False),
    (made("1f1b", microbatches=3), "1F1B", True),
    (made("interleaved", chunks=2), "Interleaved1F1B", False),
    (made("interleaved", chunks=2, group_size=8), "Interleaved1F1B", True),
    (made("interleaved", chunks=2, microbatches=9), "Interleaved1F1B", True),
    (made("zb-h1"), "1F1B", True),
    (made("zb-h2"), "1F1B", True),
    (made("zb-auto"), "1F1B", True),
    (made("zb-v", chunks=2), "ZBVZeroBubble", False),
    (made("v-half", chunks=2), "ZBVZeroBubble", True),
    (made("v-min", chunks=2), "ZBVZeroBubble", True),
    (made("1f1b-v", chunks=2), "ZBVZeroBubble", True),
    (made("naive"), "GPipe", False),
    (made("looped-bfs", chunks=2), "LoopedBFS", False),
    (made("interleaved-zb", chunks=2), "InterleavedZeroBubble", False),
    (made("dualpipe-v", chunks=2), "DualPipeV", False),
    (made("eager-1f1b"), "1F1B", True),
    (made("gis-h", chunks=2), "Interleaved1F1B", True),
]


TITANS = {  # options of torchtitan, by their sections; of those that are on or off only what turns them off
    "parallelism": (
        "pipeline_parallel_degree pipeline_parallel_microbatch_size pipeline_parallel_schedule"
        " pipeline_parallel_schedule_csv fsdp_reshard_after_forward"
        " module_fqns_per_model_part tensor_parallel_degree context_parallel_degree expert_parallel_degree"
        " data_parallel_replicate_degree data_parallel_shard_degree no-enable-sequence-parallel"
    ),
    "training": "local_batch_size global_batch_size seq_len",
}


def options(text: str) -> dict[str, str]:
    """The options of torchtitan in a text."""
    found = {}
    for word in shlex.split(pasted(text)):
        match = re.fullmatch(r"--(\w+)\.([\w-]+?)(?:=(.*))?", word, re.DOTALL)
        assert match, word
        assert match[2] in TITANS[match[1]].split()
        assert (match[3] is None) == match[2].startswith("no-")
        found[match[2]] = match[3] or ""
    return found


@pytest.mark.parametrize(("outcome", "name", "csv"), TORCHTITAN)
def test_torchtitan(outcome: Outcome, name: str, csv: bool) -> None:
    """A class by its name, or a CSV beside the class of its stage map, with a remark that says how to write it."""
    text = pipesched.hand_over(outcome, "torchtitan")
    expected = {
        "pipeline_parallel_degree": f"{P}",
        "pipeline_parallel_microbatch_size": "1",
        "local_batch_size": f"{outcome.problem.microbatches}",
        "pipeline_parallel_schedule": name,
        **({"pipeline_parallel_schedule_csv": "schedule.csv"} if csv else {}),
    }
    assert options(text) == expected
    assert ("--to pytorch-csv -o schedule.csv" in text) == csv
    assert f"{IN_MAIN}--parallelism.num_pp_microbatches={outcome.problem.microbatches}" in remarks(text)


IN_MAIN = "torchtitan 0.3.0; main from 2026-08-20 on has other options in place of those of batches: "
STEP = {"data_parallel_shard_degree": "1", "global_batch_size": "128", "seq_len": "8192"}
TITAN_MODELS: dict[str, tuple[dict[str, str], list[str]]] = {  # -> options of torchtitan, and what has none
    "dense": (
        {"tensor_parallel_degree": "2", "data_parallel_replicate_degree": "8"},
        ["activation checkpointing: selective", "precision: bf16"],
    ),
    "long": (
        {
            "tensor_parallel_degree": "2",
            "context_parallel_degree": "2",
            "data_parallel_replicate_degree": "4",
            "no-enable-sequence-parallel": "",
            "pipeline_parallel_microbatch_size": "2",
        },
        ["activation checkpointing: full", "precision: bf16"],
    ),
    "gathered": ({"context_parallel_degree": "4", "data_parallel_replicate_degree": "4"}, ["precision: bf16"]),
    "plain": (
        {"data_parallel_replicate_degree": "16"},
        ["activation checkpointing: full of 3 layers a stage", "precision: fp16"],
    ),
    "together": (
        {"tensor_parallel_degree": "2", "expert_parallel_degree": "2", "data_parallel_replicate_degree": "8"},
        ["precision: bf16"],
    ),
}


@pytest.mark.parametrize("name", TITAN_MODELS)
def test_torchtitan_of_a_model(name: str) -> None:
    """Degrees, batches and copies in torchtitan's options; remarks on what it has no option for."""
    outcome, (expected, told) = MODELS[name][0], TITAN_MODELS[name]
    text = pipesched.hand_over(outcome, "torchtitan")
    found = options(text)
    assert json.loads(found.pop("module_fqns_per_model_part"))[0][0] == "tok_embeddings"
    assert found == {
        "pipeline_parallel_degree": f"{P}",
        "pipeline_parallel_microbatch_size": "1",
        "local_batch_size": f"{outcome.problem.microbatches * (2 if name == 'long' else 1)}",
        "pipeline_parallel_schedule": "1F1B",
        **STEP,
        **expected,
    }
    shards = [] if name == "plain" else ["torchtitan shards optimizer states only together with weights (FSDP)"]
    main, *others = remarks(text)
    assert others == [*told, *shards]
    assert main.startswith(f"{IN_MAIN}--parallelism.num_pp_microbatches={outcome.problem.microbatches} ")
    assert main.endswith(f" --training.num_tokens_per_train_step={128 * 8192} --training.max_context_length=8192")


def test_torchtitan_spreads_experts_over_ranks_that_share_weights() -> None:
    """Their degree divides dp_shard x context x tensor: else a refusal, which says what makes these more."""
    with pytest.raises(Inexpressible, match="tensor ranks, 2 here, and the 8 of `parallel") as told:
        pipesched.hand_over(EXPERTS, "torchtitan")
    assert "`training.shard` gradients or weights makes these more" in str(told.value)
    experts: dict[str, Any] = {"model": "mixtral-8x7b", "shard": "weights"}
    sharded = of_model(parallel={"tensor": 2, "expert": 8, "sequence": True}, **experts)
    found = options(pipesched.hand_over(sharded, "torchtitan"))
    assert (found["data_parallel_shard_degree"], found["expert_parallel_degree"]) == ("8", "8")
    groups = of_model(parallel={"tensor": 2, "expert": 4, "shard_ranks": 4, "sequence": True}, **experts)
    with pytest.raises(Inexpressible, match="divides experts among 2 ranks, and here 4 do"):
        pipesched.hand_over(groups, "torchtitan")


@needs_torch
@pytest.mark.parametrize("name", sorted({name for _, name, _ in TORCHTITAN}))
def test_torchtitan_names_are_pytorchs(name: str) -> None:
    """PyTorch's own loader knows each name."""
    from torch.distributed.pipelining.schedules import get_schedule_class

    assert get_schedule_class(name).__name__ == f"Schedule{name}"


PRIMUS = [
    ("1f1b", 1, "1f1b"),
    ("interleaved", 2, "1f1b-interleaved"),
    ("zb-h1", 1, "zero-bubble"),
    ("zb-auto", 1, "zero-bubble-heuristic"),
    ("zb-v", 2, "zbv-formatted"),
    ("v-half", 2, "v-half"),
    ("v-min", 2, "v-min"),
]


@pytest.mark.parametrize(("algorithm", "chunks", "name"), PRIMUS)
def test_primus(algorithm: str, chunks: int, name: str) -> None:
    """YAML with the name of the algorithm and the sizes."""
    content = yaml.safe_load(pipesched.hand_over(made(algorithm, chunks=chunks), "primus"))
    assert content["pp_algorithm"] == name
    assert content["pipeline_model_parallel_size"] == P


BY_CLASS = (
    "YourDecoderLayer: the class of your decoder layer; 'uniform' would count the embedding and the head as layers too"
)


def test_microbatches_that_are_given_count() -> None:
    """A number of microbatches that replaces the one of the batch makes the batch that is handed over."""
    problem = pipesched.load(
        json.dumps(
            {
                "model": "llama-3-8b",
                "hardware": "h100-sxm",
                "parallel": {"gpus": 32, "pipeline": P},
                "batch": {"sequence": 4096, "micro": 2, "global": 64},
                "microbatches": 6,
            }
        )
    )
    found = flags(pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron"))
    assert found["global_batch_size"] == 2 * 8 * 6


DIFFERENT = [
    ({"forward": [11.2, 18.4, 12, 12], "backward": [22, 40, 24, 24]}, "forward 11.2 to 18.4"),
    ({"forward": 5, "backward": [10, 12, 10, 10]}, "backward 10 to 12"),
]


@pytest.mark.parametrize(("costs", "difference"), DIFFERENT)
def test_stages_that_differ(costs: Any, difference: str) -> None:
    """Stages given one by one that differ: Megatron cuts evenly unless it is told their layers."""
    outcome = pipesched.run(pipesched.make_problem(devices=P, microbatches=M, **costs), "1f1b")
    told = f"the stages differ ({difference}): give --layers, else Megatron cuts evenly"
    assert remarks(pipesched.hand_over(outcome, "megatron"))[1:] == [told]
    assert len(remarks(pipesched.hand_over(outcome, "megatron", layers=[5, 6, 6, 3]))) == 1


WITHOUT = {  # a model: the text as it is
    "megatron": "--pipeline-model-parallel-size 4\n"
    "# 8 microbatches a step: --global-batch-size is 8 x --micro-batch-size x data-parallel size\n",
    "torchtitan": "--parallelism.pipeline_parallel_degree=4 --parallelism.pipeline_parallel_microbatch_size=1"
    f" --parallelism.pipeline_parallel_schedule=1F1B --training.local_batch_size=8\n# {IN_MAIN}"
    "--parallelism.num_pp_microbatches=8\n",
    "deepspeed": f"PipelineModule(layers, num_stages=4, partition_method='type:YourDecoderLayer')\n# {BY_CLASS}\n"
    '# 8 microbatches a step: "gradient_accumulation_steps": 8\n',
    "primus": "pp_algorithm: 1f1b\npipeline_model_parallel_size: 4\n# 8 microbatches a step\n",
    "zero-bubble": "--pipeline-model-parallel-size 4 --enable-zb-runtime\n"
    "# 8 microbatches a step: --global-batch-size is 8 x --micro-batch-size x data-parallel size\n",
}


@pytest.mark.parametrize("framework", WITHOUT)
def test_without_a_model(framework: str) -> None:
    """Nothing is said that a problem without a model does not know."""
    assert pipesched.hand_over(made("1f1b"), framework) == WITHOUT[framework]


REFUSED = [
    ("megatron", ["zb-h1", "zb-h2", "zb-auto", "naive", "eager-1f1b"], 1, "1f1b"),
    ("megatron", ["zb-v", "v-half", "1f1b-v", "looped-bfs", "interleaved-zb", "dualpipe-v", "gis-h"], 2, "interleaved"),
    ("deepspeed", ["naive", "zb-h1"], 1, "1f1b"),
    ("deepspeed", ["interleaved"], 2, "1f1b"),
    ("deepspeed", ["zb-v", "dualpipe-v"], 2, "dualpipe-v-whole"),
    ("primus", ["zb-h2", "naive"], 1, "1f1b"),
    ("primus", ["1f1b-v", "dualpipe-v"], 2, "zb-v"),
    ("primus", ["looped-bfs", "gis-h"], 2, "interleaved"),
    ("zero-bubble", ["naive", "eager-1f1b"], 1, "1f1b"),
    ("zero-bubble", ["dualpipe-v"], 2, "zb-v"),
    ("zero-bubble", ["looped-bfs", "interleaved-zb"], 2, "interleaved"),
    ("torchtitan", ["dualpipe", "chimera"], 1, "dualpipe-v"),
]


@pytest.mark.parametrize(("framework", "names", "chunks", "nearest"), REFUSED)
def test_what_cannot_be_expressed(framework: str, names: list[str], chunks: int, nearest: str) -> None:
    """Schedules that a framework lacks: why, and the nearest that it has."""
    for name in names:
        with pytest.raises(Inexpressible, match=f"the nearest that it has is {nearest}$") as caught:
            pipesched.hand_over(made(name, chunks=chunks), framework)
        assert caught.value.nearest == nearest


def test_what_was_asked_for_is_no_hint() -> None:
    """A refusal of numbers names no nearest schedule where that is the one asked for."""
    for outcome, framework in (
        (made("1f1b", recompute="full"), "torchtitan"),
        (made("interleaved", chunks=2, microbatches=9, group_size=4), "megatron"),
        (of_model(model="mixtral-8x7b", parallel={"expert": 8}), "torchtitan"),
    ):
        with pytest.raises(Inexpressible) as caught:
            pipesched.hand_over(outcome, framework)
        assert "nearest" not in str(caught.value)


def sliced(algorithm: str, slices: Any, **more: Any) -> Outcome:
    """The schedule of a family whose microbatches are cut."""
    problem = pipesched.make_problem(devices=P, microbatches=M, slices=slices, **more)
    return pipesched.run(problem, algorithm)


@pytest.mark.parametrize("more", [{}, {"sizes": {"work": [*range(1, M + 1)]}}])
def test_zero_bubble_cuts_sequences(more: dict[str, Any]) -> None:
    """The fork has Seq1F1B for slices of equal tokens, whatever their work is, under any name."""
    expected = {**SIZE, "enable_zb_runtime": True, "num_seq_splits": 4}
    for slices in (4, {"count": 4, "attention": 0.5}):
        made_by_us = sliced("seq-1f1b", slices, **more)
        for outcome in (made_by_us, Outcome("mine", made_by_us.schedule)):
            assert flags(pipesched.hand_over(outcome, "zero-bubble"), fork=True) == expected


@pytest.mark.parametrize(
    ("outcome", "framework", "said"),
    [
        (sliced("naive", 4), "zero-bubble", "naive.* takes code; the nearest that it has is seq-1f1b"),
        (sliced("seq-1f1b", {"count": 2, "tokens": [0.25, 0.75]}), "zero-bubble", "cuts sequences evenly"),
        (sliced("seq-1f1b", 4), "megatron", "cuts each into 4 slices; the nearest that it has is 1f1b"),
        (sliced("seq-1f1b", 4), "torchtitan", "runs whole microbatches"),
        (sliced("naive", 1, mode="forward"), "zero-bubble", "has forward passes alone"),
        (sliced("naive", 1, mode="forward"), "torchtitan", "has forward passes alone"),
    ],
)
def test_slices_that_cannot_be_expressed(outcome: Outcome, framework: str, said: str) -> None:
    """Other orders of slices, unequal ones, and forward passes alone: why, and what is nearest."""
    with pytest.raises(Inexpressible, match=said):
        pipesched.hand_over(outcome, framework)


@pytest.mark.parametrize("name", ["1f1b", "naive", "zb-h1", "interleaved"])
def test_microbatches_that_differ(name: str) -> None:
    """The text is that of alike microbatches, numbered as they are fed; a remark says in which order that is, and of a
    CSV beside it too."""
    given: dict[str, Any] = {"devices": 4, "chunks": 2 if name == "interleaved" else 1, "backward_input": 2}
    given |= {"backward_weight": 2, "forward": [[1, 2, 3, 4], *[1] * (7 if name == "interleaved" else 3)]}
    problem = pipesched.make_problem(**given, sizes={"work": [1, 2, 3, 4]}, kv=0.5)
    count = "the text and schedule.csv count" if name == "zb-h1" else "the text counts"
    said = f"feed the microbatches in this order: 3, 1, 2, 0; {count} them as they are fed"
    for options, fed in (({}, []), ({"order": [3, 1, 2, 0]}, [said])):
        outcome = pipesched.run(problem, name, **options)
        text = pipesched.hand_over(Outcome("mine", outcome.schedule), "torchtitan")
        assert "pipeline_parallel_schedule_csv" not in text or name == "zb-h1"
        assert [remark for remark in remarks(text) if remark.startswith("feed")] == fed


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed", "primus", "zero-bubble"])
@pytest.mark.parametrize("saving", ["recompute", "offload"])
def test_recompute_and_offload(framework: str, saving: str) -> None:
    """No framework has them as operations of a schedule; the refusal names them in words and says how it has them."""
    words = {"recompute": r"recompute \(R\)", "offload": r"offload \(O\) and load \(L\)"}[saving]
    with pytest.raises(Inexpressible, match=rf"has no operations for {words} in its schedules; it has \w"):
        pipesched.hand_over(made("1f1b", **{saving: "full"}), framework)  # type: ignore[arg-type]


def test_megatron_overlaps_messages_of_experts_by_a_flag() -> None:
    """The order of interleaved-overlap is that of a flag; its conditions are a remark, or checked of a model."""
    text = pipesched.hand_over(made("interleaved-overlap", chunks=2), "megatron")
    assert flags(text) == {**VIRTUAL, "overlap_moe_expert_parallel_comm": True}
    assert any(line.startswith("--overlap-moe-expert-parallel-comm asks for") for line in remarks(text))
    experts: dict[str, Any] = {"gpus": 64, "pipeline": P, "chunks": 2, "expert": 4}
    free: dict[str, Any] = {"layout": "equal", "flash_attention": True}

    def handed(parallel: dict[str, Any], **training: Any) -> str:
        given = of_model("interleaved-overlap", model="mixtral-8x7b", parallel=parallel, **{**free, **training})
        return pipesched.hand_over(given, "megatron")

    found = flags(handed(experts, dispatcher="alltoall"))
    assert found["moe_token_dispatcher_type"] == "alltoall"
    assert found["overlap_moe_expert_parallel_comm"]
    assert not any("asks for" in line for line in remarks(handed(experts)))
    refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({**experts, "expert": 1}, {}, "needs experts on several ranks"),
        (experts, {"dispatcher": "allgather"}, "refuses the dispatcher allgather"),
        (experts, {"recompute": "full"}, "refuses full recompute"),
        (experts, {"precision": "fp32"}, "needs bf16 or fp16"),
    ]
    for parallel, training, why in refused:
        with pytest.raises(Inexpressible, match=why):
            handed(parallel, **training)


def test_layouts_that_later_versions_take() -> None:
    """Several losses and MTP layers on several stages are written, with the version that does not take them."""
    layer: dict[str, Any] = {"layer": {"forward": 1}, "mtp": {"forward": 1}, "last": {"forward": 1}}
    problem = pipesched.make_problem(devices=4, layers=4, microbatches=8, layout="Et*4|m|m|LLL", **layer)
    text = pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron")
    assert flags(text)["pipeline_model_parallel_layout"] == "Et*4|m|m|L*3"
    later = "megatron-core 0.19.2 takes no 3 losses (L) and no MTP layers on 2 stages: a later one is needed"
    assert remarks(text)[1:] == [later]


def test_the_pattern_of_a_hybrid_model() -> None:
    """Megatron-LM and its Bridge take its letters with | between stages; who takes no such layers refuses it."""
    text = pipesched.hand_over(of_model(**HYBRID), "megatron")
    assert f"--hybrid-layer-pattern '{PATTERN}'" in text
    assert "--pipeline-model-parallel-layout" not in text
    assert "--moe-layer-freq" not in text
    assert f"cfg.model.hybrid_layer_pattern = '{PATTERN}'" in pipesched.hand_over(of_model(**HYBRID), "megatron-bridge")
    cut = pipesched.hand_over(of_model(**HYBRID), "megatron", layers=[13] * 4)
    assert "--hybrid-layer-pattern 'MEMEM*EMEMEM*|EMEMEM*EMEMEM|*EMEMEM*EMEME|MEM*EMEMEMEME'" in cut
    for framework in ("primus", "zero-bubble"):
        with pytest.raises(Inexpressible, match=r"layers .* alike, and those of this model are MEMEM"):
            pipesched.hand_over(of_model(**HYBRID), framework)


def test_layers_are_those_of_the_model() -> None:
    """A list or a text of more or fewer layers than the model has is refused, which Megatron-LM would do later."""
    for layers in ([5] * 4, "Et*5|t*5|t*5|t*5L"):
        with pytest.raises(ConfigError, match="has 20 layers; the model has 32") as caught:
            pipesched.hand_over(of_model(), "megatron", layers=layers)
        assert caught.value.key == "layers"


def test_the_order_counts() -> None:
    """A schedule of any name whose order is 1F1B's is 1F1B; one of that name with another order is not."""
    known = made("1f1b")
    assert pipesched.hand_over(Outcome("mine", known.schedule), "deepspeed").startswith("PipelineModule")
    with pytest.raises(Inexpressible, match="the order of '1f1b'"):
        pipesched.hand_over(Outcome("1f1b", made("eager-1f1b").schedule), "deepspeed")


def megatrons(text: str) -> list[str]:
    """A layout as Megatron-LM reads it: `(..)*n` and `x*n` written out, groups do not nest, `|` between stages."""
    flat = re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), text)
    assert not set(flat) & set("()")
    return re.sub(r"([a-zA-Z])\*(\d+)", lambda found: found[1] * int(found[2]), flat).split("|")


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8))
def test_layouts_round_trip(layers: list[int]) -> None:
    """The layout text has the layers that were given, the embedding first and the loss last, and no flag of chunks."""
    problem = pipesched.make_problem(devices=len(layers), microbatches=len(layers))
    text = pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron", layers=layers)
    layout = flags(text)["pipeline_model_parallel_layout"]
    stages = megatrons(layout)
    assert [stage.count("t") for stage in stages] == layers
    assert "".join(stages) == "E" + "t" * sum(layers) + "L"
    assert [stage.layers for stage in read_megatron_text(layout)] == layers


def test_layouts() -> None:
    """The layers of each stage in the words of each framework; a problem by layers knows them."""
    assert "'Et*5|t*6|t*6|t*3L'" in pipesched.hand_over(made("1f1b"), "megatron", layers=[5, 6, 6, 3])
    modules = json.loads(
        options(pipesched.hand_over(made("1f1b", devices=2), "torchtitan", layers=[1, 2]))["module_fqns_per_model_part"]
    )
    assert modules == [["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "norm", "lm_head"]]
    problem = pipesched.make_problem(devices=4, microbatches=8, layers=10, layer={"forward": 1}, last={"forward": 2})
    outcome = pipesched.run(problem, "1f1b")
    assert outcome.problem.layers is not None
    found = read_megatron_text(flags(pipesched.hand_over(outcome, "megatron"))["pipeline_model_parallel_layout"])
    assert tuple(stage.layers for stage in found) == outcome.problem.layers.layout
    assert yaml.safe_load(pipesched.hand_over(outcome, "primus"))["pipeline_model_parallel_layout"].startswith("Et")


@pytest.mark.parametrize("framework", ["deepspeed", "zero-bubble"])
def test_uneven_stages_that_cannot_be(framework: str) -> None:
    """Frameworks that cut evenly refuse other numbers."""
    with pytest.raises(Inexpressible, match="layers"):
        pipesched.hand_over(made("1f1b"), framework, layers=[5, 6, 6, 3])
    assert pipesched.hand_over(made("1f1b"), framework, layers=[5, 5, 5, 5])


def test_megatron_refuses_some_groups() -> None:
    """Groups of fewer than P microbatches, and a last one of fewer; and stages that interleave on one device."""
    with pytest.raises(Inexpressible, match="interleaves stages of two devices or more"):
        pipesched.hand_over(made("interleaved", devices=1, chunks=2), "megatron")
    with pytest.raises(Inexpressible, match="the last has 1, fewer than P; it takes `group_size` 5"):
        pipesched.hand_over(made("interleaved", chunks=2, microbatches=9, group_size=4), "megatron")


@pytest.mark.parametrize(
    ("framework", "microbatches", "backward", "line"),
    [
        ("megatron", 9, 2, "--microbatch-group-size-per-virtual-pipeline-stage 5"),
        ("megatron", 11, 8, "--microbatch-group-size-per-virtual-pipeline-stage"),
        ("primus", 9, 2, "# groups of 4: primus refuses those of 5"),
    ],
)
def test_a_group_size_that_was_found_is_found_again(
    framework: str, microbatches: int, backward: int, line: str
) -> None:
    """Where none was given, the hand-over takes the shortest group size that the framework runs, and says so."""
    problem = pipesched.make_problem(devices=4, stages=8, microbatches=microbatches, backward=backward)
    assert line in pipesched.hand_over(pipesched.run(problem, "interleaved"), framework)
    with pytest.raises(Inexpressible):
        pipesched.hand_over(pipesched.run(problem, "interleaved", group_size=microbatches - 1), framework)


def test_fewer_microbatches_than_ranks() -> None:
    """Nothing interleaves them there, so 1F1B is the nearest."""
    with pytest.raises(Inexpressible, match="at least P microbatches, 4; this has 2; the nearest that it has is 1f1b"):
        pipesched.hand_over(made("interleaved", chunks=2, microbatches=2), "megatron")


@pytest.mark.parametrize("layers", [[1, 2, 3], [1, 1, 1, -1], "1234", [1, 1, 1, 1.5], "Et|t|tL"])
def test_bad_layers(layers: Any) -> None:
    """One whole number a stage, or a text of as many stages."""
    with pytest.raises(ConfigError, match="layers"):
        pipesched.hand_over(made("1f1b"), "megatron", layers=layers)


def test_an_unknown_framework() -> None:
    """The nearest name is suggested."""
    with pytest.raises(ConfigError, match="megatron"):
        pipesched.hand_over(made("1f1b"), "megatorn")
