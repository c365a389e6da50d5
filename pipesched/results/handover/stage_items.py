"""What each stage has of a transformer, as Megatron-LM writes a layout and as torchtitan lists modules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pipesched.errors import NotApplicable


class StageItems(NamedTuple):
    """What a stage has: the embedding or not, layers, layers of multi-token prediction, the head or not."""

    embedding: bool
    layers: int
    mtp: int = 0
    head: bool = False

    @property
    def items(self) -> int:
        """How many items these are."""
        return self.embedding + self.layers + self.mtp + self.head


def stages_of(ends: Sequence[int], layers: int, mtp: int = 0) -> tuple[StageItems, ...]:
    """Return the items of each stage of a cut: its ends in the list [embedding, layers.., MTP layers.., head]."""
    letters = "E" + "t" * layers + "m" * mtp + "L"
    stages = [letters[begin:end] for begin, end in zip((0, *ends), ends, strict=False)]
    return tuple(StageItems("E" in its, its.count("t"), its.count("m"), "L" in its) for its in stages)


def megatron_text(stages: Sequence[StageItems]) -> str:
    """Return Megatron-LM's text of a layout; equal stages in a row are a group where that is shorter."""
    *texts, last = [_stage_text(stage) for stage in stages]
    return "".join(_grouped(text, len([*equal])) for text, equal in groupby(texts)) + last


def _stage_text(stage: StageItems) -> str:
    return "E" * stage.embedding + _repeated("t", stage.layers) + _repeated("m", stage.mtp) + "L" * stage.head


def _repeated(letter: str, count: int) -> str:
    return f"{letter}*{count}" if count > 2 else letter * count


def _grouped(text: str, count: int) -> str:
    """Return some equal stages, each with the separator behind it, in the shorter way to write them."""
    return min(f"{text}|" * count, f"({text}|)*{count}", key=len)


def torchtitan_modules(stages: Sequence[StageItems], head: str = "output") -> list[list[str]]:
    """Return the names of the modules of each stage, as torchtitan's `module_fqns_per_model_part` has them.

    `head` is the name of the last module: newer versions of torchtitan call it lm_head. Raises NotApplicable for layers
    of multi-token prediction, which torchtitan's models do not have.
    """
    if any(stage.mtp for stage in stages):
        raise NotApplicable("torchtitan has no layers of multi-token prediction (MTP); leave them out of the model")
    modules, layer = [], 0
    for stage in stages:
        layers = [f"layers.{number}" for number in range(layer, layer + stage.layers)]
        layer += stage.layers
        modules.append([*["tok_embeddings"] * stage.embedding, *layers, *["norm", head] * stage.head])
    return modules
