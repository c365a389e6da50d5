"""How sure a tuning is, as text: the first row, what it is based on, published runs, and what nobody has measured."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from pipesched.estimation.trust.facts import RunFacts
from pipesched.render.trust import LETTERS, interval_text, outside_text, trust_lines
from pipesched.tuning.result import Tuning
from pipesched.tuning.space import Layout


def is_by_expected(tuning: Tuning) -> bool:
    """Return whether the rows stand in the order of the rates that are expected: with runs of one's own."""
    return any(row.trust is not None and row.trust.own for row in tuning.rows)


def how_sure(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what is expected of the first row, on what evidence, and which rows to measure first."""
    trust = tuning.rows[0].trust
    if trust is None:
        return
    yield ""
    yield Text(f"Row 1: {interval_text(trust.tokens_per_second_per_gpu, unit=' tokens/s/GPU')}.", style="bold")
    if is_by_expected(tuning):
        yield Text("Rows are in the order of what is expected after your own runs; the search was by estimates.")
    yield from trust_lines(trust)
    if tuning.measure is not None:
        first, second = (number + 1 for number in tuning.measure.layouts)
        gain = f"{tuning.measure.gain * 100:.{1 if tuning.measure.gain >= 0.0005 else 2}f} %"
        yield Text(f"measure rows {first} and {second} first: on average the choice is then {gain} faster")


def published_lines(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield the published runs of the same model and GPU, and whether the first row is faster than all of them."""
    if not tuning.published:
        return
    yield ""
    yield Text("Published runs of this model on this GPU, the most alike first:", style="dim")
    for run in tuning.published:
        ways = f"{run.compared.facts.gpus:,} GPUs, {_ways(run.compared.facts)}"
        yield item(f"{run.run}: {ways}: {run.rate:,.0f} tokens/s/GPU, estimated {run.estimated_rate:,.0f}")
    if tuning.is_above_published:
        yield Text("row 1 is faster than all of them on as many GPUs, also at the low end of its 80 %")


def faster_outside_lines(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield the points outside what was measured that are faster in the estimate, and what to measure for each."""
    if not tuning.beyond:
        return
    yield ""
    yield Text("Faster in the estimate, but nobody has measured:", style="dim")
    best = tuning.rows[0].rate
    for one in tuning.beyond:
        rate = f"{one.trial.rate:,.1f} tokens/s/GPU, {one.trial.rate / best - 1:+.1%}"
        yield item(f"{named(*one.trial.point)}: {rate}")
        yield from (item(outside_text(field), 4) for field in one.outside)
        yield item(f"measure {one.measure}", 4)


def _ways(facts: RunFacts) -> str:
    """Return the sizes of a published run that are not 1, by their letters."""
    sizes = {letter: getattr(facts, key) for key, letter in LETTERS.items()}
    return " ".join(f"{letter}{size}" for letter, size in sizes.items() if size > 1 or letter in "tp")


def named(layout: Layout, algorithm: str) -> str:
    """Return a point in words."""
    return f"{layout}, {algorithm}" if algorithm else str(layout)


def item(text: str, indent: int = 2) -> RenderableType:
    """Return a line that is indented, also where it goes on."""
    return Padding(Text(text), (0, 0, 0, indent), expand=False)
