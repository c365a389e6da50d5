"""Texts of a layout of a transformer into stages: Megatron-LM's `--pipeline-model-parallel-layout`, torchtitan's names.

In Megatron's text E is the embedding, t a decoder layer, m a layer of multi-token prediction, L the head with the loss.
`|` separates stages, `*n` repeats the letter or the group in parentheses before it: "Et*9|(t*10|)*6t*10L".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

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
    return "".join(_group(text, len([*equal])) for text, equal in groupby(texts)) + last


def _stage_text(stage: StageItems) -> str:
    return "E" * stage.embedding + _repeated("t", stage.layers) + _repeated("m", stage.mtp) + "L" * stage.head


def _repeated(letter: str, count: int) -> str:
    return f"{letter}*{count}" if count > 2 else letter * count


def _group(text: str, count: int) -> str:
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


def layout_lines(stages: Sequence[StageItems], devices: int) -> Iterator[str]:
    """Yield what to give to Megatron-LM and to torchtitan for stages on so many devices."""
    yield "# Megatron-LM"
    yield f"--pipeline-model-parallel-size {devices} --pipeline-model-parallel-layout '{megatron_text(stages)}'"
    yield ""
    yield "# torchtitan: module_fqns_per_model_part"
    try:
        modules = torchtitan_modules(stages)
    except NotApplicable as error:
        yield f"# {error.message}"
        return
    yield "["
    for names in modules:
        yield f"    {names},".replace("'", '"')
    yield "]"


def layout_document(stages: Sequence[StageItems]) -> dict[str, Any]:
    """Return format "pipesched.layout" (version 1): the texts, null where a framework cannot have these stages."""
    try:
        modules: Any = torchtitan_modules(stages)
    except NotApplicable:
        modules = None
    return {"format": "pipesched.layout", "version": 1, "megatron": megatron_text(stages), "torchtitan": modules}
