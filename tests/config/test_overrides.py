"""Options on top of a config, and on top of the built-in default."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from pipesched.config.fields import OPTIONS
from pipesched.config.load import load_problem
from pipesched.errors import ConfigError
from pipesched.pipeline.problem import Problem, make_problem

Load = Callable[..., Problem]

FILE = """\
devices: 2
stages: 4
microbatches: 3
placement: loop
costs: {forward: 7, backward: 8, recompute: 9, overlap: 10, p2p: 11, offload: 12, reload: 13}
memory: {activation: 14, retain: 0.5, checkpoint: 0.6, static: 15, budget: 100}
"""
GIVEN = {
    "devices": 2,
    "stages": 4,
    "microbatches": 3,
    "placement": "loop",
    "forward": 7,
    "backward": 8,
    "recompute": 9,
    "overlap": 10,
    "p2p": 11,
    "offload": 12,
    "reload": 13,
    "activation": 14,
    "retain": Fraction(1, 2),
    "checkpoint": Fraction(3, 5),
    "static": 15,
    "budget": 100,
}
OVERRIDES = [  # an option, its text, the argument of make_problem it stands for
    ("--devices", "4", {"devices": 4}),
    ("--stages", "6", {"stages": 6}),
    ("--microbatches", "5", {"microbatches": 5}),
    ("--placement", "linear", {"placement": "linear"}),
    ("--placement", "auto", {"placement": "auto"}),
    ("--placement", "1,0,0,1", {"placement": [1, 0, 0, 1]}),
    ("--forward", "0.5", {"forward": Fraction(1, 2)}),
    ("--forward", "1,1,2,1", {"forward": [1, 1, 2, 1]}),
    ("--backward", "1,2, 3 ,4", {"backward": [1, 2, 3, 4]}),
    ("--recompute-cost", "1", {"recompute": 1}),
    ("--overlap", "0", {"overlap": 0}),
    ("--p2p", "1,0,1", {"p2p": [1, 0, 1]}),
    ("--offload-cost", "5", {"offload": 5}),
    ("--activation", "1,2,3,4", {"activation": [1, 2, 3, 4]}),
    ("--retain", "0,1,0,1", {"retain": [0, 1, 0, 1]}),
    ("--checkpoint", "1", {"checkpoint": 1}),
    ("--mem-budget", "3,4", {"budget": [3, 4]}),
]
HALVES = {"--backward-input", "--backward-weight"}


@pytest.mark.parametrize(("option", "text", "change"), OVERRIDES)
def test_option_replaces_the_value_of_the_file(load: Load, option: str, text: str, change: dict[str, object]) -> None:
    """An option replaces one value of the file, and leaves every other as it is."""
    assert load(FILE, {option: text}) == make_problem(**{**GIVEN, **change})


def test_every_option_is_tested() -> None:
    """The table above, and the tests of the two halves, have each option that overrides a value."""
    assert {option for option, _, _ in OVERRIDES} | HALVES == set(OPTIONS)


def test_halves_replace_the_backward(load: Load) -> None:
    """The two halves on the command line take the place of the file's backward."""
    problem = load(FILE, {"--backward-input": "1", "--backward-weight": "2,3,4,5"})
    expected = {**GIVEN, "backward": None, "backward_input": 1, "backward_weight": [2, 3, 4, 5]}
    assert problem == make_problem(**expected)


def test_backward_replaces_the_halves(load: Load) -> None:
    """A backward on the command line takes the place of the file's two halves."""
    text = "devices: 2\ncosts: {backward_input: 1, backward_weight: 2}"
    assert load(text, {"--backward": "7"}) == make_problem(devices=2, backward=7)


@pytest.mark.parametrize("option", sorted(HALVES))
def test_one_half_keeps_the_other(load: Load, option: str) -> None:
    """One half on the command line replaces that half of the file only."""
    text = "devices: 2\ncosts: {backward_input: 1, backward_weight: 2}"
    halves = {"backward_input": 1, "backward_weight": 2, option.strip("-").replace("-", "_"): 9}
    assert load(text, {option: "9"}) == make_problem(devices=2, **halves)


@pytest.mark.parametrize("option", sorted(HALVES))
def test_one_half_in_place_of_the_backward_needs_the_other(load: Load, option: str) -> None:
    """One half on top of a whole backward is refused, and the message names the half that is missing."""
    (other,) = HALVES - {option}
    with pytest.raises(ConfigError, match=f"costs.{other.strip('-').replace('-', '_')}.*needed"):
        load(FILE, {option: "9"})


def test_defaults_follow_the_options(load: Load) -> None:
    """What the file leaves open follows the overridden values: stages and microbatches the devices, B the forward."""
    problem = load("devices: 2", {"--devices": "3", "--forward": "5"})
    assert problem == make_problem(devices=3, stages=3, microbatches=6, forward=5, backward=10)


BUILT_IN = [  # options, the problem they give without a file
    ({}, {"devices": 4, "stages": 8, "microbatches": 8}),
    ({"--devices": "8"}, {"devices": 8, "stages": 16, "microbatches": 8}),
    ({"--stages": "4"}, {"devices": 4, "stages": 4, "microbatches": 8}),
    ({"--devices": "3", "--stages": "9"}, {"devices": 3, "stages": 9, "microbatches": 8}),
    ({"--microbatches": "2"}, {"devices": 4, "stages": 8, "microbatches": 2}),
    ({"--forward": "1"}, {"devices": 4, "stages": 8, "microbatches": 8, "forward": 1}),
    ({"--activation": "3"}, {"devices": 4, "stages": 8, "microbatches": 8, "activation": 3}),
]


@pytest.mark.parametrize(("options", "expected"), BUILT_IN)
def test_built_in_default(options: dict[str, str], expected: dict[str, object]) -> None:
    """Without a file: 4 devices, two stages each, M 8, F 5, B 10, no budget; stages and activation follow options."""
    assert load_problem(None, options) == make_problem(**{"forward": 5, "backward": 10, **expected})


def test_built_in_activation_follows_the_stages() -> None:
    """Without a file a stage's activation is P/S of the final devices and stages."""
    problem = load_problem(None, {"--devices": "3", "--stages": "9"})
    assert {Fraction(size, problem.memory.scale) for size in problem.memory.activation} == {Fraction(1, 3)}
    assert problem.memory.budget is None


BAD = [  # an option, its text, what the message holds beside the option
    ("--devices", "0", ["whole number of at least 1", "not 0"]),
    ("--devices", "1,2", ["whole number of at least 1", "[1, 2]"]),
    ("--devices", "x", ["whole number of at least 1", "'x'"]),
    ("--devices", "9e999999", ["whole number of at least 1"]),
    ("--devices", "1e99999999999999999999", []),
    ("--stages", "3", ["at least the number of devices (4)", "not 3"]),
    ("--microbatches", "5000000", ["80,000,000 operations", "at most 10,000,000"]),
    ("--placement", "Loop", ["'Loop'", "did you mean 'loop'?"]),
    ("--placement", "0,1,2", ["each of the 8 stages", "has 3"]),
    ("--placement", "0,1,2,3,0,1,2,9", ["device 9", "0 to 3"]),
    ("--forward", "", ["must be a number", "''"]),
    ("--forward", "nan", ["must be a number", "'nan'"]),
    ("--forward", "inf", ["must be a number", "'inf'"]),
    ("--forward", "1/3", ["must be a number", "'1/3'"]),
    ("--forward", "٣", ["must be a number"]),
    ("--forward", "true", ["must be a number", "'true'"]),
    ("--forward", "1,2", ["needs 8 numbers (one a stage)", "has 2"]),
    ("--forward", "1,1,,1,1,1,1,1", ["[2]", "must be a number", "''"]),
    ("--forward", "1e99999999999999999999", []),
    ("--backward", "-1", ["at least 0", "not -1"]),
    ("--p2p", "1,1", ["needs 7 numbers (one a boundary", "has 2"]),
    ("--overlap", "x", ["must be a number", "'x'"]),
    ("--recompute-cost", "1234567890", ["more than 9 digits"]),
    ("--offload-cost", "-0.1", ["at least 0", "not -0.1"]),
    ("--activation", "1e-10", ["more than 9 digits"]),
    ("--retain", "1.1", ["between 0 and 1", "not 1.1"]),
    ("--checkpoint", "-1", ["between 0 and 1", "not -1"]),
    ("--mem-budget", "0", ["more than 0", "not 0"]),
    ("--mem-budget", "-1", ["not -1"]),
    ("--mem-budget", "4,4", ["needs 4 numbers (one a device)", "has 2"]),
]


@pytest.mark.parametrize(("option", "text", "fragments"), BAD)
def test_bad_option(option: str, text: str, fragments: list[str]) -> None:
    """A bad value of an option is told by the option, what was found and what is allowed, on one line."""
    with pytest.raises(ConfigError) as error:
        load_problem(None, {option: text})
    message = str(error.value)
    assert message.startswith(option)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message


def test_list_in_the_file_that_an_option_made_wrong(load: Load) -> None:
    """A list that no longer suits the overridden stages is told by its place in the file."""
    with pytest.raises(ConfigError, match=r"^c\.yaml:2: costs\.forward: .* needs 8 numbers .* has 4"):
        load("devices: 4\ncosts: {forward: [1, 2, 3, 4]}", {"--stages": "8"})
