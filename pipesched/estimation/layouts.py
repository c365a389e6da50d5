"""Layouts as users give them: the layers of each stage, or Megatron-LM's text."""

from __future__ import annotations

from itertools import accumulate

from pipesched.errors import ConfigError, NotApplicable
from pipesched.estimation.layout_reader import read_megatron_text
from pipesched.estimation.layout_text import StageItems
from pipesched.estimation.setup import Setup


def ends_of_layout(setup: Setup, layout: tuple[int, ...] | str, stages: int) -> tuple[int, ...]:
    """Return the item behind the last of each stage of a given layout.

    A list counts layers; the embedding goes to the first stage, MTP layers and the head to the last. Raises ConfigError
    about `training.layout`, and NotApplicable where it is for another number of stages than an algorithm runs.
    """
    found = read_layout(setup, layout)
    if len(found) != setup.parallel.stages:
        raise ConfigError(
            f"is for {len(found)} stages; pipeline x chunks = {setup.parallel.pipeline} x {setup.parallel.chunks} are"
            f" {setup.parallel.stages}",
            "training.layout",
        )
    if stages != len(found):
        raise NotApplicable(f"`training.layout` is for {len(found)} stages, not {stages}", "stages")
    return tuple(accumulate(one.embedding + one.layers + one.mtp + one.head for one in found))


def read_layout(setup: Setup, layout: tuple[int, ...] | str) -> tuple[StageItems, ...]:
    """Return the stages of a given layout. Raises ConfigError where they do not hold the model once, in order."""
    model = setup.model
    if isinstance(layout, str):
        try:
            found = read_megatron_text(layout)
        except ConfigError as error:
            raise ConfigError(error.message, "training.layout") from None
    else:
        last = len(layout) - 1
        found = tuple(
            StageItems(stage == 0, count, model.mtp if stage == last else 0, stage == last)
            for stage, count in enumerate(layout)
        )
    for what, count, there in (
        ("layers", sum(one.layers for one in found), model.layers),
        ("MTP layers", sum(one.mtp for one in found), model.mtp),
    ):
        if count != there:
            raise ConfigError(f"has {count} {what}; the model has {there}", "training.layout")
    empty = next((number for number, one in enumerate(found) if not one.items), None)
    if empty is not None:
        raise ConfigError(f"leaves stage {empty} empty: it needs at least a layer", "training.layout")
    return found
