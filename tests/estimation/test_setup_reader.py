"""Reading the five sections: every key, and what is wrong by its file, line and key."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pipesched.config.values import read_fields
from pipesched.errors import ConfigError
from pipesched.estimation.hardware import Efficiency
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.model_reader import preset_model
from pipesched.estimation.setup import Parallel, Setup, TokenBatch, TrainingSetup
from pipesched.estimation.setup_reader import ReadSetup, read_setup, setup_of
from pipesched.text.yaml_reader import parse_yaml

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
        precision="fp16",
        gradients="fp32",
        context="gather",
        recompute="full",
        full_layers=2,
        distributed_optimizer=False,
        flash_attention=False,
        tensor_overlap=True,
        fused_loss=True,
        layout=layout,
    )
    gpu, whole = setup.hardware, preset_hardware("h200")
    assert (gpu.memory, gpu.nic, gpu.gpus_per_node, gpu.gpus_per_nic) == (100, 12.5, 4, 2)
    assert gpu.bandwidth == whole.bandwidth
    shares = gpu.efficiency
    assert (shares.gemm_weight, shares.core, shares.network, shares.kernel) == (0.5, 0.25, 0.5, 10)
    assert (shares.gemm_forward, shares.memory) == (whole.efficiency.gemm_forward, whole.efficiency.memory)


def test_the_same_from_python() -> None:
    """Sections may be given from Python too; what is None there is left out."""
    parallel: dict[str, Any] = {"gpus": 8, "pipeline": 4, "tensor": None}
    found = setup_of(
        model="llama-3-8b",
        hardware="h100-sxm",
        parallel=parallel,
        batch={"sequence": 4096, "global": 32},
        training=None,
    )
    assert found == read(FILE)


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


def test_every_share_has_a_key() -> None:
    """Each field of the shares is a key; `gemm` is one for three."""
    shares = dict.fromkeys(Efficiency.__dataclass_fields__, 0.125)
    training = {"efficiency": shares}
    base: dict[str, Any] = {"model": "llama-3-8b", "hardware": "h200", "parallel": {"gpus": 1}}
    setup = setup_of(**base, batch={"sequence": 8, "global": 1}, training=training).setup
    assert setup.hardware.efficiency == Efficiency(**shares)


def test_a_relative_is_told() -> None:
    """Where the shares of a GPU are those of another, a note says so."""
    gpu = preset_hardware("h200")
    notes = read(FILE.replace("h100-sxm", "h200")).notes
    expected = f"h200: shares of its numbers are those fitted on {gpu.fitted_on}"
    assert list(notes) == ([expected] if gpu.has_relative else [])


def test_32_bits_are_told() -> None:
    """A GPU's peak is that of 16 bits, and so are the bytes of activations: a note says so."""
    [note] = read(FILE.replace("bf16", "fp32")).notes
    assert note.startswith("fp32 counts in weights, gradients and optimizer")


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
