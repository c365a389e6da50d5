"""Rows of a summary about changes that would help: what each gives, and what to type for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipesched.render.marks import Spelling
from pipesched.results.outcome import Advice, SolveReport
from pipesched.text.fields import BY_NAME

MOST_TYPED = 160  # letters of what is to be typed for an advice: of more, only the beginning is shown


def advice_rows(
    report: SolveReport, time: Callable[[int | float], str], spell: Spelling
) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each change that helps, below a first that says what the times are.

    `spell` turns the parameters in a text (in backticks) into what the reader types.
    """
    if report.advice is None:
        return
    if not report.advice:
        yield "would help", "nothing", "that was tried, by heuristics alone"
        return
    yield "would help", "at most", "by heuristics alone; a solve with one of these changes does no worse"
    for advice in report.advice:
        share = -advice.difference / report.value if report.value else 0.0
        yield f"  {advice.change}", time(advice.makespan_at_most), f"{share:.1%} shorter: {spell(_typed(advice))}"


def _typed(advice: Advice) -> str:
    """Return what makes a change: settings of a solve, and values of the problem by their keys in a config."""
    settings = [f"`{name}`" if value else f"`{name}=False`" for name, value in advice.solve.items()]
    keys = {name: BY_NAME[name].key if name in BY_NAME else name for name in advice.problem}
    values = [f"`{keys[name]}` {_text_of(value)}" for name, value in advice.problem.items()]
    text = " ".join(settings + values)
    if len(text) <= MOST_TYPED:
        return text
    return f"{values[0]}, with the values that solver.advice of the JSON document has"


def _text_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in value.items()) + "}"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
