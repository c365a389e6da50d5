"""Configs with a model: setup, hardware, layers and the step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import pipesched
from pipesched import ConfigError, Problem, json_schema, make_problem
from pipesched.config.hls import load_hls
from pipesched.config.load import load as load_problem, load_config
from pipesched.config.starter import setup_starter
from pipesched.config.values import Source
from pipesched.estimation.model_reader import preset_names
from pipesched.hls.schedule import UnitClass
from pipesched.pipeline.plan.step import Shard
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


REPLACED = [
    ("h100-sxm", "h100"), ("h100-sxm", "{tflop: 5}"), ("gpus: 8, ", ""), ("gpus: 8", "gpus: 8, tensr: 2"),
    ("global: 32", "global: 32, micros: 2"), ("pipeline: 4", "pipeline: 0"), ("model: llama-3-8b\n", ""),
    ("model: llama-3-8b", "model: {mlp: glu}"), ("batch", "training: {precision: fp9}\nbatch"),
    ("batch", "training: {efficiency: {gemms: 1}}\nbatch"),
]  # fmt: skip
ALONE = [
    "costs: {tied: [1, 2]}", "costs: {gather: '1'}", "costs: {reduce: [1, x]}", "memory: {states: -1}", "shard: zero3",
    "shard: {level: weights, ranks: '8'}", "shard: {level: weights, ahead: all}", "shard: {rank: 8}",
    "step: {clip: maybe}", "side: {forward: 1}", "side: []", "side: [{forward: 1}, {forward: 1, backwards: 2}]",
    "side: [{forward: '1'}]", "side: [{backward: 1}]", "side: [3]",
]  # fmt: skip


@pytest.mark.parametrize(
    "text", [*(FILE.replace(*pair) for pair in REPLACED), *(f"devices: 2\n{text}" for text in ALONE)]
)
def test_schema_refuses(text: str) -> None:
    """Unknown keys and names, what is missing, and what is bad by itself: tests/golden/said has the messages."""
    assert not is_valid(text)


MODELS = preset_names("models")


@pytest.mark.slow
@pytest.mark.parametrize("model", at_night_but(("llama-3-8b", "mixtral-8x7b"), MODELS))
def test_starter_of_a_model(load: Load, model: str) -> None:
    """The starter of every model is valid, loads, and fits the memory of its GPUs."""
    text = setup_starter(model)
    assert is_valid(text)
    assert pipesched.run(load(text), "1f1b").schedule.fits
    assert "No layout" not in text


def test_starter_for_given_gpus(load: Load) -> None:
    """Any number of GPUs gives a config that loads; one that does not fit says so."""
    text = setup_starter("llama-3-70b", "rtx-4090", 7)
    problem = load(text)
    assert "  gpus: 7 " in text
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
CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "hls").iterdir())


def refusal(source: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_hls(source)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, content: Any) -> str:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    return name


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_classics_load(path: Path) -> None:
    """Each begins with a comment that says what it shows; the loops are loops, but for the filter without feedback."""
    assert path.read_text().startswith("# ")
    loop = path.stem.endswith("-loop")
    graph = load_hls(str(path), loop=loop).graph
    assert len(graph) >= 7
    assert graph.is_loop == loop


def test_a_name_of_a_file_is_that_file_and_anything_else_an_expression() -> None:
    assert len(load_hls(" a + b ").graph) == 1
    write("a + b", "x = a * b\ny = x * c\n")
    hardware = load_hls("a + b")
    assert [one.type for one in hardware.graph.operations] == ["mul", "mul"]
    assert hardware.graph.name == "a + b"


def test_options_go_over_what_a_file_says() -> None:
    path = write("p.yaml", "program: y = a * b + c\nunits: {mul: 1, add: 1}\nlatency: {mul: 2}\npipelined: [mul]\n")
    assert load_hls(path).units == (UnitClass("mul", 1, 2, 1), UnitClass("add", 1, 1, 1))
    units = load_hls(path, units={"mul": 3, "add": 4}, latency={"add": 5}).units
    assert units == (UnitClass("mul", 3, 2, 1), UnitClass("add", 4, 5, 5))


def test_a_graph_in_json_and_in_yaml() -> None:
    """Names may be whole numbers; an edge that stands there twice is one; a distance makes a loop."""
    content = {"name": "g", "source": "x", "ops": [[1, "MUL"], ["b", "add"]], "edges": [[1, "b"], [1, "b"]]}
    graph = load_hls(write("g.json", content)).graph
    assert [one.name for one in graph.operations] == ["1", "b"]
    assert graph.dependences == ((0, 1, 0),)
    assert graph.name == "g"
    path = write("g.yaml", "ops: [[1, MUL], [b, add]]\nedges: [[1, b]]\n")
    assert load_hls(path).graph.dependences
    loop = write("loop.json", {**content, "edges": [[1, "b"], ["b", 1, 2]]})
    assert load_hls(loop, loop=True).graph.dependences == ((0, 1, 0), (1, 0, 2))
    assert "(`pipeline`)" in refusal(loop)


def test_a_text_with_a_name() -> None:
    """A source that is no file, standard input say, is read as its name says, and messages call it so."""
    assert load_hls(Source("y = a * b + c\n", "<stdin>")).graph.name == "<stdin>"
    assert load_hls(Source('{"ops": [["a", "add"]]}', "x.json")).graph.name == "x.json"
    with pytest.raises(ConfigError, match=r"^<stdin>:2:"):
        load_hls(Source("y = a\nz = b ** c", "<stdin>"))


LAYERS_FILE = """\
devices: 4
microbatches: 8
layers: 16
layer:
  forward: 5
  backward: 10
  activation: 0.1
last: {forward: 7, backward: 14}
memory: {unit: GB}
"""
GIVEN: dict[str, Any] = {
    "devices": 4,
    "microbatches": 8,
    "layers": 16,
    "layer": {"forward": 5, "backward": 10, "activation": "0.1"},
    "last": {"forward": 7, "backward": 14},
    "unit": "GB",
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"chunks": 2},
        {"stages": 8},
        {"layers": 20},
        {"layout": "equal"},
        {"layout": [4, 4, 4, 4]},
        {"layer": {"forward": 3}},
        {"first": {"static": 1}},
        {"last": None},
        {"placement": "v", "chunks": 2},
    ],
    ids=str,
)
def test_an_override_replaces_the_value_of_the_file(load: Load, change: dict[str, Any]) -> None:
    """A file and overrides are the arguments of make_problem, with the layers cut alike."""
    problem, meant = load(LAYERS_FILE, **change), make_problem(**{**GIVEN, **change})
    assert (problem, problem.layers) == (meant, meant.layers)


def test_chunks_and_stages_replace_each_other(load: Load) -> None:
    """On top of a file that gives one, the other counts."""
    assert load(f"{LAYERS_FILE}chunks: 2\n", stages=12).stages == 12
    assert load(f"{LAYERS_FILE}stages: 12\n", chunks=2).stages == 8
    with pytest.raises(ConfigError, match=r"^chunks: give either"):
        load(LAYERS_FILE, stages=8, chunks=2)


def test_the_built_in_default_by_layers() -> None:
    """Layers on top of the built-in default replace its stages and their costs."""
    assert load_problem(layers=10) == make_problem(devices=4, microbatches=8, layers=10)
    assert load_problem(layers=10, devices=2).stages == 2


COSTS = "devices: 2\ntime_unit: ms\ncosts: {gather: 1, reduce: [1, 250us], optimizer: 2, tied: 3}\nstep: {clip: true}\n"
COSTS_GIVEN: dict[str, Any] = {
    "time_unit": "ms", "gather": 1, "reduce": [1, 0.25], "optimizer": 2, "tied": 3, "clip": True,
}  # fmt: skip
KEPT = "devices: 2\nmemory: {weights: 2, gradients: [3, 4], states: 5}\n"
SHARD = "devices: 2\nshard: {level: weights, ranks: 8, ahead: 2, reduce: each}\n"
LATE = "devices: 2\nshard: {level: weights, ranks: 8, gather: each}\n"
SIDE = "devices: 2\nside:\n  - {name: '3', forward: 1}\n  - forward: 2\n    backward: [1, 2, 3]\n"


@pytest.mark.parametrize(
    ("text", "overrides", "meant"),
    [  # a file, what is laid over it, the same for make_problem
        (COSTS, {}, COSTS_GIVEN),
        (COSTS, {"clip": False}, {**COSTS_GIVEN, "clip": False}),
        (COSTS, {"gather": None, "tied": "1us"}, {**COSTS_GIVEN, "gather": None, "tied": 0.001}),
        (COSTS, {"optimizer": (1, 2)}, {**COSTS_GIVEN, "optimizer": [1, 2]}),
        (KEPT, {"weights": "1/3"}, {"weights": "1/3", "gradients": [3, 4], "states": 5}),
        (KEPT, {"states": None}, {"weights": 2, "gradients": [3, 4]}),
        (SHARD, {}, {"shard": Shard("weights", 8, 2, "each")}),
        (SHARD, {"shard": {"ahead": "full"}}, {"shard": Shard("weights", 8, "full", "each")}),
        (SHARD, {"shard": "gradients"}, {"shard": Shard("gradients", 8, reduce="each")}),
        (SHARD, {"shard": {"gather": "each"}}, {"shard": Shard("weights", 8, reduce="each", gather="each")}),
        (LATE, {"shard": {"ahead": 2}}, {"shard": Shard("weights", 8, 2)}),
        (LATE, {"shard": "gradients"}, {"shard": Shard("gradients", 8)}),
        (SHARD, {"shard": "optimizer"}, {"shard": Shard("optimizer", 8)}),
        (SHARD, {"shard": {"ranks": None}}, {"shard": Shard("weights", 1, 2, "each")}),
        (SHARD, {"shard": Shard("none")}, {"shard": Shard("none")}),
        (SHARD, {"shard": None}, {}),
        ("devices: 2\nshard: weights", {"shard": {"ahead": 1}}, {"shard": Shard("weights", 1, 1)}),
        ("devices: 2\nshard: weights", {"shard": "optimizer"}, {"shard": "optimizer"}),
        ("devices: 2\nshard: {ranks: 8}", {"shard": "gradients"}, {"shard": Shard("gradients", 8)}),
        ("devices: 2\ncosts: {gather: 1}\nshard: {ranks: 8}", {}, {"gather": 1, "shard": Shard("optimizer", 8)}),
        (SIDE, {}, {"side": [{"name": "3", "forward": 1}, {"forward": 2, "backward": [1, 2, 3]}]}),
        (SIDE, {"side": [{"forward": 1}]}, {"side": [{"forward": 1}]}),
        (SIDE, {"side": None}, {}),
        ("devices: 2\nside: [{forward: 1, devices: all, backward: }]", {}, {"side": [{"forward": 1}]}),
        ("devices: 2\nstep:\nshard:\nside:\n", {}, {}),
    ],
)  # fmt: skip
def test_meaning(load: Load, text: str, overrides: dict[str, Any], meant: dict[str, Any]) -> None:
    """A file and what is laid over it mean the same as the parameters; the schema accepts the file."""
    assert load(text, **overrides) == make_problem(devices=2, **meant)
    assert is_valid(text)


def test_lists_of_side_work_replace_the_microbatches_of_the_built_in_default() -> None:
    """As other lists of one a microbatch do; other side work does not."""
    assert load_problem(side=[{"forward": [1, 2, 3]}]).microbatches == 3
    assert load_problem(side=[{"forward": 1}]).microbatches == 8
