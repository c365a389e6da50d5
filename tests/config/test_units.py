"""Configs of microbatches that differ: what files, overrides and both together mean, and what a bad value is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipesched.config.load import load as load_problem, load_config
from pipesched.errors import ConfigError
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.problem import Problem

Load = Callable[..., Problem]

SIZES = "devices: 2\nsizes:\n  work: [1, 2, 3]\n  activation: [3, 2, 1]\n"
SLICES = "devices: 2\nslices:\n  count: 4\n  attention: 0.5\n  overhead: 1\n"
OPEN = "devices: 2\nslices: {count: auto, most: 8, tokens: work, attention: 0.5}\n"


@pytest.mark.parametrize(
    ("text", "overrides", "meant"),
    [  # a file, what is laid over it, the same for make_problem
        (SIZES, {}, {"sizes": {"work": [1, 2, 3], "activation": [3, 2, 1]}}),
        (SIZES, {"sizes": {"work": [4, 5, 6]}}, {"sizes": {"work": [4, 5, 6], "activation": [3, 2, 1]}}),
        (SIZES, {"sizes": {"work": None}}, {"sizes": {"activation": [3, 2, 1]}}),
        (SIZES, {"sizes": None}, {}),
        (SIZES, {"microbatches": 3}, {"sizes": {"work": [1, 2, 3], "activation": [3, 2, 1]}}),
        (SLICES, {}, {"slices": {"count": 4, "attention": 0.5, "overhead": 1}}),
        (SLICES, {"slices": 2}, {"slices": {"count": 2, "attention": 0.5, "overhead": 1}}),
        (SLICES, {"slices": {"overhead": 0}}, {"slices": {"count": 4, "attention": 0.5}}),
        (SLICES, {"slices": {"count": 2, "work": [0.5, 0.5]}},
         {"slices": {"count": 2, "work": [0.5, 0.5], "overhead": 1}}),
        (SLICES, {"slices": None}, {}),
        (OPEN, {"slices": 2}, {"slices": {"count": 2, "tokens": "work", "attention": 0.5}}),
        (OPEN, {"slices": "auto"}, {"slices": {"count": "auto", "most": 8, "tokens": "work", "attention": 0.5}}),
        ("devices: 2\nslices: 4", {"slices": {"overhead": 1}}, {"slices": {"count": 4, "overhead": 1}}),
        ("devices: 2\nslices: 4", {"slices": 3}, {"slices": 3}),
        ("devices: 2\nmode: forward", {"mode": "train"}, {}),
        ("devices: 2\nmode: forward\nrounds: 2", {"rounds": 3}, {"mode": "forward", "rounds": 3}),
        ("devices: 2\nmode: forward\nslices: 2\ncosts: {backward: 3, recompute: 1, overlap: 3, offload: 2}", {},
         {"mode": "forward", "slices": 2}),
        ("devices: 2\nmemory: {kv: 0.5}", {"kv": 0.25}, {"kv": 0.25}),
        ("devices: 2\nsizes:", {}, {}),
        ("devices: 2\ncosts: {forward: [[1, 2, 3], 4]}", {}, {"forward": [[1, 2, 3], 4]}),
        ("devices: 2\ncosts: {forward: [[1, 2, 3], 4]}", {"forward": 2}, {"forward": 2}),
        ("devices: 2\ntime_unit: ms\ncosts: {p2p: [[1, 250us, 3]]}", {}, {"p2p": [[1, 0.25, 3]], "time_unit": "ms"}),
    ],
)  # fmt: skip
def test_meaning(load: Load, text: str, overrides: dict[str, Any], meant: dict[str, Any]) -> None:
    """Factors and how slices are cut go entry by entry on top of a file; a number of slices replaces their number."""
    assert load(text, **overrides) == make_problem(devices=2, **meant)


@pytest.mark.parametrize("overrides", [{"sizes": {"work": [1, 2, 3]}}, {"forward": [[1, 2, 3], *[4] * 7]}])
def test_lists_replace_the_microbatches_of_the_built_in_default(overrides: dict[str, Any]) -> None:
    """Without a config there are as many microbatches as the lists have."""
    assert load_problem(None, **overrides).microbatches == 3


BAD = [  # a config of two devices, what the message says
    ("sizes:\n  work: [1, 2, 3]\n  activation: [1, 2]",
     "4: sizes.activation: lists 2 numbers, one a microbatch; sizes.work lists 3"),
    ("microbatches: 4\nsizes: {work: [1, 2, 3]}",
     "3: sizes.work: lists 3 numbers, one a microbatch; microbatches is 4: leave that out, or give lists of 4"),
    ("sizes: {work: [1, 2, -3]}", "2: sizes.work[2]: must be at least 0, not -3"),
    ("sizes: {work: [1, 2, '3']}", "2: sizes.work[2]: must be a number, not '3'"),
    ("sizes: {work: [1, 2, .nan]}", "2: sizes.work: .nan is no finite number"),
    ("sizes: {work: 3}", "2: sizes.work: must list 4 numbers (one a microbatch), not 3"),
    ("sizes: {work: []}", "2: sizes.work: must list one a microbatch"),
    ("sizes: 3", "2: sizes: must be a mapping of work, activation, message, not 3"),
    ("sizes:\n  wrok: [1]", "3: sizes.wrok: unknown key 'wrok'; did you mean 'work'? known are work, activation,"),
    ("costs: {forward: [[1, 2, 3], [1, 2]]}",
     "2: costs.forward[1]: lists 2 numbers, one a microbatch; forward lists 3"),
    ("costs:\n  forward:\n    - [1, 2]\n    - [1, x]", "5: costs.forward[1][1]: must be a number, not 'x'"),
    ("costs: {forward: [[1, 2]]}", "2: costs.forward: a list here needs 2 entries (one a stage); this one has 1"),
    ("costs: {p2p: [[1, -2]]}", "2: costs.p2p[0][1]: must be at least 0, not -2"),
    ("costs: {overlap: [[1, 2], [1, 2]]}", "2: costs.overlap[0]: must be a number, not [1, 2]"),
    ("memory: {retain: [[1, 2], [1, 2]]}", "2: memory.retain[0]: must be a number, not [1, 2]"),
    ("costs: {overlap: 3}\nsizes: {work: [1, 2]}",
     "2: costs.overlap: is one time for all pairs of a stage; with `sizes.work` by microbatch, leave it out: a pair"
     " then lasts the sum of its parts"),
    ("costs: {overlap: 3, backward: [[1, 2], 3]}", "2: costs.overlap: is one time for all pairs of a stage"),
    ("slices: 0", "2: slices: must be a whole number from 1 to 1024, or auto, not 0"),
    ("slices: 1025", "2: slices: must be a whole number from 1 to 1024, or auto, not 1025"),
    ("slices: 2.5", "2: slices: must be a whole number from 1 to 1024, or auto, not 2.5"),
    ("slices: '4'", "2: slices: must be a whole number from 1 to 1024, or auto, not '4'"),
    ("slices: [2]", "2: slices: must be a whole number from 1 to 1024, or auto, not [2]"),
    ("slices: true", "2: slices: must be a whole number from 1 to 1024, or auto, not true"),
    ("slices:\n  count: many", "3: slices.count: must be a whole number from 1 to 1024, or auto, not 'many'"),
    ("slices:\n  cuont: 4", "3: slices.cuont: unknown key 'cuont'; did you mean 'count'? known are count, tokens,"),
    ("slices: {count: 3, tokens: [0.5, 0.5]}", "2: slices.tokens: needs 3 parts, one a slice; this has 2"),
    ("slices: {count: 2, tokens: [0.5, 0.4]}", "2: slices.tokens: must have the sum 1, not 0.9"),
    ("slices: {count: 2, tokens: [0.500000002, 0.5]}", "2: slices.tokens: must have the sum 1, not 1"),
    ("slices: {count: 2, tokens: [1, 0]}", "2: slices.tokens[1]: must be more than 0 and at most 1, not 0"),
    ("slices: {count: 2, tokens: ['0.5', 0.5]}", "2: slices.tokens[0]: must be a number, not '0.5'"),
    ("slices: {count: 2, tokens: wrok}", "2: slices.tokens: unknown rule 'wrok'; did you mean 'work'?"),
    ("slices: {count: 2, attention: 1.5}", "2: slices.attention: must be between 0 and 1, not 1.5"),
    ("slices: {count: 2, attention: 0, work: [0.5, 0.5]}", "2: slices.attention: is a rule for the parts of the work"),
    ("slices: {count: 2, tokens: work, work: [0.5, 0.5]}",
     "2: slices.tokens: must be equal or listed where the parts of the work are given, not work"),
    ("slices: {count: 2, work: 0.5}", "2: slices.work: must list 2 parts of sum 1, not 0.5"),
    ("slices: {count: 2, work: [0.5, 0.4]}", "2: slices.work: must have the sum 1, not 0.9"),
    ("slices: {count: 2, work: [[0.5, 0.5]]}", "2: slices.work: has lists for 1 stages; there are 2"),
    ("slices: {count: 2, work: [[0.5, 0.5], [0.5, 0.4]]}", "2: slices.work[1]: must have the sum 1, not 0.9"),
    ("slices: {count: 2, work: {forward: [0.5, 0.5]}}", "2: slices.work.backward_input: is missing"),
    ("slices: {count: 2, work: {backward: [0.5, 0.5]}}", "2: slices.work.backward: unknown key 'backward'; did you"),
    ("slices: {count: 2, overhead: -1}", "2: slices.overhead: must be at least 0, not -1"),
    ("slices: {count: 2, overhead: 1us}", "2: slices.overhead: '1us' is in us, but no `time_unit` is given"),
    ("slices: {count: 2, most: 4}", "2: slices.most: goes with `count: auto`, not with 2"),
    ("slices: {count: auto, most: 0}", "2: slices.most: must be a whole number from 1 to 1024, not 0"),
    ("slices: {count: auto, tokens: [0.5, 0.5]}", "2: slices.tokens: lists parts, and how many there are is to be fou"),
    ("slices: {count: auto, work: [0.5, 0.5]}", "2: slices.work: lists parts, and how many there are is to be found"),
    ("slices: 2\ncosts: {recompute: 1}", "3: costs.recompute: goes with whole microbatches, not with `slices`"),
    ("slices: auto\ncosts: {offload: 1}", "3: costs.offload: goes with whole microbatches, not with `slices`"),
    ("slices: 2\ncosts: {overlap: 1}", "3: costs.overlap: goes with whole microbatches, not with `slices`"),
    ("slices: 2\nlayers: 4\nlayer:\n  overlap: 1", "5: layer.overlap: goes with whole microbatches, not with `slices`"),
    ("layers: 4\nlayer:\n  forward: [[1, 2], [1, 2], 1, 1]", "4: layer.forward[0]: must be a number, not [1, 2]"),
    ("slices: 1000\nstages: 64\nmicrobatches: 1000",
     "4: microbatches: 64 stages x 1,000 microbatches x 1,000 slices are 128,000,000 operations; at most 10,000,000"),
    ("mode: forwards", "2: mode: unknown mode 'forwards'; did you mean 'forward'? known are train, forward"),
    ("mode: 3", "2: mode: must be a name, one of train, forward, not 3"),
    ("memory: {kv: 1.5}", "2: memory.kv: must be between 0 and 1, not 1.5"),
    ("memory: {kv: [0.5, 0.5]}", "2: memory.kv: must be a number, not [0.5, 0.5]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BAD, ids=[text for text, _ in BAD])
def test_bad_value(load: Load, text: str, said: str) -> None:
    """What is wrong is told by file, line and key, with the entry at fault, on one line."""
    with pytest.raises(ConfigError) as error:
        load(f"devices: 2\n{text}\n")
    assert str(error.value).startswith(f"c.yaml:{said}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [  # what stands in the file is told by its line, what lies over it by the parameter
        (SIZES, {"sizes": {"work": [1, -2, 3]}}, "sizes.work[1]: must be at least 0, not -2"),
        (SIZES, {"sizes": {"work": [1, 2]}}, "sizes.work: lists 2 numbers, one a microbatch; sizes.activation lists 3"),
        (SIZES, {"microbatches": 4}, "c.yaml:3: sizes.work: lists 3 numbers, one a microbatch; microbatches is 4:"),
        (SLICES.replace("0.5", "2"), {"slices": 2}, "c.yaml:4: slices.attention: must be between 0 and 1, not 2"),
        (SLICES, {"slices": 0}, "slices.count: must be a whole number from 1 to 1024, or auto, not 0"),
    ],
)  # fmt: skip
def test_bad_override(load: Load, text: str, overrides: dict[str, Any], said: str) -> None:
    """An entry of the file that does not go with an override is told with its place in the file."""
    with pytest.raises(ConfigError) as error:
        load(text, **overrides)
    assert str(error.value).startswith(said)


def test_digits_that_count(load: Load) -> None:
    """A share of sixteen digits is the third that it spells; a factor of ten digits is rounded, and that is noted."""
    thirds = ", ".join(["0.3333333333333333"] * 3)
    problem = load(f"devices: 2\nslices: {{count: 3, tokens: [{thirds}], work: [{thirds}]}}")
    assert problem.slices == make_problem(devices=2, slices=3).slices
    text = "devices: 2\nsizes: {work: [1, 1.2345678912]}\nslices: {count: 2, overhead: 0.12345678912}\n"
    config = load_config(text, {})
    assert config.problem.sizes is not None
    assert config.problem.sizes.work[1] == 1.23456789
    assert config.rounded == (
        "<text>:2: sizes.work[1]: more than 9 digits, rounded to 1.23456789; 1 more number is rounded"
    )
