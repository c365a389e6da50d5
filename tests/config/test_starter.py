"""The starter config, the JSON Schema, and the configs that come with the project."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import pipesched
from pipesched import ConfigError, Problem, json_schema, make_problem, starter
from pipesched.config.load import load as load_problem, load_config
from pipesched.config.values import Algorithm
from pipesched.pipeline.problem.declared import FIELDS, SECTIONS, SETUP, keys_of, top_keys

Load = Callable[..., Problem]

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.y*ml"))


def is_valid(text: str) -> bool:
    """Whether the schema accepts the config, read by an ordinary YAML parser as an editor does."""
    return bool(Draft202012Validator(json_schema()).is_valid(yaml.safe_load(text)))


def test_starter_is_the_built_in_default(load: Load) -> None:
    """The starter config is the built-in default with labels: each value it spells out is what its comment says."""
    given, built_in = load(starter()), load_problem()
    assert (given.name, given.time_unit) == ("my-model", "ms")
    assert (given.costs, given.memory) == (built_in.costs, built_in.memory)
    sizes = (given.devices, given.stages, given.microbatches, given.placement, given.lanes)
    assert sizes == (built_in.devices, built_in.stages, built_in.microbatches, built_in.placement, built_in.lanes)


def test_commented_lines_of_the_starter_work(load: Load) -> None:
    """The lines that are commented out hold real keys with sensible values (but the halves, next to a backward)."""
    problem = load(re.sub(r"(?m)^  # (?!backward_)", "  ", starter()))
    assert problem.grains.budget is not None
    assert "overlap" in problem.ticks.mean
    assert "offload" in problem.ticks.mean


def test_starter_mentions_every_key() -> None:
    """The starter shows each key that a config may hold."""
    assert [field.key for field in FIELDS if f"{field.key.rpartition('.')[2]}:" not in starter()] == []


def test_schema_is_a_schema() -> None:
    """The schema is valid by the rules of draft 2020-12, which it names; it accepts the starter, whoever changed it."""
    Draft202012Validator.check_schema(changed := json_schema())
    assert changed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    changed["properties"]["stages"]["anyOf"][0]["minimum"] = 99
    assert is_valid(starter())
    assert json_schema() != changed


def test_schema_has_every_key_with_a_description() -> None:
    """The schema lists exactly the keys that the reader knows, each with its meaning."""
    properties = json_schema()["properties"]
    assert set(properties) == set(top_keys())
    for section in SECTIONS:
        assert set(properties[section]["properties"]) == set(keys_of(section))
    for field in (*FIELDS, *SETUP):
        section, _, key = field.key.rpartition(".")
        place: dict[str, Any] = properties[section]["properties"] if section else properties
        assert place[key]["description"] == field.help


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.name))
def test_shipped_config(path: Path) -> None:
    """A config of the project is valid by the schema, begins with a comment, loads, and runs by the algorithm
    that it names, or by 1F1B; those of a model run in tests/test_corpus.py."""
    text = path.read_text(encoding="utf-8")
    assert is_valid(text)
    assert text.startswith("#")
    problem, configured = load_config(str(path), {})[:2]
    asked = configured or Algorithm("1f1b")
    assert problem.cutter or pipesched.run(problem, asked.name, **asked.options).schedule.makespan_ticks > 0


AGREED = [  # the config, whether it is one
    ("devices: 4", True),
    ("devices: 4\ncosts:\nmemory:", True),
    ("devices: 4\nplacement: [3, 2, 1, 0]", True),
    ("devices: 4\ncosts: {forward: [1, 2, 3, 4], p2p: [0, 0.5, 0]}", True),
    ("devices: 4\nmemory: {retain: [0, 1, 0.5, 1], budget: [1, 2, 3, 4], unit: GB}", True),
    ("devices: 4\nalgorithm: 1f1b", True),
    ("devices: 4\nalgorithm: {interleaved: {group_size: 8}}", True),
    ("devices: 4\nalgorithm: {list: {seed: 0, tie: random, priority: }}", True),
    ("devices: 4\nalgorithm: {block: {period: 0.5, forward: [0], backward: [2.5], squeeze: 1, peak: 4}}", False),
    ("devices: 4\nalgorithm: {block: {period: 0.5, forward: [0], backward: [2.5], squeeze: false, peak: 4}}", True),
    ("devices: 4\nalgorithm: 1f1", False),
    ("devices: 4\nalgorithm: {}", False),
    ("devices: 4\nalgorithm: {naive: , 1f1b: }", False),
    ("devices: 4\nalgorithm: {1f1b: {group_size: 8}}", False),
    ("devices: 4\nalgorithm: {interleaved: {group_size: 0}}", False),
    ("devices: 4\nalgorithm: {naive: {lifo: 1}}", False),
    ("devices: 4\nalgorithm: {list: {seed: -1}}", False),
    ("devices: 4\nalgorithm: {zb-auto: {objective: spam}}", False),
    ("", False),
    ("stages: 4", False),
    ("devices: 0", False),
    ("devices: '4'", False),
    ("devices: 4\ndevice: 4", False),
    ("devices: 4\ncosts: {forward: -1}", False),
    ("devices: 4\nmemory: {retain: 2}", True),
    ("devices: 4\nmemory: {budget: 0}", False),
    ("devices: 4\nmemory: {unit: 5}", False),
    ("devices: 4\ntime_unit: ms\ncosts: {forward: 250us, p2p: [1 µs, 2.5e2ns, .5ms]}", True),
    ("devices: 4\nmemory: {unit: GB, activation: 500MB, budget: [1GB, 1 GiB, 2.5TB, 10]}", True),
    ("devices: 4\ntime_unit: ms\ncosts: {forward: 5GB}", False),
    ("devices: 4\nmemory: {unit: GB, retain: 1GB}", False),
    ("devices: 4\ntime_unit: ms\nmicrobatches: 8ms", False),
    ("devices: 4\nplacement: looop", False),
    ("devices: 2\nsizes: {work: [1, 2], activation: , message: [0, 1.5]}", True),
    ("devices: 2\nsizes: {work: 2}", False),
    ("devices: 2\nsizes: {wrok: [1, 2]}", False),
    ("devices: 2\nslices: 4", True),
    ("devices: 2\nslices: 1025", False),
    ("devices: 2\nslices: {count: 2, tokens: work, attention: 0.5, overhead: 0, work: , most: }", True),
    ("devices: 2\ntime_unit: ms\nslices: {count: auto, most: 8, overhead: 5us}", True),
    ("devices: 2\nslices: {count: 2, tokens: [0.25, 0.75], work: [0.5, 0.5]}", True),
    ("devices: 2\nslices: {count: 2, work: [[0.5, 0.5], [0.25, 0.75]]}", True),
    ("devices: 2\nslices: {count: 1, work: {forward: [1], backward_input: [[1], [1]], backward_weight: [1]}}", True),
    ("devices: 2\nslices: {count: 1, work: {backward: [1]}}", False),
    ("devices: 2\nslices: {count: 2, tokens: [1, 0]}", False),
    ("devices: 2\nmode: forward", True),
    ("devices: 2\nmemory: {kv: 0.25}", True),
    ("devices: 2\nmemory: {kv: [0.5, 0.5]}", False),
    ("devices: 2\ncosts: {forward: [[1, 2], 3], p2p: [[0, 1]]}\nmemory: {activation: [[1, 2], [2, 1]]}", True),
    ("devices: 2\ntime_unit: ms\ncosts: {forward: [[1, 2us], 3]}", True),
    ("devices: 2\ncosts: {overlap: [[1, 2], 3]}", False),
    ("devices: 2\nmemory: {static: [[1, 2], 3]}", False),
    ("devices: 2\nlayers: 10000\nlayer: {forward: 1}", True),
    ("devices: 2\nlayers: 10001\nlayer: {forward: 1}", False),
    (f"devices: 2\nlayer: {{forward: [{'1, ' * 10_001}]}}", False),
    (f"devices: 2\nside: [{'{forward: 1}, ' * 1_001}]", False),
    ("devices: 2\nslices: {count: 2, overhead: '1/3'}", False),
]


@pytest.mark.parametrize(("text", "is_config"), AGREED)
def test_schema_and_loader_agree(load: Load, text: str, is_config: bool) -> None:
    """What the schema accepts in an editor, the loader accepts too, and the other way round."""
    try:
        load(text)
    except ConfigError:
        accepted = False
    else:
        accepted = True
    assert (accepted, is_valid(text)) == (is_config, is_config)


def test_only_devices_are_required(load: Load) -> None:
    """A file with nothing but devices is a whole config."""
    assert {"required": ["devices"]} in json_schema()["anyOf"]
    assert load("devices: 1") == make_problem(devices=1)
