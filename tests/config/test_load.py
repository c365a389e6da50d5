"""Loading a config: files, sections, errors with file and line, random and mutated texts."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from pipesched import ConfigError, Op, Placement, Plan, Problem, make_problem
from pipesched.config.load import ImportedProblem, imported_problem, load_config, timed_by
from pipesched.config.values import Source
from pipesched.documents.problem import problem_document
from pipesched.pipeline.plan.plan import plan_from_slots
from pipesched.pipeline.problem.declared import BY_KEY, BY_NAME
from pipesched.pipeline.problem.quantities import Exact, canonical, to_fraction
from pipesched.text.yaml_reader import decode, parse_yaml

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
    ("stages", "6", 6),
    ("microbatches", "1_000", 1000),
    ("sizes", "{work: [1, 2.5], message: [3, 1]}", ((1, 2.5), (1, 1), (3, 1))),
    ("slices", "{count: 2, tokens: [0.25, 0.75]}", (2, (Fraction(1, 4), Fraction(3, 4)))),
    ("slices", "auto", (1, (1,))),
    ("mode", "forward", "forward"),
    ("rounds", "3", (3, 18)),
    ("placement", "auto", None),
    ("placement", "loop", (0, 1, 2)),
    ("placement", "[2, 1, 0]", (2, 1, 0)),
    ("time_unit", "ms", "ms"),
    ("lanes", "device", "device"),
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
    ("layout", "[1, 3, 2]", (1, 3, 2)),
    ("costs.forward", "2", [2, 2, 2]),
    ("costs.forward", "[1, 0, 2.5]", [1, 0, Fraction(5, 2)]),
    ("costs.backward", ".3", [3 * TENTH] * 3),
    ("costs.backward_input", "[1, 2, 3]", [1, 2, 3]),
    ("costs.backward_weight", "[3, 2, 1]", [3, 2, 1]),
    ("costs.recompute", "0.1", [TENTH] * 3),
    ("costs.overlap", "[1, 2, 3]", [1, 2, 3]),
    ("costs.p2p", "[0.1, 7]", [TENTH, 7]),
    ("costs.p2p", "0.000000001", [Fraction(1, 10**9)] * 2),
    ("costs.offload", "4", [4, 4, 4]),
    ("costs.reload", "[1, 2, 3]", [1, 2, 3]),
    ("memory.unit", "GB", "GB"),
    ("memory.activation", "[0.1, 0.2, 0]", [TENTH, 2 * TENTH, 0]),
    ("memory.retain", "[0, 0.1, 1]", [0, TENTH, 1]),
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
    ("devices: 3", "placement", None),
    ("devices: 3", "lanes", "device"),
    ("devices: 3", "costs.forward", [1, 1, 1]),
    ("devices: 2\ncosts: {forward: [1, 2.5]}", "costs.backward", [2, 5]),
    ("devices: 2\ncosts: {forward: [1, 2.5]}", "costs.backward_input", [1, Fraction(5, 2)]),
    ("devices: 2\ncosts: {backward: [3, 5]}", "costs.backward_input", [Fraction(3, 2), Fraction(5, 2)]),
    ("devices: 2\ncosts: {backward_input: 1, backward_weight: [2, 3]}", "costs.backward", [3, 4]),
    ("devices: 2\ncosts: {forward: [1, 2]}", "costs.recompute", [1, 2]),
    ("devices: 2", "costs.overlap", None),
    ("devices: 4", "costs.p2p", [0, 0, 0]),
    ("devices: 2", "costs.offload", None),
    ("devices: 2\ncosts: {offload: [3, 4]}", "costs.reload", [3, 4]),
    ("devices: 3", "memory.unit", "microbatch"),
    ("devices: 3", "memory.activation", [1, 1, 1]),
    ("devices: 2\nstages: 6", "memory.activation", [Fraction(1, 3)] * 6),
    ("devices: 2", "memory.retain", [1, 1]),
    ("devices: 2", "memory.checkpoint", [0, 0]),
    ("devices: 2", "memory.static", [0, 0]),
    ("devices: 2", "memory.budget", None),
    ("devices: 2", "costs.gather", None),
    ("devices: 2", "memory.states", [0, 0]),
    ("devices: 2", "shard", None),
    ("devices: 2\ncosts: {reduce: 1}", "shard", ("none", 1, 3, "last")),
    ("devices: 2\ncosts: {gather: 1}", "shard", ("optimizer", 1, 3, "last")),
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


def test_limit_on_operations(load: Load) -> None:
    """Ten million operations are the most."""
    assert load("devices: 4\nmicrobatches: 1250000").microbatches == 1_250_000


@pytest.mark.parametrize("zeros", [9, 20, 27, 28, 40, 400])
def test_digits_far_behind_the_point_are_rounded(load: Load, zeros: int) -> None:
    """A last digit behind more than 8 zeros does not count, and where zeros stand before all digits it does."""
    assert load(f"devices: 2\ncosts: {{forward: 1.{'0' * zeros}1}}").costs.forward == (1, 1)
    assert load("devices: 2\ncosts: {forward: 0.00000012345678}").costs.forward == (1.2345678e-07,) * 2


KEPT = Path(__file__).parents[1] / "golden" / "config_mutations.json.gz"  # made by random changes of twelve configs
CASES: list[dict[str, Any]] = json.loads(gzip.decompress(KEPT.read_bytes()))
PART = 100


def outcome(case: dict[str, Any]) -> str:
    """The digest of a problem with its algorithm and notes, or the key, the entry and the text of a refusal."""
    source = None if case["text"] is None else Source(case["text"], "c.yaml")
    try:
        found = load_config(source, case["overrides"])
    except ConfigError as error:
        return f"{error.key}|{error.entry}|{error}"
    said = json.dumps(problem_document(found.problem), sort_keys=True)
    return hashlib.sha256(f"{said}{found.algorithm}{found.notes}{found.rounded}".encode()).hexdigest()[:16]


@pytest.mark.parametrize("first", range(0, len(CASES), PART))
def test_changed_configs(first: int) -> None:
    """What is kept was written by the build before keys had declarations, but for the texts that changed since."""
    part = CASES[first : first + PART]
    found = [outcome(case) for case in part]
    if os.environ.get("PIPESCHED_GOLDEN") == "write":
        for case, one in zip(part, found, strict=True):
            case["outcome"] = one
        KEPT.write_bytes(gzip.compress(json.dumps(CASES).encode(), mtime=0))
    assert found == [case["outcome"] for case in part]


PIECES = [
    *(key.rpartition(".")[2] for key in BY_KEY),
    *(
        "costs",
        "memory",
        ": ",
        ":",
        "\n",
        "\n  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        '"',
        "'",
        "&a ",
        "*a",
        "!!int ",
        "! ",
    ),
    *("|\n  ", ">-\n ", "#", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "...\n", "4", "0.5", "-1", "1e5", ".nan", ".inf"),
    *("~", "true", "\t", "? ", "<<", "\\U", "\\x4", "\\uD800", "FFFFFFFF", "\u2028", "\x85", "\ufeff", "\x07", "@"),
    *("1e999999999999999999999", "9" * 30, "_", "linear", "loop", "[0, 1]"),
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@given(texts)
@example('"\\UFFFFFFFF"')
@example("1e999999999999999999999")
def test_random_yaml(text: str) -> None:
    """Reading random YAML gives data or a ConfigError."""
    with suppress(ConfigError):
        assert parse_yaml(text, "x").line >= 1


@given(texts.map(str.encode) | st.binary(max_size=30))
@example(b"devices: 1\ncosts: {forward: 1e999999999999999999999}")
def test_random_config(content: bytes) -> None:
    """Loading random bytes gives a problem or a ConfigError."""
    with suppress(ConfigError):
        assert isinstance(load_config(Source(decode(content, "x"), "x"), {}).problem, Problem)


sane = st.sampled_from(
    ["0", "1", "2", "4", "8", "0.5", "1/3", "1,2,3,4", "1,1", "-1", "x", "", "auto", "loop", "1e3", "0.1,,"]
)
numbers = st.integers() | st.floats() | st.decimals() | st.fractions() | st.booleans() | st.none() | sane
names = st.sampled_from(sorted(BY_NAME)) | st.text(max_size=8)
anything = numbers | st.text(max_size=8) | st.lists(numbers, max_size=8) | st.dictionaries(sane, numbers, max_size=2)


@given(st.dictionaries(names, anything, max_size=4))
@example({"devices": Decimal("9e999999")})
@example({"forward": "1e999999999999999999999"})
def test_random_overrides(overrides: dict[str, Any]) -> None:
    """Random values of parameters give a problem or a ConfigError."""
    with suppress(ConfigError):
        assert isinstance(load_config(None, overrides).problem, Problem)


@given(st.binary(max_size=200))
def test_random_bytes_are_text_or_refused(data: bytes) -> None:
    """Bytes are UTF-8 text without NULs, or a ConfigError."""
    with suppress(ConfigError):
        assert "\0" not in decode(data, "x")


HOME = Placement((0, 1))


def plan(microbatches: int = 1) -> Plan:
    """Two stages on two devices, each forward only: what matters here is how many."""
    rows = [[Op(stage, "F", microbatch) for microbatch in range(microbatches)] for stage in range(2)]
    return plan_from_slots(rows, 2, microbatches)


def imported(**overrides: Any) -> ImportedProblem:
    """The problem of that plan under the built-in costs and some overrides."""
    return imported_problem(plan(), HOME, None, overrides, "x.csv")


def test_built_in_costs() -> None:
    """Without a config: the built-in costs, and every size from the file."""
    problem, given = imported()
    assert (problem.devices, problem.stages, problem.microbatches, problem.placement) == (2, 2, 1, HOME)
    assert (problem.ticks.mean["forward"], problem.ticks.mean["backward"]) == ((5, 5), (10, 10))
    assert (given.placement, given.costs) == (None, problem.costs)


def test_groups_of_stages() -> None:
    """Six stages in the config are groups of three in the file."""
    problem, given = imported(stages=6, forward=[1, 2, 3, 4, 5, 6], placement="linear")
    assert (given.stages, problem.stages, problem.ticks.mean["forward"]) == (6, 2, (6, 15))
    assert problem.placement == HOME


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"devices": 4}, "4 devices, but x.csv has 2"),
        ({"stages": 3}, "3 stages, but x.csv has 2"),
        ({"microbatches": 2}, "2 microbatches, but x.csv has 1"),
    ],
)
def test_sizes_that_the_file_does_not_have(sizes: dict[str, int], said: str) -> None:
    """An override that contradicts the file names itself, and both sizes; a config says where it stands."""
    (name,) = sizes
    with pytest.raises(ConfigError) as refusal:
        imported(**sizes)
    assert str(refusal.value) == f"{name}: {said}"
    config = "".join(f"{key}: {value}\n" for key, value in {"devices": 2, "microbatches": 1, **sizes}.items())
    with pytest.raises(ConfigError, match=rf"^<text>:\d: {name}: {said}$"):
        imported_problem(plan(), HOME, config, {}, "x.csv")


def test_the_costs_of_a_problem() -> None:
    """The same with the costs of a problem: of one that groups stages too, while sizes and placement must agree."""
    problem = make_problem(devices=2, stages=4, microbatches=1, forward=[1, 2, 3, 4], placement=[0, 0, 1, 1])
    fitted, given = timed_by(plan(), HOME, problem, "x.csv")
    assert (given, fitted.stages, fitted.ticks.mean["forward"], fitted.placement) == (problem, 2, (3, 7), HOME)
    with pytest.raises(ConfigError, match=r"^problem: 2 microbatches, but x\.csv has 1$"):
        timed_by(plan(), HOME, make_problem(devices=2, microbatches=2), "x.csv")
    with pytest.raises(ConfigError, match=r"^placement: x\.csv has its stages on devices \[0, 1\], not \[1, 0\]$"):
        timed_by(plan(), HOME, make_problem(devices=2, microbatches=1, placement=[1, 0]), "x.csv")
