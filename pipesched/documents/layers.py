"""The layers of a problem in the JSON document of a schedule: writing them, and what they are for make_problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipesched.pipeline.layer_arguments import KEYS, PARTS
from pipesched.pipeline.layers import SHARES, Amount, LayerCosts, Layers
from pipesched.pipeline.quantities import plain

BLOCKS = "blocks"  # true where the layers are stages that were given
BY_LAYER = ("layers", *PARTS, "layout", BLOCKS)


def layers_document(layers: Layers, *, split: bool) -> dict[str, Any]:
    """Return the layers as a config gives them, every default filled in; `split`: the backward by its halves.

    Latencies of boundaries between layers stand in `layer`, where `costs` do not have them: those between stages.
    """
    parts = {key: _part(getattr(layers, key), split) for key in PARTS}
    if layers.p2p is not None and layers.count != len(layers.layout):
        parts["layer"]["p2p"] = [*map(plain, layers.p2p)]
    blocks = {BLOCKS: True} if layers.blocks else {}
    return {"layers": layers.count, **parts, "layout": list(layers.layout), **blocks}


def _part(costs: LayerCosts, split: bool) -> dict[str, Any]:
    unused = ("backward",) if split else ("backward_input", "backward_weight")
    values = {key: getattr(costs, key) for key in KEYS if key not in unused}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(amount: Amount) -> Any:
    """Return the number of a layer, or those of all."""
    return [*map(plain, amount)] if isinstance(amount, tuple) else plain(amount)


def by_layer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a document with layers, by the parameters of make_problem, without those of its stages."""
    layer = dict(values["layer"]) if isinstance(values.get("layer"), dict) else {}
    of_stages = {key for key in KEYS if key not in SHARES or key in layer}
    kept = {key: value for key, value in values.items() if key not in of_stages and key != BLOCKS}
    if "p2p" in layer:
        kept["p2p"] = layer.pop("p2p")
    return {**kept, **({"layer": layer} if layer else {})}
