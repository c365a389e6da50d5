"""The layers of a problem in its JSON document: by the keys of a config, beside what the stages have of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipesched.errors import ConfigError
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.layer_arguments import KEYS, PARTS
from pipesched.pipeline.layers import LayerCosts, Layers
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, plain, to_fraction

BY_LAYER = ("layers", *PARTS, "layout")


def layers_document(layers: Layers, *, split: bool) -> dict[str, Any]:
    """Return the layers as a config gives them, every default filled in; `split`: the backward by its halves."""
    parts = {key: _part(getattr(layers, key), split) for key in PARTS}
    return {"layers": layers.count, **parts, "layout": list(layers.layout)}


def _part(costs: LayerCosts, split: bool) -> dict[str, int | float]:
    unused = ("backward",) if split else ("backward_input", "backward_weight")
    whole = canonical(to_fraction(costs.backward_input) + to_fraction(costs.backward_weight))
    values = {key: whole if key == "backward" else getattr(costs, key) for key in KEYS if key not in unused}
    return {key: plain(value) for key, value in values.items() if value is not None}


def problem_of(values: Mapping[str, Any]) -> Problem:
    """Return the problem of a document's values, by the parameters of make_problem, with its layers if it has them.

    Raises ConfigError where the layers do not make the costs and the memory of the stages.
    """
    by_stage = make_problem(**{key: value for key, value in values.items() if key not in BY_LAYER})
    if "layers" not in values:
        return by_stage

    sizes = {key: value for key, value in values.items() if key not in KEYS}
    problem = make_problem(**sizes)
    costs = replace(problem.costs, recompute=by_stage.costs.recompute)
    if replace(problem, costs=costs) != by_stage or problem.layers is None:
        raise ConfigError("do not make the costs and the memory of the stages", "layers")
    return replace(by_stage, layers=problem.layers)
