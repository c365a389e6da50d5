"""How sure an estimate is, as text: what it is based on, what lies outside, and how it compares with another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from pipesched.estimation.trust.answers import OutsideField, Trust
from pipesched.estimation.trust.evidence import PublishedRun
from pipesched.estimation.trust.speed import Interval, SpeedRatio
from pipesched.render.grid import folded, grid, right, uncut

INDENT = 2


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
        yield _item(f"{run.run}: {rate}")
    if trust.evidence.inside:
        return
    yield Text("Nobody has published a run with", style="dim")
    for one in trust.evidence.outside:
        yield _item(outside_text(one))


def _item(text: str) -> RenderableType:
    """Return a line that is indented, also where it goes on."""
    return Padding(Text(text), (0, 0, 0, INDENT), expand=False)


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
    table = grid(
        folded("\nrun"),
        right("\nGPUs"),
        uncut("\nof"),
        folded("\nlayout"),
        right("tokens/s\n/GPU"),
        right("\nestimate"),
    )
    for one in runs:
        facts = one.compared.facts
        sizes = {letter: getattr(facts, key) for key, letter in LETTERS.items()}
        ways = " ".join(f"{letter}{size}" for letter, size in sizes.items() if size > 1 or letter in "tp")
        error = f"{one.estimated_rate / one.rate - 1:+.1%}"
        table.add_row(one.run, f"{facts.gpus:,}", facts.gpu, ways, f"{one.rate:,.0f}", error)
    meanings = ", ".join(f"{letter} {key}" for key, letter in LETTERS.items())
    return Group(table, Text(f"{meanings}; estimate: how far ours is off", style="dim"))
