"""What there is of each kind of result: class, document, reader, table, view, figure, schedules; loaded when used.

Writers, readers, tables, figures and pages know of a result what stands in RESULTS, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from pipesched.pipeline.plan.schedule import Schedule
from pipesched.results.outcome import Outcome


class ResultKind(NamedTuple):
    """The places, "module:name" below the package, of a result's class and of what makes something of a result.

    What is "" a kind does not have; its table is then its view.
    """

    result: str
    document: str  # makes the object of its JSON document, whose format is "pipesched." and the key of RESULTS
    view: str  # makes a renderable, with `ascii_only`
    table: str = ""  # makes a renderable for files
    reader: str = ""  # makes a result of a document that has rows
    figure: str = ""  # makes a drawing that looks as a View says
    config: str = ""
    outcomes: str = ""  # makes the schedules that the result is about, each with a title, for a page

    def load(self, what: str) -> Callable[..., Any]:
        return load_place(getattr(self, what))


def load_place(place: str) -> Callable[..., Any]:
    """Return what stands at a place, "module:name" below the package."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"pipesched.{module}"), name)
    return found


SCHEDULE, COMPARISON, SWEEP, FRONTIER = "schedule", "comparison", "sweep", "frontier"
RESULTS = {
    SCHEDULE: ResultKind(
        result="results.outcome:Outcome",
        document="documents.schedule:document",
        view="render.table:schedule_view",
        table="render.summary:summary",
        figure="render.figure.chart:gantt_figure",
        outcomes="render.html.page:titled_outcome",
    ),
    COMPARISON: ResultKind(
        result="results.comparison:Comparison",
        document="documents.comparison:comparison_document",
        reader="documents.comparison:comparison_of",
        view="render.table:comparison_view",
        table="render.comparison:ComparisonTable",
        figure="render.figure.chart:comparison_figure",
        outcomes="render.html.page:titled_entries",
    ),
    SWEEP: ResultKind(
        result="results.comparison:Sweep",
        document="documents.comparison:sweep_document",
        reader="documents.comparison:sweep_of",
        view="render.comparison:sweep_view",
        table="render.comparison:sweep_table",
        figure="render.figure.plots:sweep_figure",
    ),
    FRONTIER: ResultKind(
        result="results.comparison:Frontier",
        document="documents.comparison:frontier_document",
        reader="documents.comparison:frontier_of",
        view="render.scatter:frontier_view",
        table="render.scatter:frontier_table",
        figure="render.figure.plots:solved_figure",
    ),
    "explanation": ResultKind(
        result="analysis.explain:Explanation",
        document="documents.explanation:explanation_document",
        table="render.explanation:idle_table",
        view="render.explanation:explanation_view",
        outcomes="analysis.explain:explained_outcomes",
    ),
    "hls-explanation": ResultKind(
        result="hls.explanation:HardwareExplanation",
        document="documents.explanation:hardware_explanation_document",
        view="render.hardware:hardware_view",
    ),
    "estimate": ResultKind(
        result="estimation.result:Estimate",
        document="documents.tuning:estimate_document",
        view="render.estimate:estimate_view",
        config="estimation.config_text:config_text",
    ),
    "tuning": ResultKind(
        result="tuning.result:Tuning",
        document="documents.tuning:tuning_document",
        table="render.tuning:tuning_table",
        view="render.tuning:tuning_view",
        config="documents.tuning:config_of",
    ),
    "timeline": ResultKind(
        result="analysis.measured.timeline:Timeline",
        document="documents.explanation:timeline_document",
        table="render.explanation:costs_table",
        view="render.explanation:timeline_view",
        config="analysis.measured.timeline:config_text",
        outcomes="analysis.measured.timeline:timeline_outcomes",
    ),
    "packing": ResultKind(
        result="results.packing:Packing",
        document="documents.comparison:packing_document",
        view="render.comparison:packing_view",
        config="documents.comparison:rank_config",
    ),
    "robustness": ResultKind(
        result="analysis.robustness:Robustness",
        document="documents.comparison:robustness_document",
        reader="documents.comparison:robustness_of",
        table="render.scatter:robustness_table",
        view="render.scatter:robustness_view",
        figure="render.figure.plots:robustness_figure",
    ),
}
BY_CLASS = {f"pipesched.{one.result}": kind for kind, one in RESULTS.items()}


def places(what: str) -> dict[str, str]:
    """Return by kind the places of what not every kind has."""
    return {kind: place for kind, one in RESULTS.items() if (place := getattr(one, what))}


def kind_of(result: object) -> tuple[str, Any]:
    """Return the kind of a result, "" where it is none, and the result itself (a Schedule as an Outcome)."""
    if isinstance(result, Schedule):
        return SCHEDULE, Outcome(result.name, result)
    names = (f"{one.__module__}:{one.__qualname__}" for one in type(result).__mro__)
    return next((BY_CLASS[name] for name in names if name in BY_CLASS), ""), result
