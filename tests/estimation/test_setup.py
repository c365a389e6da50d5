"""A setup: read, checked, and as arguments of Megatron."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipesched import ConfigError
from pipesched.checks import nearest_divisors, nearest_multiples
from pipesched.config.values import read_fields
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.memory import ItemMemory, embedding_memory, head_memory, layer_memory
from pipesched.estimation.model import Experts, Latent, ModelShape
from pipesched.estimation.model_reader import preset_model
from pipesched.estimation.parameters import parameters, training_flops
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.setup_reader import ReadSetup, read_setup
from pipesched.estimation.terms import total
from pipesched.text.yaml_reader import parse_yaml
from tests.estimation.setups import GPU

SETUP = Setup(
    preset_model("llama-3-8b"),
    preset_hardware("h100-sxm"),
    Parallel(64, 2, 4),
    TokenBatch(8192, 2, 256),
    TrainingSetup(),
)


def changed(model: str = "llama-3-8b", **sizes: Any) -> Setup:
    """The setup above with other sizes of the layout, and another model."""
    return replace(SETUP, model=preset_model(model), parallel=replace(SETUP.parallel, **sizes))


def test_sizes_that_follow() -> None:
    """Data-parallel ranks, microbatches and tokens of a step follow from the sizes that are given."""
    setup = replace(SETUP, parallel=Parallel(64, 2, 4, 2, 2, sequence=True))
    assert (setup.parallel.data, setup.parallel.stages, setup.parallel.spread) == (4, 8, 2)
    assert (setup.microbatches, setup.tokens, setup.tokens_of_step) == (32, 8192, 2 * 2**20)
    experts = changed("mixtral-8x7b", expert=8, expert_tensor=2).parallel
    assert experts.expert_data == 2 * 8 // 16


def test_nearest_numbers() -> None:
    """The nearest that divide, at once for large numbers too."""
    assert nearest_divisors(3, 64) == "2 or 4"
    assert nearest_divisors(100, 64) == "64"
    assert nearest_divisors(7, 10**14) == "5 or 8"
    assert (nearest_multiples(7, 4), nearest_multiples(3, 4)) == ("4 or 8", "4")


MODELS = Path(__file__).parents[1] / "data" / "models"
SMALL = "{num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, intermediate_size: 128, vocab_size: 256}"
FILE = """\
model: llama-3-8b
hardware: h100-sxm
parallel:
  gpus: 8
  pipeline: 4
batch:
  sequence: 4096
  global: 32
training:
  precision: bf16
"""
ALL = """\
model: mixtral-8x7b
hardware: {preset: h200, memory: 100GB, nic: 12.5, gpus_per_node: 4, gpus_per_nic: 2}
parallel:
  {gpus: 64, tensor: 2, pipeline: 4, chunks: 2, context: 2, expert: 4, expert_tensor: 2, sequence: false, data: 4}
batch: {sequence: 8192, micro: 2, global: 256}
training:
  precision: fp16
  gradients: fp32
  distributed_optimizer: false
  recompute: {full: 2}
  flash_attention: false
  tensor_overlap: true
  fused_loss: true
  context: gather
  layout: [5, 4, 4, 4, 4, 4, 4, 3]
  efficiency: {gemm: {backward_weight: 0.5}, core: 0.25, network: 0.5, kernel: 10}
"""


def read(text: str, name: str = "c.yaml") -> ReadSetup:
    """The training run of a config."""
    values = read_fields(parse_yaml(text, name), name)
    return read_setup({key: given.value for key, given in values.items()})


def test_defaults() -> None:
    """What is left out is one rank, one sequence a microbatch, and the usual way to train."""
    setup, notes = read(FILE)
    model, gpu = preset_model("llama-3-8b"), preset_hardware("h100-sxm")
    name = "llama-3-8b on 8 h100-sxm"
    assert setup == Setup(model, gpu, Parallel(gpus=8, pipeline=4), TokenBatch(4096, 1, 32), TrainingSetup(), name)
    assert notes == ()
    assert read(FILE.replace("pipeline: 4", "tensor: 4")).setup.parallel.sequence


def test_every_key() -> None:
    """Every key of every section is read."""
    setup = read(ALL).setup
    assert setup.parallel == Parallel(64, 2, 4, 2, 2, 4, 2, sequence=False)
    assert setup.batch == TokenBatch(sequence=8192, micro=2, size=256)
    layout = (5, 4, 4, 4, 4, 4, 4, 3)
    assert setup.training == TrainingSetup(
        precision="fp16", gradients="fp32", context="gather", recompute="full", full_layers=2,
        distributed_optimizer=False, flash_attention=False, tensor_overlap=True, fused_loss=True, layout=layout,
    )  # fmt: skip
    gpu, whole = setup.hardware, preset_hardware("h200")
    assert (gpu.memory, gpu.nic, gpu.gpus_per_node, gpu.gpus_per_nic) == (100, 12.5, 4, 2)
    assert gpu.bandwidth == whole.bandwidth
    shares = gpu.efficiency
    assert (shares.gemm_weight, shares.core, shares.network, shares.kernel) == (0.5, 0.25, 0.5, 10)
    assert (shares.gemm_forward, shares.memory) == (whole.efficiency.gemm_forward, whole.efficiency.memory)


def test_a_model_by_its_keys() -> None:
    """A mapping has Hugging Face's keys; those that say nothing of shapes do not matter."""
    text = FILE.replace("llama-3-8b", f"{SMALL[:-1]}, rope_theta: 5e5, mlp: plain}}").replace(
        "pipeline: 4", "pipeline: 2"
    )
    model = read(text).setup.model
    assert (model.layers, model.mlp, model.name) == (2, "plain", "llama")


def test_a_model_by_its_file(tmp_path: Path) -> None:
    """A path is relative to the config; a folder holds a config.json, and names the model."""
    folder = tmp_path / "checkpoints" / "Mine-1B"
    folder.mkdir(parents=True)
    shutil.copy(MODELS / "deepseek-v3.json", folder / "config.json")
    for path in ("checkpoints/Mine-1B", "checkpoints/Mine-1B/config.json", str(folder)):
        setup, notes = read(FILE.replace("llama-3-8b", path), str(tmp_path / "c.yaml"))
        assert (setup.model.name, setup.model.layers) == ("Mine-1B", 61)
        assert [note.split()[0] for note in notes] == ["quantization_config"]
    shutil.copy(MODELS / "llama-2-7b.json", tmp_path / "mine.json")
    assert read(FILE.replace("llama-3-8b", "mine.json"), str(tmp_path / "c.yaml")).setup.model.name == "mine"


def test_a_gpu_by_its_numbers() -> None:
    """Three numbers are needed; the links have usual values, and the shares are typical ones."""
    gpu = read(FILE.replace("h100-sxm", "{tflops: 100, memory: 24GiB, bandwidth: 1e3}")).setup.hardware
    assert (gpu.tflops, gpu.memory, gpu.bandwidth) == (100, 25.769803776, 1000)
    assert (gpu.nvlink, gpu.pcie, gpu.nic, gpu.gpus_per_node) == (None, 32, 25, 8)


def test_shares_of_a_file(tmp_path: Path) -> None:
    """A profile is a YAML file with the keys of `efficiency`, beside the config; its errors name its own lines."""
    (tmp_path / "profile.yaml").write_text("gemm: 0.5\nmemory: 0.8\n")
    text, name = FILE + "  efficiency: profile.yaml\n", str(tmp_path / "c.yaml")
    shares = read(text, name).setup.hardware.efficiency
    assert (shares.gemm_forward, shares.gemm_input, shares.gemm_weight, shares.memory) == (0.5, 0.5, 0.5, 0.8)
    (tmp_path / "profile.yaml").write_text("gemm: 0.5\nmemory: 8\n")
    with pytest.raises(ConfigError, match=r"profile\.yaml:2: efficiency\.memory: must be above 0 and at most 1, not 8"):
        read(text, name)
    (tmp_path / "profile.yaml").unlink()
    with pytest.raises(ConfigError, match=r"c\.yaml:11: training\.efficiency: cannot read .*profile\.yaml"):
        read(text, name)


def test_a_relative_is_told() -> None:
    """Where the shares of a GPU are those of another, a note says so."""
    gpu = preset_hardware("h200")
    notes = read(FILE.replace("h100-sxm", "h200")).notes
    expected = f"h200: shares of its numbers are those fitted on {gpu.fitted_on}"
    assert list(notes) == ([expected] if gpu.fitted_on not in ("", gpu.name) else [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "must be a mapping, as Hugging Face writes it, not [1]"),
        ('{"model_type":\n "llama",}', ":2: no JSON: "),
        ('{"model_type": "llama"}', "hidden_size: is missing"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "a number of thousands of digits"),
        ("\0", "is a binary file"),
        (" " * 2_000_000, "is larger than 1,000,000 bytes"),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, content: str, message: str) -> None:
    """What is wrong in a config.json names the file, at the line of the config that names it."""
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        read(FILE.replace("llama-3-8b", "m.json"), str(tmp_path / "c.yaml"))
    assert str(caught.value).startswith(f"{tmp_path / 'c.yaml'}:1: model: {tmp_path / 'm.json'}")
    assert message in str(caught.value)


DATA = Path(__file__).parent.parent / "data" / "megatron_memory.json"
RUNS = {run["id"]: run for run in json.loads(DATA.read_text(encoding="utf-8"))["records"]}
CONTEXT, LATENT = "mm30", "mm51"  # the run with context parallelism, and the one with latent attention


def model_of(given: dict[str, Any], name: str) -> ModelShape:
    """The model of a run."""
    heads, frequency = given["num_attention_heads"], given["moe_layer_freq"]
    experts = latent = None
    if given["num_experts"]:
        shared, dense = given["moe_shared_expert_intermediate_size"] or 0, 0
        if isinstance(frequency, list):
            dense = frequency.index(1)
        width, active = given["moe_ffn_hidden_size"], given["moe_router_topk"]
        experts = Experts(given["num_experts"], active, width, shared, dense)
    if given["multi_latent_attention"]:
        keys = ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
        latent = Latent(*(given[key] for key in keys))
    return ModelShape(
        name=name, layers=given["num_layers"], hidden=given["hidden_size"], heads=heads,
        kv_heads=given["num_query_groups"] if given["group_query_attention"] else heads, head=given["kv_channels"],
        ffn=given["ffn_hidden_size"], vocabulary=given["vocab_size"], mlp="gated" if given["swiglu"] else "plain",
        norm="rms" if given["normalization"] == "RMSNorm" else "layer",
        tied=not given["untie_embeddings_and_output_weights"], qk_norm=name.startswith("qwen3"), experts=experts,
        latent=latent,
    )  # fmt: skip


def megatron_setup(run: dict[str, Any]) -> Setup:
    """The setup of a run."""
    model, layout = model_of(run["model_args"], run["model"]), run["layout"]
    parallel = Parallel(
        layout["world_size"],
        tensor=layout["tensor_model_parallel_size"],
        pipeline=layout["pipeline_model_parallel_size"],
        context=layout["context_parallel_size"],
        expert=layout["expert_model_parallel_size"],
        expert_tensor=layout["expert_tensor_parallel_size"] if model.experts else 1,
        sequence=layout["sequence_parallel"],
    )
    batch = TokenBatch(layout["seq_length"], layout["micro_batch_size"], layout["global_batch_size"])
    return Setup(model, GPU, parallel, batch, TrainingSetup(distributed_optimizer=layout["use_distributed_optimizer"]))


def states(setup: Setup) -> Fraction:
    """Weights, gradients and optimizer of the first stage, with layers and the final norm averaged over stages."""
    model, stages = setup.model, setup.parallel.pipeline
    layers = [layer_memory(setup, experts=model.has_experts(layer)) for layer in range(model.layers)]
    head = head_memory(setup)
    norm = held(head._replace(**{key: getattr(head, key)[1:] for key in ("weights", "gradients", "optimizer")}))
    words = held(embedding_memory(setup)) + (held(head) - norm if stages == 1 else 0)
    return (sum(map(held, layers), norm)) / stages + words


def held(item: ItemMemory) -> Fraction:
    """The bytes of the states of an item."""
    return Fraction(total((*item.weights, *item.gradients, *item.optimizer)))


def bytes_each(setup: Setup) -> Fraction:
    """The bytes of a parameter's states as Megatron counts them."""
    return 6 + Fraction(12, setup.parallel.data) if setup.training.distributed_optimizer else Fraction(18)


@pytest.mark.parametrize("name", RUNS)
def test_parameters_and_operations(name: str) -> None:
    """All 30 runs; parameters as they print them, in billions with two digits."""
    setup, output = megatron_setup(RUNS[name]), RUNS[name]["output"]
    found = parameters(setup.model, setup.parallel.tensor)
    assert setup.padded_vocabulary == RUNS[name]["layout"]["padded_vocab_size"]
    assert found.total == pytest.approx(output["total_params_B"] * 1e9, rel=1e-3, abs=0.006e9)
    assert found.active == pytest.approx(output["active_params_B"] * 1e9, rel=1e-3, abs=0.006e9)
    operations = training_flops(setup.model, setup.batch.sequence, setup.tokens_of_step, setup.parallel.tensor)
    assert operations == pytest.approx(output["flops_per_iteration"], rel=1e-9)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in (CONTEXT, LATENT)])
def test_states(name: str) -> None:
    """Weights, gradients and optimizer, every byte: theirs and the norms of queries and keys."""
    setup = megatron_setup(RUNS[name])
    left_out = 2 * setup.model.head * setup.model.layers if setup.model.qk_norm else 0
    theirs = RUNS[name]["output"]["weight_and_optimizer_bytes"]
    assert round(states(setup) - bytes_each(setup) * left_out / setup.parallel.pipeline) == theirs


def test_context_parallel_ranks_share_the_optimizer() -> None:
    """12 bytes a parameter over data x context ranks; Megatron's formula divides by the data-parallel ranks alone."""
    setup, theirs = megatron_setup(RUNS[CONTEXT]), RUNS[CONTEXT]["output"]["weight_and_optimizer_bytes"]
    ours = 6 + Fraction(12, setup.parallel.data * setup.parallel.context)
    assert round(states(setup) / ours * bytes_each(setup)) == theirs


def test_latent_down_projections_are_whole() -> None:
    """And their norms; Megatron's formula divides both by the tensor ranks."""
    setup, theirs = megatron_setup(RUNS[LATENT]), RUNS[LATENT]["output"]["weight_and_optimizer_bytes"]
    latent = setup.model.latent
    assert latent is not None
    ranks = latent.query_rank + latent.key_value_rank
    down = setup.model.hidden * (ranks + latent.rope) + ranks
    more = Fraction(down * setup.model.layers, 2) / setup.parallel.pipeline
    assert states(setup) - more * bytes_each(setup) == theirs
    assert states(setup) == pytest.approx(theirs, rel=0.015)


def test_all_scores_count_where_they_are_asked_for() -> None:
    """Attention between words twice: what is added is that of causal attention, 3 x 2 x s q a token and layer."""
    setup = megatron_setup(RUNS["mm00"])
    sizes = (setup.model, setup.batch.sequence, setup.tokens_of_step)
    more = training_flops(*sizes, whole=True) - training_flops(*sizes)
    assert more == 3 * setup.tokens_of_step * 32 * 2 * 4096 * 4096
