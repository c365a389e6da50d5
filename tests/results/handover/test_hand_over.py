"""What is handed over to each framework: its text for many schedules, and what no golden text says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Inexpressible
from pipesched.file_formats.pytorch_csv import dump
from pipesched.pipeline.layers.layout_text import read_megatron_text
from pipesched.results.handover.hand_over import FRAMEWORKS
from pipesched.results.trainers import runs_in, takes
from tests.results.handover.outcomes import made, of_model, outcome, texts
from tests.torch_ranks import needs_torch


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_texts(framework: str, golden: Callable[[str, str], None]) -> None:
    """The text for each schedule, or why there is none; tests/results/handover/test_sources.py knows their sources."""
    found = texts(framework)
    golden(f"handover/{framework}.txt", "".join(f"== {name}\n{text}" for name, text in found.items()))


@needs_torch
def test_torchtitan_names_are_pytorchs() -> None:
    """PyTorch's own loader knows each name."""
    from torch.distributed.pipelining.schedules import get_schedule_class

    names = {name for text in texts("torchtitan").values() for name in re.findall(r"parallel_schedule=(\w+)", text)}
    assert len(names) > 5
    for name in names:
        assert get_schedule_class(name).__name__ == f"Schedule{name}"


def test_refusals_know_the_nearest() -> None:
    """A refusal of an order has the nearest schedule as an attribute; that of numbers has none, as it would be the same
    one."""
    with pytest.raises(Inexpressible) as caught:
        pipesched.hand_over(made("zb-v", chunks=2), "megatron")
    assert caught.value.nearest == "interleaved"
    for name, framework in (
        ("recompute", "torchtitan"), ("interleaved of 9 in groups of 4", "megatron"), ("experts", "torchtitan"),
    ):  # fmt: skip
        with pytest.raises(Inexpressible) as caught:
            pipesched.hand_over(outcome(name), framework)
        assert "nearest" not in str(caught.value)


@pytest.mark.parametrize("name", ["messages differ", "activations differ", "latencies differ"])
def test_microbatches_of_other_shapes(name: str) -> None:
    """Messages that differ in size run nowhere but in DeepSpeed; the CSV says so."""
    unlike = outcome(name)
    assert not takes(unlike, "pytorch")
    assert runs_in(unlike.schedule) == []
    assert "is for `pipesched train`: PyTorch runs microbatches of one shape" in dump(unlike.schedule).note
    assert runs_in(outcome("works differ").schedule) == ["pytorch"]


def test_layers_are_those_of_the_model() -> None:
    """A list or a text of more or fewer layers than the model has is refused, which Megatron-LM would do later."""
    for layers in ([5] * 4, "Et*5|t*5|t*5|t*5L"):
        with pytest.raises(ConfigError, match="has 20 layers; the model has 32") as caught:
            pipesched.hand_over(of_model(), "megatron", layers=layers)
        assert caught.value.key == "layers"


def megatrons(text: str) -> list[str]:
    """A layout as Megatron-LM reads it: `(..)*n` and `x*n` written out, groups do not nest, `|` between stages."""
    flat = re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), text)
    assert not set(flat) & set("()")
    return re.sub(r"([a-zA-Z])\*(\d+)", lambda found: found[1] * int(found[2]), flat).split("|")


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8))
def test_layouts_round_trip(layers: list[int]) -> None:
    """The layout text has the layers that were given, the embedding first and the loss last."""
    problem = pipesched.make_problem(devices=len(layers), microbatches=len(layers))
    words = shlex.split(pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron", layers=layers))
    layout = words[words.index("--pipeline-model-parallel-layout") + 1]
    stages = megatrons(layout)
    assert [stage.count("t") for stage in stages] == layers
    assert "".join(stages) == "E" + "t" * sum(layers) + "L"
    assert [stage.layers for stage in read_megatron_text(layout)] == layers
