"""How sure an estimate is, as text: what it is based on, what lies outside, and how it compares with another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pipesched.config.trust_section import FITS
from pipesched.estimation.trust.evidence import Interval, OutsideField, PublishedRun, SpeedRatio, Trust
from pipesched.estimation.trust.facts import RunFacts
from pipesched.render.grid import folded, grid, right, uncut
from pipesched.tuning.result import Tuning
from pipesched.tuning.space import Layout


def interval_text(interval: Interval, digits: int = 1, unit: str = "") -> str:
    """Return what is expected, and the ends of the interval."""
    low, expected, high = (f"{value:,.{digits}f}" for value in interval)
    return f"expected {expected}{unit}, 80 % {low} to {high}"


def trust_lines(trust: Trust) -> Iterator[RenderableType]:
    """Yield what an estimate is based on, and each field that lies outside what was measured."""
    beside = [f"{trust.own} run{'s' * (trust.own > 1)} of your own"] * bool(trust.own)
    beside += [f"the runs of {trust.like}"] * (trust.like is not None)
    yield Text(f"Based on published runs{''.join(f', {one}' for one in beside)}; the nearest:", style="dim")
    for run in trust.evidence.nearest:
        rate = f"{run.tokens_per_second_per_gpu:,.0f} tokens/s/GPU, estimated {run.error:+.1%}"
        yield item(f"{run.run}: {rate}")
    if trust.evidence.inside:
        return
    yield Text("Nobody has published a run with", style="dim")
    for one in trust.evidence.outside:
        yield item(outside_text(one))


def outside_text(one: OutsideField) -> str:
    """Return a field that lies outside, and what was measured."""
    return f"{one.field} {one.value}; measured: {one.measured}"


def against_lines(ratios: Iterable[tuple[str, SpeedRatio]]) -> Iterator[RenderableType]:
    """Yield how the step compares with that of each other config."""
    for name, one in ratios:
        ends = f"{one.expected:.3f} of its step, 80 % {one.low:.3f} to {one.high:.3f}"
        yield Text(f"against {name}: {ends}; {verdict(one)}")


def verdict(one: SpeedRatio) -> str:
    """Return which of two steps is faster, if that is known."""
    if not one.is_decided:
        return f"cannot be told apart (faster with {one.faster:.0%})"
    return f"faster with {one.faster:.0%}" if one.faster > 0.5 else f"slower with {1 - one.faster:.0%}"


LETTERS = {"tensor": "t", "pipeline": "p", "chunks": "v", "context": "c", "expert": "e", "micro": "b"}


def evidence_table(runs: Sequence[PublishedRun]) -> RenderableType:
    """Return a row for each published run: its rate, by how much our estimate of it is off, and how it was laid out."""
    gpus, of, rate = right("\nGPUs"), uncut("\nof"), right("tokens/s\n/GPU")
    table = grid(folded("\nrun"), gpus, of, folded("\nlayout"), rate, right("\nestimate"))
    for one in runs:
        facts, error = one.compared.facts, f"{one.estimated_rate / one.rate - 1:+.1%}"
        table.add_row(one.run, f"{facts.gpus:,}", facts.gpu, _ways(facts), f"{one.rate:,.0f}", error)
    meanings = ", ".join(f"{letter} {key}" for key, letter in LETTERS.items())
    return Group(table, Text(f"{meanings}; estimate: how far ours is off", style="dim"))


def how_sure(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what is expected of the first row, on what evidence, and which rows to measure first."""
    trust = tuning.rows[0].trust
    if trust is None:
        return
    yield ""
    yield Text(f"Row 1: {interval_text(trust.tokens_per_second_per_gpu, unit=' tokens/s/GPU')}.", style="bold")
    after = " after your own runs" * bool(trust.own)
    yield Text(f"Rows are in the order of what is expected{after}; the search was by estimates.")
    if not tuning.rows[0].sure:
        said = "Nothing surely fits; row 1 is the likeliest to" if tuning.fits == FITS[0] else "Row 1 may not fit"
        yield Text(f"{said}: {trust.memory.expected:.1f} GB, 80 % {trust.memory.low:.1f} to {trust.memory.high:.1f}.")
    yield from trust_lines(trust)
    if tuning.measure is not None:
        first, second = (number + 1 for number in tuning.measure.layouts)
        gain = f"{tuning.measure.gain * 100:.{1 if tuning.measure.gain >= 0.0005 else 2}f} %"
        yield Text(f"measure rows {first} and {second} first: on average the choice is then {gain} faster")


def published_lines(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield the published runs of the same model and GPU, and whether the first row is faster than all of them."""
    if not tuning.published:
        return
    yield from ("", Text("Published runs of this model on this GPU, the most alike first:", style="dim"))
    for run in tuning.published:
        ways = f"{run.compared.facts.gpus:,} GPUs, {_ways(run.compared.facts)}"
        yield item(f"{run.run}: {ways}: {run.rate:,.0f} tokens/s/GPU, estimated {run.estimated_rate:,.0f}")
    if tuning.is_above_published:
        yield Text("row 1 is faster than all of them on as many GPUs, also at the low end of its 80 %")


def faster_outside_lines(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield the points outside what was measured that are faster in the estimate, and what to measure for each."""
    if not tuning.beyond:
        return
    yield from ("", Text("Faster in the estimate, but nobody has measured:", style="dim"))
    best = tuning.rows[0].rate
    for one in tuning.beyond:
        rate = f"{one.trial.rate:,.1f} tokens/s/GPU, {one.trial.rate / best - 1:+.1%}"
        yield item(f"{named(*one.trial.point)}: {rate}")
        yield from (item(outside_text(field), 4) for field in one.outside)
        yield item(f"measure {one.measure}", 4)


def _ways(facts: RunFacts) -> str:
    """Return the sizes of a published run that are not 1, and of tensor and pipeline in any case, by their letters."""
    sizes = {letter: getattr(facts, key) for key, letter in LETTERS.items()}
    return " ".join(f"{letter}{size}" for letter, size in sizes.items() if size > 1 or letter in "tp")


def named(layout: Layout, algorithm: str) -> str:
    """Return a point in words."""
    return f"{layout}, {algorithm}" if algorithm else str(layout)


def item(text: str, indent: int = 2, style: str = "") -> RenderableType:
    """Return a line that is indented, also where it goes on."""
    return Padding(Text(text, style=style), (0, 0, 0, indent), expand=False)
