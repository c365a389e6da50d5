"""The layers of a problem in the JSON document of a schedule: writing them, and what they are for make_problem."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from pipesched.documents.step import kept_said
from pipesched.pipeline.layer_arguments import HALVES, KEYS, PARTS, Blocks
from pipesched.pipeline.layers import SHARES, Amount, LayerCosts
from pipesched.pipeline.memory import KEPT
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.units import FORWARD_ONLY

BLOCKS = "blocks"  # true where the layers are stages that were given
BY_LAYER = ("layers", *PARTS, "layout", BLOCKS)


def layers_document(problem: Problem) -> dict[str, Any]:
    """Return the layers of a problem, if it has them, as a config gives them, every default filled in.

    Latencies of boundaries between layers stand in `layer`, where `costs` do not have them: those between stages.
    """
    layers = problem.layers
    if layers is None:
        return {}
    unsaid = {"backward"} if problem.costs.split else {*HALVES}
    if problem.mode == FORWARD_ONLY:
        unsaid |= {"backward", *HALVES, "recompute"}
    if not kept_said(problem):
        unsaid |= {*KEPT}
    parts = {key: _part(getattr(layers, key), unsaid) for key in PARTS}
    if layers.p2p is not None and layers.count != len(layers.layout):
        parts["layer"]["p2p"] = _plain(layers.p2p)
    blocks = {BLOCKS: True} if layers.blocks else {}
    return {"layers": layers.count, **parts, "layout": list(layers.layout), **blocks}


def _part(costs: LayerCosts, unsaid: Set[str]) -> dict[str, Any]:
    values = {key: getattr(costs, key) for key in KEYS if key not in unsaid}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(amount: Amount) -> Any:
    """Return the number of a layer, or those of all, with those of each microbatch in rows."""
    return [_plain(entry) for entry in amount] if isinstance(amount, tuple) else plain(amount)


def by_layer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a document with layers, by the parameters of make_problem, without those of its stages."""
    layer = dict(values["layer"]) if isinstance(values.get("layer"), dict) else {}
    of_stages = {key for key in KEYS if key not in SHARES or key in layer}
    kept = {key: value for key, value in values.items() if key not in of_stages and key != BLOCKS}
    if "p2p" in layer:
        kept["p2p"] = layer.pop("p2p")
    of_blocks = Blocks(layer) if values.get(BLOCKS) else layer
    return {**kept, **({"layer": of_blocks} if layer else {})}
