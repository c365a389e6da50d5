"""Layouts of a transformer into stages: as Megatron-LM and torchtitan write them, and as users give them.

Users give Megatron-LM's text, or list the layers of each stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from pipesched.errors import ConfigError, NotApplicable
from pipesched.estimation.model import ModelShape
from pipesched.estimation.setup import Setup
from pipesched.pipeline.layout_text import StageItems, layout_text, read_megatron_text, stages_of_counts
from pipesched.results.handover.subject import torchtitan_modules


def layout_lines(model: ModelShape, stages: Sequence[StageItems], devices: int) -> Iterator[str]:
    """Yield what to give to Megatron-LM and to torchtitan for stages of a model on so many devices."""
    yield "# Megatron-LM"
    flag = "--hybrid-layer-pattern" if model.letters else "--pipeline-model-parallel-layout"
    yield f"--pipeline-model-parallel-size {devices} {flag} '{layout_text(model.letters, stages)}'"
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


def layout_document(model: ModelShape, stages: Sequence[StageItems]) -> dict[str, Any]:
    """Return format "pipesched.layout" (version 1): the texts, null where a framework cannot have these stages."""
    try:
        modules: Any = torchtitan_modules(stages)
    except NotApplicable:
        modules = None
    return {
        "format": "pipesched.layout",
        "version": 1,
        "megatron": layout_text(model.letters, stages),
        "torchtitan": modules,
    }


def ends_of_layout(setup: Setup, layout: tuple[int, ...] | str, stages: int) -> tuple[int, ...]:
    """Return the item behind the last of each stage of a given layout. Raises ConfigError, NotApplicable."""
    found = read_layout(setup, layout)
    if len(found) != setup.parallel.stages:
        due = f"pipeline x chunks = {setup.parallel.pipeline} x {setup.parallel.chunks} are {setup.parallel.stages}"
        raise ConfigError(f"is for {len(found)} stages; {due}", "training.layout")
    if stages != len(found):
        what = f"`training.layout` is for {len(found)} stages, not {stages}"
        raise NotApplicable(f"{what}; with `layout` balanced layers are cut anew", "stages")
    return tuple(accumulate(one.items for one in found))


def read_layout(setup: Setup, layout: tuple[int, ...] | str) -> tuple[StageItems, ...]:
    """Return the stages of a given layout. Raises ConfigError where they do not hold the model once, in order."""
    model = setup.model
    if isinstance(layout, str) and model.letters and not {*layout} & {*"tL"}:
        parts = "".join(layout.split()).split("|")
        if "".join(parts) != model.letters:
            said = f"must be the pattern of the model with | between stages: {model.letters}"
            raise ConfigError(said, "training.layout")
        layout = (*map(len, parts),)
    if isinstance(layout, str):
        try:
            found = read_megatron_text(layout)
        except ConfigError as error:
            raise ConfigError(error.message, "training.layout") from None
    else:
        found = stages_of_counts(layout, model.mtp)
    for what, count, there in (
        ("layers", sum(one.layers for one in found), model.layers),
        ("MTP layers", sum(one.mtp for one in found), model.mtp),
    ):
        if count != there:
            raise ConfigError(f"has {count} {what}; the model has {there}", "training.layout")
    if (losses := sum(one.head for one in found)) > 1:
        what = "those of MTP layers are estimated with these, and `mtp` of measured layers tells them apart"
        raise ConfigError(f"has {losses} losses (L); the model has 1: {what}", "training.layout")
    return found
