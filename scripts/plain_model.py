"""A plain model of a case to compare with, as one would write it down first."""

from __future__ import annotations

from typing import Any

from pipesched.core.cpsat import Limits
from pipesched.solver.model import PipelineModel
from pipesched.solver.variant import Variant


class PlainModel(PipelineModel):
    """The model with CP-SAT's own search strategies."""

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Set no parameters."""


def plain_model(case: Variant, least: int, most: int) -> PipelineModel:
    """Return a plain model to compare with: dependencies, NoOverlap, Cumulative and microbatches in order, no more."""
    model = PlainModel(case, least, most)
    model.dependencies()
    model.devices()
    model.order()
    model.memory(beside_capacity=False)
    model.objective()
    return model
