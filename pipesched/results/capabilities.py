"""Which function makes the document, the table or the figure of an estimate, a tuning or an analysis, loaded when used.

The result of such a capability is written, read back, shown and drawn like any other. Writers, tables and figures know
of it what stands in this table, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Capability(NamedTuple):
    """The places, "module:name" below the package, of a result's class and of what makes something of a result.

    `document` makes the object of its JSON document, whose format is "pipesched." and the key of CAPABILITIES, and
    `reader` a result of that; `view` makes a renderable, with `ascii_only`, `table` one for files; `figure` a drawing
    that looks as a View says; `outcomes` the schedules that the result is about, each with a title, for a page. What is
    "" a capability does not have; its table is then its view.
    """

    result: str
    document: str
    view: str
    table: str = ""
    reader: str = ""
    figure: str = ""
    config: str = ""
    outcomes: str = ""

    def load(self, what: str) -> Callable[..., Any]:
        """Return what stands at one of the places."""
        return load_place(getattr(self, what))


def load_place(place: str) -> Callable[..., Any]:
    """Return what stands at a place, "module:name" below the package."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"pipesched.{module}"), name)
    return found


CAPABILITIES = {
    "explanation": Capability(
        result="analysis.explain:Explanation",
        document="documents.explanation:explanation_document",
        table="render.explanation:idle_table",
        view="render.explanation:explanation_view",
        outcomes="analysis.explain:explained_outcomes",
    ),
    "hls-explanation": Capability(
        result="hls.explanation:HardwareExplanation",
        document="documents.explanation:hardware_explanation_document",
        view="render.hardware:hardware_view",
    ),
    "estimate": Capability(
        result="estimation.result:Estimate",
        document="documents.tuning:estimate_document",
        view="render.estimate:estimate_view",
        config="estimation.config_text:config_text",
    ),
    "tuning": Capability(
        result="tuning.result:Tuning",
        document="documents.tuning:tuning_document",
        table="render.tuning:tuning_table",
        view="render.tuning:tuning_view",
        config="documents.tuning:config_of",
    ),
    "timeline": Capability(
        result="analysis.measured.timeline:Timeline",
        document="documents.explanation:timeline_document",
        table="render.explanation:costs_table",
        view="render.explanation:timeline_view",
        config="analysis.measured.timeline:config_text",
        outcomes="analysis.measured.timeline:timeline_outcomes",
    ),
    "packing": Capability(
        result="results.packing:Packing",
        document="documents.comparison:packing_document",
        view="render.comparison:packing_view",
        config="documents.comparison:rank_config",
    ),
    "robustness": Capability(
        result="analysis.robustness:Robustness",
        document="documents.comparison:robustness_document",
        reader="documents.comparison:robustness_of",
        table="render.scatter:RobustnessTable",
        view="render.scatter:robustness_view",
        figure="render.figure.plots:robustness_figure",
    ),
}


def kind_of_capability(result: object) -> str | None:
    """Return the key of the capability whose result this is, or None. No capability is loaded."""
    here = f"{type(result).__module__}:{type(result).__qualname__}"
    return next((kind for kind, capability in CAPABILITIES.items() if here == f"pipesched.{capability.result}"), None)


def capability_of(result: object) -> Capability | None:
    """Return the capability whose result this is, or None."""
    return CAPABILITIES.get(kind_of_capability(result) or "")
