"""From config files to problems: every key, every default, and what a bad value is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.config.load import load_config
from pipesched.config.values import Source
from pipesched.errors import ConfigError
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.declared import BY_KEY
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical, to_fraction

Load = Callable[..., Problem]


def agreed(given: Sequence[Exact] | None, counted: Sequence[int] | None, per_unit: int) -> list[Fraction] | None:
    """The user's numbers, exactly; the integers that stand for them are the same."""
    if given is None or counted is None:
        assert given is counted
        return None
    numbers = [to_fraction(value) for value in given]
    assert [Fraction(count, per_unit) for count in counted] == numbers
    return numbers


def times(key: str) -> Callable[[Problem], list[Fraction] | None]:
    return lambda p: agreed(getattr(p.costs, key), p.ticks.mean.get(key), p.ticks.per_unit)


def sizes(key: str) -> Callable[[Problem], list[Fraction] | None]:
    return lambda p: agreed(
        getattr(p.memory, key),
        p.grains.largest[key] if key == "activation" else getattr(p.grains, key),
        p.grains.per_unit,
    )


def shares(key: str, counted: str) -> Callable[[Problem], list[Fraction] | None]:
    """Parts of an activation, of which the integers are the product."""

    def read(problem: Problem) -> list[Fraction]:
        parts = [to_fraction(part) for part in getattr(problem.memory, key)]
        products = [part * to_fraction(size) for part, size in zip(parts, problem.memory.activation, strict=True)]
        assert agreed(list(map(canonical, products)), problem.grains.largest[counted], problem.grains.per_unit)
        return parts

    return read


def step_times(key: str) -> Callable[[Problem], list[Fraction] | None]:
    def read(problem: Problem) -> list[Fraction] | None:
        counted = getattr(problem.step_ticks, key) if problem.has_step else None
        return agreed(getattr(problem.costs, key), counted, problem.ticks.per_unit)

    return read


def kept(key: str) -> Callable[[Problem], list[Fraction]]:
    return lambda p: [to_fraction(size) for size in getattr(p.memory, key)]


READERS: dict[str, Callable[[Problem], Any]] = {
    "name": lambda p: p.name,
    "devices": lambda p: p.devices,
    "stages": lambda p: p.stages,
    "microbatches": lambda p: p.microbatches,
    "placement": lambda p: p.placement and p.placement.devices,
    "sizes": lambda p: p.sizes and (p.sizes.work, p.sizes.activation, p.sizes.message),
    "slices": lambda p: (p.slices.count, p.slices.tokens),
    "mode": lambda p: p.mode,
    "rounds": lambda p: (p.rounds, p.microbatches),
    "time_unit": lambda p: p.time_unit,
    "lanes": lambda p: p.lanes,
    "speed": lambda p: p.speed,
    "links": lambda p: p.links,
    "messages": lambda p: p.messages and (p.messages.queue, p.messages.order),
    "chunks": lambda p: p.stages,
    "layers": lambda p: p.layers and p.layers.count,
    "layer": lambda p: p.layers and p.layers.layer.forward,
    "first": lambda p: p.layers and p.layers.first.static,
    "last": lambda p: p.layers and p.layers.last.backward_input,
    "mtp": lambda p: p.layers and p.layers.mtp.backward_input,
    "layout": lambda p: p.layers and p.layers.layout,
    "costs.forward": times("forward"),
    "costs.backward": times("backward"),
    "costs.backward_input": times("backward_input"),
    "costs.backward_weight": times("backward_weight"),
    "costs.recompute": times("recompute"),
    "costs.overlap": times("overlap"),
    "costs.p2p": times("p2p"),
    "costs.offload": times("offload"),
    "costs.reload": times("reload"),
    "memory.unit": lambda p: p.memory.unit,
    "memory.activation": sizes("activation"),
    "memory.kv": lambda p: p.memory.kv,
    "memory.receive": lambda p: p.memory.receive,
    "memory.retain": shares("retain", "retained"),
    "memory.checkpoint": shares("checkpoint", "checkpointed"),
    "memory.static": sizes("static"),
    "memory.budget": sizes("budget"),
    **{f"costs.{key}": step_times(key) for key in ("gather", "reduce", "optimizer")},
    "costs.tied": lambda p: p.costs.tied,
    **{f"memory.{key}": kept(key) for key in ("weights", "gradients", "states")},
    "shard": lambda p: p.shard and (p.shard.level, p.shard.ranks, p.shard.ahead, p.shard.reduce),
    "step.clip": lambda p: p.clip,
    "side": lambda p: [(item.forward, item.backward, item.into, item.devices) for item in p.side],
}

TENTH = Fraction(1, 10)
VALUES = [  # key, the text of its value in a file with 3 devices, what it means
    ("name", "my model", "my model"),
    ("name", "'42'", "42"),
    ("name", "yes", "yes"),
    ("devices", "3", 3),
    ("devices", "3.0", 3),
    ("stages", "6", 6),
    ("microbatches", "1_000", 1000),
    ("microbatches", "1e1", 10),
    ("sizes", "{work: [1, 2.5], message: [3, 1]}", ((1, 2.5), (1, 1), (3, 1))),
    ("sizes", "{work: [1, 1]}", None),
    ("slices", "3", (3, (Fraction(1, 3),) * 3)),
    ("slices", "{count: 2, tokens: [0.25, 0.75]}", (2, (Fraction(1, 4), Fraction(3, 4)))),
    ("slices", "auto", (1, (1,))),
    ("mode", "forward", "forward"),
    ("rounds", "3", (3, 18)),
    ("placement", "auto", None),
    ("placement", "loop", (0, 1, 2)),
    ("placement", "[2, 1, 0]", (2, 1, 0)),
    ("time_unit", "ms", "ms"),
    ("lanes", "pair", "pair"),
    ("speed", "[1, 0.8, 2]", (1, 0.8, 2)),
    ("speed", "{1: 0.8}", (1, 0.8, 1)),
    ("messages", "rank", ("rank", None)),
    ("messages", "{queue: pair, order: best}", ("pair", "best")),
    ("messages", "free", None),
    ("links", "{size: 2, inside: 1, between: 3}", ((0, 1, 3), (1, 0, 3), (3, 3, 0))),
    ("links", "{groups: [[0, 2], [1]], inside: 0, between: 3}", ((0, 3, 0), (3, 0, 3), (0, 3, 0))),
    ("links", "[[0, 1, 2], [3, 0, 4], [5, 0.6, 0]]", ((0, 1, 2), (3, 0, 4), (5, 0.6, 0))),
    ("chunks", "2", 6),
    ("layers", "7", 7),
    ("layer", "{forward: 2.5}", 2.5),
    ("first", "{static: 3, forward: }", 3),
    ("last", "{backward: 3}", 1.5),
    ("layout", "Et*3||t*3L", (3, 0, 3)),
    ("mtp", "{backward: 3}", 1.5),
    ("layout", "equal", (2, 2, 2)),
    ("layout", "[1, 3, 2]", (1, 3, 2)),
    ("costs.forward", "2", [2, 2, 2]),
    ("costs.forward", "[1, 0, 2.5]", [1, 0, Fraction(5, 2)]),
    ("costs.backward", ".3", [3 * TENTH] * 3),
    ("costs.backward_input", "[1, 2, 3]", [1, 2, 3]),
    ("costs.backward_weight", "[3, 2, 1]", [3, 2, 1]),
    ("costs.recompute", "0.1", [TENTH] * 3),
    ("costs.overlap", "[1, 2, 3]", [1, 2, 3]),
    ("costs.overlap", "0", [0, 0, 0]),
    ("costs.p2p", "[0.1, 7]", [TENTH, 7]),
    ("costs.p2p", "0.000000001", [Fraction(1, 10**9)] * 2),
    ("costs.offload", "4", [4, 4, 4]),
    ("costs.reload", "[1, 2, 3]", [1, 2, 3]),
    ("memory.unit", "GB", "GB"),
    ("memory.activation", "[0.1, 0.2, 0]", [TENTH, 2 * TENTH, 0]),
    ("memory.retain", "[0, 0.1, 1]", [0, TENTH, 1]),
    ("memory.retain", "1.5", [Fraction(3, 2)] * 3),
    ("memory.checkpoint", "0.1", [TENTH] * 3),
    ("memory.kv", "0.25", 0.25),
    ("memory.receive", "0.25", 0.25),
    ("memory.static", "[1, 2, 0.1]", [1, 2, TENTH]),
    ("memory.budget", "[1, 2.5, 3]", [1, Fraction(5, 2), 3]),
    ("costs.gather", "[1, 2.5, 3]", [1, Fraction(5, 2), 3]),
    ("costs.reduce", "0.1", [TENTH] * 3),
    ("costs.optimizer", "0", [0, 0, 0]),
    ("costs.tied", "2.5", 2.5),
    ("memory.weights", "[1, 2, 0.1]", [1, 2, TENTH]),
    ("memory.gradients", "2", [2, 2, 2]),
    ("memory.states", "0.1", [TENTH] * 3),
    ("shard", "gradients", ("gradients", 1, 3, "last")),
    ("shard", "{level: weights, ranks: 8, ahead: full, reduce: each}", ("weights", 8, "full", "each")),
    ("shard", "{level: weights, ahead: [1, 2, 3]}", ("weights", 1, (1, 2, 3), "last")),
    ("step.clip", "true", True),
    ("side", "[{forward: 3}]", [((3,), None, 0, (0, 1, 2))]),
    ("side", "[{forward: [3, 1, 2, 1, 1, 1], backward: 2, into: 2, devices: [2, 0]}]",
     [((3, 1, 2, 1, 1, 1), (2,), 2, (2, 0))]),
]  # fmt: skip


def config_with(key: str, text: str) -> str:
    """A config with 3 devices and this value; a half of the backward comes with the other, a way back with the way."""
    values = {"devices": "3"}
    if key.startswith("costs.backward_"):
        values |= {"costs.backward_input": "1", "costs.backward_weight": "1"}
    if key == "rounds":
        values |= {"mode": "forward"}
    if key == "step.clip":
        values |= {"costs.optimizer": "1"}
    if key == "memory.receive":
        values |= {"messages": "rank"}
    if key == "costs.reload":
        values |= {"costs.offload": "9"}
    if key in ("layer", "first", "last", "layout", "mtp"):
        values |= {"layers": "6", "layer": "{backward: 1}"}
    if key == "mtp":
        values |= {"layout": "Et*3|t*3m|L"}
    sections: dict[str, list[str]] = {"": []}
    for full, value in {**values, key: text}.items():
        section, _, name = full.rpartition(".")
        sections.setdefault(section, []).append(f"{'  ' if section else ''}{name}: {value}")
    return "\n".join(line for name, lines in sections.items() for line in ([f"{name}:"] if name else []) + lines)


@pytest.mark.parametrize(("key", "text", "expected"), VALUES)
def test_value_in_a_file(load: Load, key: str, text: str, expected: object) -> None:
    """A key of the file sets its part of the problem, exactly."""
    assert READERS[key](load(config_with(key, text))) == expected


def test_every_key_is_tested() -> None:
    """The table above has a row for each key that a config may hold; `algorithm` is no part of the problem."""
    assert {key for key, _, _ in VALUES} == BY_KEY.keys() - {"algorithm"}


DEFAULTS = [  # the config, a key, what it is without being given
    ("devices: 3", "stages", 3),
    ("devices: 3", "microbatches", 6),
    ("devices: 3\nstages: 6", "microbatches", 6),
    ("devices: 3", "placement", None),
    ("devices: 3", "name", ""),
    ("devices: 3", "time_unit", ""),
    ("devices: 3", "lanes", "device"),
    ("devices: 3", "costs.forward", [1, 1, 1]),
    ("devices: 2\ncosts: {forward: [1, 2.5]}", "costs.backward", [2, 5]),
    ("devices: 2\ncosts: {forward: [1, 2.5]}", "costs.backward_input", [1, Fraction(5, 2)]),
    ("devices: 2\ncosts: {backward: [3, 5]}", "costs.backward_input", [Fraction(3, 2), Fraction(5, 2)]),
    ("devices: 2\ncosts: {backward: [3, 5]}", "costs.backward_weight", [Fraction(3, 2), Fraction(5, 2)]),
    ("devices: 2\ncosts: {backward_input: 1, backward_weight: [2, 3]}", "costs.backward", [3, 4]),
    ("devices: 2\ncosts: {forward: [1, 2]}", "costs.recompute", [1, 2]),
    ("devices: 2", "costs.overlap", None),
    ("devices: 4", "costs.p2p", [0, 0, 0]),
    ("devices: 1", "costs.p2p", []),
    ("devices: 2", "costs.offload", None),
    ("devices: 2", "costs.reload", None),
    ("devices: 2\ncosts: {offload: [3, 4]}", "costs.reload", [3, 4]),
    ("devices: 3", "memory.unit", "microbatch"),
    ("devices: 3", "memory.activation", [1, 1, 1]),
    ("devices: 2\nstages: 6", "memory.activation", [Fraction(1, 3)] * 6),
    ("devices: 2\nstages: 3", "memory.activation", [Fraction(2, 3)] * 3),
    ("devices: 2", "memory.retain", [1, 1]),
    ("devices: 2", "memory.checkpoint", [0, 0]),
    ("devices: 2", "memory.static", [0, 0]),
    ("devices: 2", "memory.budget", None),
    ("devices: 2", "costs.gather", None),
    ("devices: 2", "costs.tied", None),
    ("devices: 2", "memory.states", [0, 0]),
    ("devices: 2", "shard", None),
    ("devices: 2\ncosts: {reduce: 1}", "shard", ("none", 1, 3, "last")),
    ("devices: 2\ncosts: {gather: 1}", "shard", ("optimizer", 1, 3, "last")),
    ("devices: 2\ncosts: {gather: 1}\nshard: {ranks: 4}", "shard", ("optimizer", 4, 3, "last")),
    ("devices: 2\nlayers: 4\nlayer: {gather: 1}\nshard: {ranks: 4}", "shard", ("optimizer", 4, 3, "last")),
    ("devices: 2\nshard: {ranks: 4}", "shard", ("none", 4, 3, "last")),
    ("devices: 2", "step.clip", None),
    ("devices: 2\ncosts: {reduce: 1}", "step.clip", False),
]


@pytest.mark.parametrize(("text", "key", "expected"), DEFAULTS)
def test_default(load: Load, text: str, key: str, expected: object) -> None:
    """A value that is not given has its documented default, exactly."""
    assert READERS[key](load(text)) == expected


@pytest.mark.parametrize(
    "text", ["devices: 3\ncosts:\nmemory:", "devices: 3\nstages: ~\ncosts: {forward: }\nmemory: {budget: null}"]
)
def test_null_is_absent(load: Load, text: str) -> None:
    """A key without a value counts as not given, so that lines can be commented out."""
    assert load(text) == make_problem(devices=3)


def test_ticks_are_the_smallest_power_of_ten(load: Load) -> None:
    """Times are whole numbers of ticks, and a tick is no finer than it must be."""
    assert load("devices: 2").ticks.per_unit == 1
    assert load("devices: 2\ncosts: {backward: 5}").ticks.per_unit == 10
    assert load("devices: 2\ncosts: {p2p: 0.25, forward: 1.5}").ticks.per_unit == 100


@pytest.mark.parametrize(
    ("text", "split"), [("", False), ("backward: 3", False), ("backward_input: 1, backward_weight: 2", True)]
)
def test_split_backward_is_asked_for_by_its_halves(load: Load, text: str, split: bool) -> None:
    """The backward counts as split only when the config gives its halves."""
    assert load(f"devices: 2\ncosts: {{{text}}}").costs.split is split


COUNT = "must be a whole number of at least 1"
BAD = [  # the config, what the message holds
    ("devices: 0", ["c.yaml:1: devices: ", COUNT, "not 0"]),
    ("\n\ndevices: -4", ["c.yaml:3: devices: ", COUNT, "not -4"]),
    ("devices: 2.5", ["c.yaml:1: devices: ", COUNT, "not 2.5"]),
    ("devices: four", ["c.yaml:1: devices: ", COUNT, "'four'"]),
    ('devices: "4"', ["c.yaml:1: devices: ", COUNT, "'4'"]),
    ("devices: true", ["c.yaml:1: devices: ", COUNT]),
    ("devices: [4]", ["c.yaml:1: devices: ", COUNT, "[4]"]),
    ("devices: {a: 4}", ["c.yaml:1: devices: ", COUNT]),
    ("devices: 0x4", ["c.yaml:1: devices: ", COUNT, "'0x4'"]),
    ("devices: .nan", ["c.yaml:1: ", ".nan", "no finite number"]),
    ("devices: -.inf", ["c.yaml:1: ", "-.inf", "no finite number"]),
    ("devices: 1e999", ["c.yaml:1: devices: ", COUNT, "is too large: at most 1e12"]),
    ("devices: 4\nmicrobatches: 1234567890", ["c.yaml:2: microbatches: ", "operations; at most 10,000,000"]),
    ("devices: 4\nmicrobatches: 0", ["c.yaml:2: microbatches: ", COUNT, "not 0"]),
    ("devices: 4\nstages: 3", ["c.yaml:2: stages: ", "at least the number of devices (4)", "not 3"]),
    ("devices: 4\ncosts:\n  forward: -5", ["c.yaml:3: costs.forward: ", "at least 0", "not -5"]),
    ("devices: 4\ncosts:\n  forward: '5'", ["c.yaml:3: costs.forward: ", "must be a number", "'5'"]),
    ("devices: 4\ncosts:\n  forward: true", ["c.yaml:3: costs.forward: ", "must be a number"]),
    ("devices: 4\ncosts:\n  forward: {a: 1}", ["c.yaml:3: costs.forward: ", "must be a number"]),
    ("devices: 4\ncosts: {forward: .inf}", ["c.yaml:2: ", ".inf", "no finite number"]),
    ("devices: 4\ncosts: {forward: 1e999}", ["c.yaml:2: costs.forward: ", "1E+999 is too large: at most 1e12"]),
    ("devices: 4\ncosts: {forward: 1000000000001}", [": costs.forward: ", "1e+12 is too large: at most 1e12"]),
    ("devices: 4\ncosts: {forward: 1e-10}", [": costs.forward: ", "1E-10 is too small: at least 1e-9, or 0"]),
    ("devices: 4\ncosts: {p2p: 1e-5000}", ["c.yaml:2: ", "1e-5000 is too small: at least 1e-9, or 0"]),
    ("devices: 4\ncosts: {forward: 0.12345678951e-20}", ["1.2345679e-21 is too small"]),
    ("devices: 4\ncosts: {forward: [1, 2]}", ["c.yaml:2: costs.forward: ", "needs 4 numbers (one a stage)", "has 2"]),
    ("devices: 4\ncosts: {forward: []}", ["c.yaml:2: costs.forward: ", "needs 4 numbers", "has 0"]),
    ("devices: 4\ncosts: {forward: [1, 1, -3, 1]}", [": costs.forward[2]: ", "at least 0", "not -3"]),
    ("devices: 4\ncosts: {forward: [1, [2, x], 1, 1]}", [": costs.forward[1][1]: ", "must be a number"]),
    ("devices: 4\ncosts: {forward: [1, ~, 1, 1]}", [": costs.forward[1]: ", "must be a number"]),
    ("devices: 4\ncosts: {p2p: [1, 2, 3, 4]}", [": costs.p2p: ", "needs 3 numbers (one a boundary", "has 4"]),
    ("devices: 4\ncosts: {overlap: [1]}", [": costs.overlap: ", "needs 4 numbers", "has 1"]),
    ("devices: 4\ncosts: {recompute: -1}", [": costs.recompute: ", "at least 0"]),
    ("devices: 4\ncosts: {offload: -1}", [": costs.offload: ", "at least 0"]),
    ("devices: 4\ncosts: {reload: x}", [": costs.reload: ", "must be a number", "'x'"]),
    (
        "devices: 4\ncosts: {backward: 3, backward_input: 1}",
        ["c.yaml:2: costs.backward_input: ", "half of the backward", "`backward_weight` is needed too"],
    ),
    ("devices: 4\nmemory: {activation: -1}", [": memory.activation: ", "at least 0", "not -1"]),
    ("devices: 4\nmemory: {checkpoint: 1.5}", [": memory.checkpoint: ", "between 0 and 1", "not 1.5"]),
    ("devices: 4\nmemory: {retain: -1.5}", [": memory.retain: ", "at least 0", "not -1.5"]),
    ("devices: 4\nmemory: {checkpoint: -0.1}", [": memory.checkpoint: ", "between 0 and 1", "not -0.1"]),
    ("devices: 4\nmemory: {checkpoint: [0, 1, 2, 0]}", [": memory.checkpoint[2]: ", "between 0 and 1", "not 2"]),
    ("devices: 4\nmemory: {static: [1]}", [": memory.static: ", "needs 4 numbers (one a stage)", "has 1"]),
    ("devices: 4\nmemory: {budget: 0}", [": memory.budget: ", "more than 0", "not 0"]),
    ("devices: 4\nmemory: {budget: -1}", [": memory.budget: ", "not -1"]),
    ("devices: 4\nmemory: {budget: [4, 0, 4, 4]}", [": memory.budget", "more than 0"]),
    ("devices: 4\nstages: 8\nmemory: {budget: [4]}", [": memory.budget: ", "needs 4 numbers (one a device)", "has 1"]),
    ("devices: 4\nmemory: {unit: 5}", ["c.yaml:2: memory.unit: ", "one line of text", "not 5"]),
    ("devices: 4\nname: 5", ["c.yaml:2: name: ", "one line of text", "not 5"]),
    ('devices: 4\nname: "a\\nb"', ["c.yaml:2: name: ", "one line of text"]),
    ('devices: 4\nname: "\\e[2J"', ["c.yaml:2: name: ", "one line of text"]),
    ("devices: 4\ntime_unit: [ms]", ["c.yaml:2: time_unit: ", "one line of text", "['ms']"]),
    ("devices: 4\nlanes: pairs", ["c.yaml:2: lanes: ", "did you mean 'pair'", "'pairs'"]),
    ("devices: 4\nplacement: looop", [": placement: ", "'looop'", "did you mean 'loop'?", "linear", "bidirectional"]),
    ("devices: 4\nplacement: 5", [": placement: ", "name or a list of devices", "not 5"]),
    ("devices: 4\nplacement: true", [": placement: ", "name or a list of devices"]),
    ("devices: 4\nplacement: [0, 1]", [": placement: ", "each of the 4 stages", "has 2"]),
    ("devices: 4\nplacement: [0, 1, 2, 4]", [": placement: ", "device 4", "0 to 3"]),
    ("devices: 4\nplacement: [0, 1, 2, -1]", [": placement: ", "device -1", "0 to 3"]),
    ("devices: 4\nplacement: [0, 1, 2, 2]", [": placement: ", "device 3 is left without a stage"]),
    ("devices: 4\nplacement: [0, 1, 2, '3']", [": placement: ", "device numbers", "'3'"]),
    ("devices: 4\nplacement: [0, 1, 2, 2.5]", [": placement: ", "device numbers", "2.5"]),
    ("devices: 4\nplacement: v", [": placement: ", "placement v needs 8 stages", "not 4"]),
    ("devices: 4\nstages: 6\nplacement: wave", [": placement: ", "multiple of 8 stages", "not 6"]),
    ("devices: 4\nstages: 10\nplacement: bidirectional", [": placement: ", "multiple of 8 (2P)", "8 or 16, not 10"]),
    ("devices: 2\nplacement: [[0, 1], [0, 1]]", [": placement: ", "the second list must mirror the first, as [1, 0]"]),
    ("stages: 4", ["c.yaml", "`devices` is missing"]),
    ("devices: ~", ["c.yaml", "`devices` is missing"]),
]


@pytest.mark.parametrize(("text", "fragments"), BAD)
def test_bad_value(load: Load, text: str, fragments: list[str]) -> None:
    """A bad value is told by file, line, key, what was found and what is allowed, on one line."""
    with pytest.raises(ConfigError) as error:
        load(text)
    message = str(error.value)
    assert message.startswith("c.yaml")
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("half", ["backward_input", "backward_weight"])
def test_missing_half_of_the_backward(load: Load, half: str) -> None:
    """One half of the backward without the other is refused, and the message says where and which is missing."""
    other = {"backward_input": "backward_weight", "backward_weight": "backward_input"}[half]
    with pytest.raises(ConfigError) as error:
        load(f"devices: 4\ncosts:\n  {half}: 1")
    assert str(error.value).startswith(f"c.yaml:3: costs.{half}: half of the backward; `{other}` is needed too")


def test_reload_without_offload(load: Load) -> None:
    """What never leaves does not come back: the message says where, and what is missing."""
    with pytest.raises(ConfigError, match=r"^c\.yaml:3: costs\.reload: .*`offload` is needed too"):
        load("devices: 4\ncosts:\n  reload: 1")


UNKNOWN = [  # the config, the key as the message names it, what it suggests
    ("device: 4", "'device'", "did you mean 'devices'?"),
    ("devices: 4\nmicrobatch: 3", "'microbatch'", "did you mean 'microbatches'?"),
    ("devices: 4\ncosts: {foward: 3}", "'costs.foward'", "did you mean 'forward'?"),
    ("devices: 4\nmemory: {bugdet: 3}", "'memory.bugdet'", "did you mean 'budget'?"),
    ("devices: 4\nforward: 3", "'forward'", "did you mean 'costs.forward'?"),
    ("devices: 4\nbudget: 3", "'budget'", "did you mean 'memory.budget'?"),
    ("devices: 4\ncosts: {budget: 3}", "'costs.budget'", "did you mean 'memory.budget'?"),
    ("devices: 4\nmemory: {devices: 3}", "'memory.devices'", "did you mean 'devices'?"),
    ("devices: 4\nxyzzy: 3", "'xyzzy'", "name, devices, stages, chunks, microbatches, sizes"),
    ("devices: 4\nwork: [1, 2]", "'work'", "did you mean 'sizes.work'?"),
    ("devices: 4\nattention: 0.5", "'attention'", "did you mean 'slices.attention'?"),
    ("devices: 4\nkv: 0.5", "'kv'", "did you mean 'memory.kv'?"),
    ("devices: 4\ncosts: {xyzzy: 3}", "'costs.xyzzy'", "forward, backward, backward_input"),
    ("devices: 4\n<<: {stages: 4}", "'<<'", "known here are name, devices"),
    ("devices: 4\nnull: 4", "'null'", "known here are name, devices"),
]


@pytest.mark.parametrize(("text", "key", "hint"), UNKNOWN)
def test_unknown_key(load: Load, text: str, key: str, hint: str) -> None:
    """An unknown key is an error with its line and the nearest key, also when it stands in the wrong section."""
    with pytest.raises(ConfigError) as error:
        load(text)
    line = len(text.splitlines())
    assert f"c.yaml:{line}: unknown key {key}" in str(error.value)
    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("5", "a config"),
        ("- 1\n- 2", "a config"),
        ("devices: 4\ncosts: 5", "costs:"),
        ("devices: 4\nmemory: [1]", "memory:"),
    ],
)
def test_section_without_keys(load: Load, text: str, what: str) -> None:
    """A file or a section that holds something else than keys says what it must hold."""
    with pytest.raises(ConfigError, match=rf"^c\.yaml:\d: {what} must hold `key: value` lines"):
        load(text)


@pytest.mark.parametrize(("microbatches", "fits"), [(1_250_000, True), (1_250_001, False)])
def test_limit_on_operations(load: Load, microbatches: int, fits: bool) -> None:
    """Ten million operations are the most, and a config beyond that is told how many it has."""
    text = f"devices: 4\nmicrobatches: {microbatches}"
    if fits:
        assert load(text).microbatches == microbatches
        return
    with pytest.raises(ConfigError, match=r"^c\.yaml:2: microbatches: .*10,000,008 operations; at most 10,000,000"):
        load(text)


@pytest.mark.parametrize("number", ["1e99999999999999999999", "-1e99999999999999999999", "1e-99999999999999999999"])
@pytest.mark.parametrize("key", ["devices", "costs.forward", "memory.budget"])
def test_exponent_beyond_decimals(load: Load, key: str, number: str) -> None:
    """An exponent that no decimal type holds is a bad value like any other."""
    with pytest.raises(ConfigError, match=r"^c\.yaml:"):
        load(config_with(key, number))


@pytest.mark.parametrize("zeros", [9, 20, 27, 28, 40, 400])
def test_digits_far_behind_the_point_are_rounded(load: Load, zeros: int) -> None:
    """A last digit behind more than 8 zeros does not count, and where zeros stand before all digits it does."""
    assert load(f"devices: 2\ncosts: {{forward: 1.{'0' * zeros}1}}").costs.forward == (1, 1)
    assert load("devices: 2\ncosts: {forward: 0.00000012345678}").costs.forward == (1.2345678e-07,) * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("layer: {forward: 3,5}", "c.yaml:2: layer.forward: must be a number, not '3,5' (a decimal has a point"),
        ("costs: {p2p: 0,5ms}", "c.yaml:2: costs.p2p: must be a number, not '0,5ms' (a decimal has a point"),
        ("costs:\n  forward: 3,5", "c.yaml:3: costs.forward: must be a number, not '3,5' (a decimal has a point"),
        ("slices: {count: 2, overhead: '1/3'}", "c.yaml:2: slices.overhead: must be a number, not '1/3'"),
    ],
)
def test_decimal_comma_and_fraction(text: str, said: str) -> None:
    """A decimal comma is told as one, in braces and outside; a fraction in quotes is no number of a file."""
    with pytest.raises(ConfigError) as error:
        load_config(Source(f"devices: 2\n{text}", "c.yaml"), {})
    assert str(error.value).startswith(said)


def test_a_start_beyond_all_limits() -> None:
    """A start of a block that is too large is refused where it stands, not with a traceback."""
    text = "devices: 1\nalgorithm: {block: {period: 3, forward: [1e400], backward: [2]}}"
    config = load_config(Source(text, "c.yaml"), {})
    asked = config.algorithm
    assert asked is not None
    with pytest.raises(ConfigError, match=r"^c\.yaml:2: algorithm\.block\.forward.*too large"), asked.located():
        pipesched.run(config.problem, asked.name, **asked.options)
