"""What the model of residuals looks at of a run: kinds and families of GPUs, layouts, sizes in octaves."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest

from pipesched.estimation.model_reader import HARDWARE, preset_names
from pipesched.estimation.trust.facts import FIELDS, GPU_FAMILIES, facts_of, schedule_of, shape_of
from tests.estimation.setups import setup
from tests.estimation.trust.runs import FACTS, run

EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "mixtral"}


@pytest.mark.parametrize(
    ("gpu", "family"),
    [
        ("a100-80gb-sxm", "A100"),
        ("a100-40gb-sxm", "A100"),
        ("h100-sxm", "H100"),
        ("h200-sxm", "H100"),
        ("b200-sxm", "B200"),
        ("gb200", "B200"),
        ("mi300x", "MI"),
        ("mi355x", "MI"),
        ("my-gpu", "my-gpu"),
        ("mine", "mine"),
    ],
)
def test_family(gpu: str, family: str) -> None:
    """GPUs of one generation are a family; one that nobody knows is its own."""
    assert FACTS._replace(gpu=gpu).family == family


def test_every_data_centre_preset_has_a_family() -> None:
    """Of the package's GPUs only those with neither NVLink nor published runs are families of their own."""
    names = {name: FACTS._replace(gpu=name).family for name in preset_names(HARDWARE)}
    assert {name for name, family in names.items() if family == name} == {"l40s", "rtx-4090"}
    assert {*names.values()} - {"l40s", "rtx-4090"} <= {*GPU_FAMILIES.values(), "MI"}


@pytest.mark.parametrize(
    ("gpu", "experts", "kind"),
    [
        ("a100-80gb-sxm", 0, "a100"),
        ("a100-80gb-sxm", 8, "experts"),
        ("h100-sxm", 0, "dense"),
        ("mi300x", 0, "dense"),
        ("gb200", 8, "experts"),
    ],
)
def test_kind(gpu: str, experts: int, kind: str) -> None:
    """Experts are a kind on every GPU; dense models on an A100 are another."""
    assert FACTS._replace(gpu=gpu, experts=experts).kind == kind


def test_octaves() -> None:
    """Sizes count by their doublings; tokens of a microbatch on a rank from 256 on, and never below."""
    octaves = dict(zip(FIELDS, run(tensor=8, pipeline=1, gpus=96).octaves, strict=True))
    assert octaves == pytest.approx(
        {"tensor": 3, "pipeline": 0, "chunks": 1, "context": 1, "expert": 0, "gpus": log2(96), "tokens": 3}
    )
    assert run(sequence=4096, context=32).octaves[-1] == 0  # 128 tokens
    assert run(sequence=4096, context=2, micro=4).octaves[-1] == 5


def test_layout() -> None:
    """Runs on other numbers of GPUs, with other sequences, chunks or schedules are of one layout; others are not."""
    same: dict[str, Any] = {"gpus": 16384, "sequence": 8192, "chunks": 4, "algorithm": "1f1b"}
    assert FACTS._replace(**same).layout == FACTS.layout
    other: dict[str, Any] = {"micro": 2, "recompute": "full", "tensor_overlap": True, "split": False}
    for key, value in {
        **dict.fromkeys(("tensor", "pipeline", "context", "expert", "expert_tensor"), 8),
        **other,
    }.items():
        assert FACTS._replace(**{key: value}).layout != FACTS.layout, key


@pytest.mark.parametrize(
    ("asked", "one"),
    [
        ("zb-1p", "zb"),
        ("zb-h1", "zb"),
        ("zb-h2", "zb"),
        ("zb-auto", "zb"),
        ("zb-v", "zb-v"),
        ("interleaved-zb", "interleaved-zb"),
        ("1f1b", "1f1b"),
    ],
)
def test_schedules_that_are_one(asked: str, one: str) -> None:
    """Zero Bubble's schedules of one stage a device are one algorithm, whatever their memory."""
    assert schedule_of(asked) == one


def test_facts_of_a_setup() -> None:
    """Each fact is that of the setup; sequence parallelism counts where tensor ranks share sequences."""
    given = setup(training={"recompute": "full"}, batch={"micro": 2})
    facts = facts_of(given, "zb-auto")
    assert facts == FACTS._replace(
        model=shape_of(given.model),
        gpu="test-gpu",
        gpus=8,
        chunks=1,
        context=1,
        micro=2,
        recompute="full",
        algorithm="zb",
    )
    assert not facts_of(setup(parallel={"tensor": 1}), "1f1b").split
    assert [facts_of(setup(training={"shard": level}), "1f1b").shard for level in ("none", None)] == ["none", ""]
    assert facts_of(setup(EXPERTS), "1f1b").experts == 8


def test_a_shape_is_one_whatever_the_words() -> None:
    """Another vocabulary is the same model; another width of layers is not."""
    one, words, wide = (shape_of(setup(m).model) for m in ({}, {"vocab_size": 128256}, {"intermediate_size": 16384}))
    assert one == words != wide
    assert shape_of(setup(EXPERTS).model) not in (one, wide)
