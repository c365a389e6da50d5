"""Configs that describe a training run: the problem is derived, and what is given beside it counts instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import pipesched
from pipesched.config.load import load_config
from pipesched.config.starter import json_schema, setup_starter
from pipesched.errors import ConfigError
from pipesched.estimation.model_reader import preset_names
from pipesched.pipeline.problem.problem import Problem
from tests.examples import at_night_but

Load = Callable[..., Problem]
FILE = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, pipeline: 4}
batch: {sequence: 4096, global: 32}
"""
SECTIONS: dict[str, Any] = {
    "model": "llama-3-8b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 8, "pipeline": 4},
    "batch": {"sequence": 4096, "global": 32},
}


def is_valid(text: str) -> bool:
    """Whether the schema accepts a config."""
    return bool(Draft202012Validator(json_schema()).is_valid(yaml.safe_load(text)))


def test_the_problem_is_derived(load: Load) -> None:
    """Devices, microbatches, times in ms and memory in GB follow from the training run."""
    problem = load(FILE)
    assert (problem.devices, problem.microbatches, problem.time_unit, problem.memory.unit) == (4, 16, "ms", "GB")
    assert problem.name == "llama-3-8b on 8 h100-sxm"
    assert problem.costs.split
    assert problem.memory.budget is not None
    assert pipesched.run(problem, "1f1b").schedule.makespan > 0


def test_a_config_says_that_it_is_derived() -> None:
    """The setup stands beside the problem, with notes of what to know; an ordinary config has neither."""
    config = load_config(FILE, {})
    assert config.setup is not None
    assert config.setup.parallel.data == 2
    assert config.notes[0].startswith("costs and memory are estimated: llama-3-8b on 8 h100-sxm (pipeline 4, data 2)")
    assert load_config("devices: 4", {})[3:6] == (None, (), None)


def test_sections_as_overrides(load: Load) -> None:
    """Mappings merge into the sections of the file, and without a file into each other; None takes a value away."""
    assert pipesched.load(**SECTIONS) == load(FILE)
    larger = load(FILE.replace("pipeline: 4", "pipeline: 4, tensor: 2").replace("global: 32", "global: 64"))
    assert load(FILE, parallel={"tensor": 2}, batch={"global": 64}) == larger
    assert load(FILE, batch={"micro": None}) == load(FILE)
    assert load(FILE, model="llama-2-7b") == load(FILE.replace("llama-3-8b", "llama-2-7b"))
    assert load(FILE, hardware={"memory": 141}) == load(FILE.replace("h100-sxm", "{preset: h100-sxm, memory: 141}"))
    assert load(FILE, training={"recompute": "full"}) != load(FILE)


def test_chunks_are_those_of_a_device(load: Load) -> None:
    """As an override `chunks` is that of the layout."""
    assert load(FILE, chunks=2) == load(FILE.replace("pipeline: 4", "pipeline: 4, chunks: 2"))


def test_costs_and_memory_beside_a_model(load: Load) -> None:
    """What is given of costs and memory counts instead of what is derived, and so do name and microbatches."""
    problem = load(FILE + "name: mine\ncosts: {p2p: 250us}\nmemory: {budget: 100GB}\nmicrobatches: 6\n")
    assert (problem.name, problem.microbatches) == ("mine", 6)
    assert set(problem.costs.p2p) == {0.25}
    assert set(problem.memory.budget or ()) == {100}
    assert problem.costs.forward == load(FILE).costs.forward


def test_units_that_are_derived_may_be_given(load: Load) -> None:
    """The labels that a derived problem has do no harm."""
    assert load(FILE + "time_unit: ms\nmemory: {unit: GB}\n") == load(FILE)


SPELLINGS = [
    "training: {recompute: {full: 2}, layout: [8, 8, 8, 8], efficiency: {gemm: {forward: 0.5}, kernel: 4}}",
    "training: {recompute: [none, full], layout: 'Et*8|t*8|t*8|t*8L', efficiency: profile.yaml}",
    "training:",
    "algorithm: interleaved",
    "costs: {p2p: 1ms}",
]


@pytest.mark.parametrize("more", SPELLINGS)
def test_schema_accepts(more: str) -> None:
    """The schema accepts every form of the sections, candidates of a search too."""
    assert is_valid(f"{FILE}{more}\n")
    searched = FILE.replace("pipeline: 4", "pipeline: [2, 4], tensor: auto").replace("global", "micro: [1, 2], global")
    assert is_valid(searched)
    keys = "{num_hidden_layers: 2, hidden_size: 8, rope_theta: 5, mlp: plain, model_type: gpt2, dropout: 0.1}"
    hardware = "{preset: h200, memory: 80GB, nvlink: 1.5}"
    assert is_valid(FILE.replace("llama-3-8b", keys).replace("h100-sxm", hardware))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("h100-sxm", "h100"),
        ("h100-sxm", "{tflop: 5}"),
        ("gpus: 8, ", ""),
        ("gpus: 8", "gpus: 8, tensr: 2"),
        ("global: 32", "global: 32, micros: 2"),
        ("pipeline: 4", "pipeline: 0"),
        ("model: llama-3-8b\n", ""),
        ("model: llama-3-8b", "model: {mlp: glu}"),
        ("batch", "training: {precision: fp9}\nbatch"),
        ("batch", "training: {efficiency: {gemms: 1}}\nbatch"),
    ],
)
def test_schema_refuses(old: str, new: str) -> None:
    """The schema refuses unknown keys, unknown names, and what is missing."""
    assert not is_valid(FILE.replace(old, new))


MODELS = preset_names("models")


@pytest.mark.slow
@pytest.mark.parametrize("model", at_night_but(MODELS[:3], MODELS))
def test_starter_of_a_model(load: Load, model: str) -> None:
    """The starter of every model is valid, loads, and fits the memory of its GPUs."""
    text = setup_starter(model)
    assert is_valid(text)
    outcome = pipesched.run(load(text), "1f1b")
    assert outcome.schedule.fits
    assert "No layout" not in text


@pytest.mark.parametrize(("hardware", "gpus"), [("a100-80gb-sxm", 64), ("rtx-4090", 7), (None, 1)])
def test_starter_for_given_gpus(load: Load, hardware: str | None, gpus: int) -> None:
    """Any number of GPUs gives a config that loads; one that does not fit says so."""
    text = setup_starter("llama-3-70b", hardware, gpus)
    problem = load(text)
    assert f"  gpus: {gpus} " in text
    assert pipesched.run(problem, "1f1b").schedule.fits == ("No layout" not in text)


def test_commented_lines_of_the_starter_work(load: Load) -> None:
    """The lines that are commented out hold real keys with sensible values."""
    text = setup_starter("mixtral-8x7b", gpus=32)
    lines = [line.replace("  # ", "  ", 1) if line.startswith("  # ") else line for line in text.splitlines()]
    assert load("\n".join(lines)).devices == load(text).devices


def test_a_starter_of_a_file(load: Load, tmp_path: Path) -> None:
    """The path of a config.json stands in the config as it was given, in quotes where YAML needs them."""
    source = Path(__file__).parents[1] / "data" / "models" / "llama-2-7b.json"
    copy = tmp_path / "my # model.json"
    copy.write_text(source.read_text())
    text = setup_starter(str(copy))
    assert f'model: "{copy}"' in text
    assert load(text).devices >= 2
    with pytest.raises(ConfigError, match="unknown model 'llama'; did you mean"):
        setup_starter("llama")


def test_a_layout_gives_way_to_stages_of_equal_work() -> None:
    """A rule as an override cuts a model anew whose config gives its stages; a list has no place."""
    text = """\
model: llama-3-8b
hardware: h100-sxm
parallel: {gpus: 8, pipeline: 4, chunks: 2}
batch: {sequence: 4096, global: 16}
training: {layout: [1, 1, 1, 1, 1, 1, 1, 25]}
"""
    given, anew = (pipesched.compare(pipesched.load(text, **more), ["interleaved", "1f1b"]) for more in ({}, BALANCED))
    assert [entry.applicable for entry in given] == [True, False]
    assert [entry.applicable for entry in anew] == [True, True]
    assert anew[0].metrics["makespan"] < given[0].metrics["makespan"]  # type: ignore[index]
    (equal,) = pipesched.compare(pipesched.load(text, layout="equal"), ["interleaved"])
    assert equal.outcome is not None
    assert equal.outcome.cut is None
    with pytest.raises(ConfigError, match="has no place beside `model`"):
        pipesched.load(text, layout=[4] * 8)


BALANCED = {"layout": "balanced"}
