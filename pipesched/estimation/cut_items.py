"""The items of a model as what a solve cuts anew: what each takes and holds at least, in ms and GB."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from pipesched.estimation.communication import hop_times
from pipesched.estimation.items import GB, LAYER, Items
from pipesched.estimation.pairs import hides_experts
from pipesched.estimation.terms import PER_MS
from pipesched.pipeline.cutting.items import CutItems
from pipesched.pipeline.problem import Problem

HALVES = ("backward_input", "backward_weight")
BY_STAGE = (  # parameters of make_problem that, given, say what stages take and hold, whatever their items
    "forward", "backward", "backward_input", "backward_weight", "recompute", "overlap", "activation", "retain",
    "static", "p2p",
)  # fmt: skip
UNLIKE = ("sizes", "slices", "mode")  # parameters with which microbatches differ


def is_open(items: Items, given: Collection[str]) -> bool:
    """Return whether a solve may choose the cut: no layout is given, and no parameter that says what stages take.

    Nor do microbatches differ.
    """
    is_alike = items.setup.batch.lengths is None and not set(UNLIKE).intersection(given)
    return is_alike and items.setup.training.layout is None and not set(BY_STAGE).intersection(given)


def cut_items(items: Items, problem: Problem) -> CutItems:
    """Return the items of a problem. What layers recompute of themselves is left out: that depends on their stage."""
    each = items.each
    times = {key: [Fraction(item.time(key), PER_MS) for item in each] for key in ("forward", *HALVES)}
    gradient, weight = (times[key] for key in HALVES)
    if not problem.costs.split:
        gradient = [one + other for one, other in zip(gradient, weight, strict=True)]
        weight = [Fraction(0)] * len(each)
    some = items.setup.training.full_layers is not None
    sizes = [item.size("checkpoint" if some and item.kind == LAYER else "activation") for item in each]
    return CutItems(
        forward=times["forward"],
        gradient=gradient,
        weight=weight,
        pair=[Fraction(item.alone, PER_MS) for item in each] if hides_experts(items.setup) else None,
        p2p=[Fraction(0)] * (len(each) - 1),
        static=[item.states / GB for item in each],
        held=[[size / GB for size in sizes]],
        links=None if problem.links is not None else _links(items, problem.devices),
    )


def _links(items: Items, devices: int) -> list[list[Fraction]]:
    """Return the latency from each device to each."""
    return [hop_times(items.setup, ((here, there) for there in range(devices))) for here in range(devices)]
