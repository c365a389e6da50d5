"""Several algorithms side by side: one table, the best marked, differences in percent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from pipesched.render.grid import FittedTable
from pipesched.render.summary import BAD, GOOD, sentence
from pipesched.render.timescale import number
from pipesched.results.comparison import Comparison, Entry, memory_of, refused
from pipesched.results.status import Status
from pipesched.results.trainers import PYTORCH

MAKESPAN, PEAK, EXPOSED, OWN_BOUND = "\nmakespan", "peak\nmemory", "\nexposed", "vs own\nbound"
KEPT_LONGEST = (MAKESPAN, PEAK, OWN_BOUND, "vs\nbest", EXPOSED, "runs\nin", "\nbubble", "of\nspan", "over\nideal")
MEANINGS = {
    "\nbubble": "bubble: idle device-time / (devices x makespan)",
    "over\nideal": "over ideal: Megatron's",
    "of\nspan": "of span: Zero Bubble's",
    OWN_BOUND: "vs own bound: that of a row's own cut, placement and backward",
    EXPOSED: "exposed: what gathers and reductions add to the makespan",
}
DECIDED = 0.9  # how likely a step is shorter, from which that counts as known


class ComparisonTable:
    """A row for each algorithm, in the order asked for, and below the table why others do not apply.

    The best makespan among the schedules that fit the budget is marked. With `fold`, rows one below
    the other that differ in nothing but memory and bubble of the span are one row, the first, which says how many more
    there are.
    """

    def __init__(self, comparison: Comparison, *, ascii_only: bool = False, fold: bool = False) -> None:
        self.comparison, self.ascii_only, self.fold = comparison, ascii_only, fold

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = self.ascii_only or options.ascii_only
        best, runnable = self.comparison.best, self.comparison.best_in(PYTORCH)
        star, second = "*+" if ascii_only else "★☆"
        is_apart = best is not None and runnable is not None and runnable.rank[:3] != best.rank[:3]
        names, rows = [], []
        entries = [entry for entry in self.comparison if entry.applicable]
        alike = lambda one: (one.rank[:3], one.runs_in, one.weights, one.file) if self.fold else id(one)  # noqa: E731
        for entry, *others in (group for _, group in groupby(entries, alike)):
            name, cells = _cells(entry, best, star)
            name.append(f" and {len(others)} more" * bool(others))
            if is_apart and entry is runnable:
                name.append(f" {second}")
            names.append(name)
            rows.append(cells)
        if rows:
            kept = [title for title in KEPT_LONGEST if any(cells[title] for cells in rows)]
            yield (table := FittedTable(names, rows, kept, units_of(self.comparison)))
            columns = table.columns(options.max_width)
            meanings = [text for column, text in MEANINGS.items() if column in columns]
            if is_apart:
                meanings.append(f"{second}: the best that PyTorch runs")
            if meanings:
                yield Text("; ".join(meanings), style="dim")
            if best is not None and best.metrics is not None and "utilization" in best.metrics:
                schedule = None if best.outcome is None else best.outcome.schedule
                said = sentence(best.metrics, self.comparison.time_unit, schedule).plain
                yield Text("")
                yield Text(f"{best.label}: ", style="bold").append(said, style="not bold")
        if len({entry.cut.layout for entry in self.comparison if entry.cut is not None}) > 1:
            yield Text(
                "each algorithm has its own cut, the best found; a layout that is given is the same for all",
                style="dim",
            )
        yield from frozen(self.comparison)
        yield from told_apart(self.comparison)
        yield from refusals(self.comparison)


def frozen(comparison: Iterable[Entry]) -> Iterator[Text]:
    """Yield which rows keep the order that was given, beside others that plan anew."""
    names = [*dict.fromkeys(entry.label for entry in comparison if entry.applicable and entry.frozen)]
    if names and not all(entry.frozen for entry in comparison if entry.applicable):
        yield Text(f"in the order that was given: {', '.join(names)}; the others plan anew", style="dim")


def units_of(comparison: Comparison) -> dict[str, str]:
    """Return the units of measure that the config names, by the titles of columns."""
    units = {MAKESPAN: comparison.time_unit, EXPOSED: comparison.time_unit, PEAK: comparison.memory_unit}
    return {title: unit for title, unit in units.items() if unit}


def told_apart(comparison: Comparison) -> Iterator[Text]:
    """Yield which steps of a model are known to be shorter or longer than the first one's, and which are not."""
    verdicts: dict[str, list[str]] = {}
    for entry in comparison:
        likely = comparison.faster(entry)
        if likely is not None:
            known = "faster" if likely >= DECIDED else "slower" if likely <= 1 - DECIDED else "cannot be told apart"
            verdicts.setdefault(known, []).append(entry.label)
    if not verdicts:
        return
    first = next(entry.label for entry in comparison if entry.applicable)
    texts = [f"{known}: {', '.join(names)}" for known, names in verdicts.items()]
    yield Text(f"a step beside {first}'s, with 90 %: {'; '.join(texts)}", style="dim")


def refusals(comparison: Comparison) -> list[Text]:
    """Return a sentence for each algorithm that does not apply, or failed."""
    return [Text(refused(entry)) for entry in comparison if not entry.applicable]


def _cells(entry: Entry, best: Entry | None, star: str) -> tuple[Text, dict[str, Text]]:
    """Return the name of a row, and its cells by the title of their column."""
    metrics: Mapping[str, Any] = entry.metrics or {}
    least = best.metrics["makespan"] if best is not None and best.metrics else None
    is_best = metrics["makespan"] == least and metrics["fits"]
    name = Text(f"{entry.label} {star}" if is_best else entry.label, style=GOOD if is_best else "")
    peak = number(max(memory_of(metrics)))
    apart = (metrics["makespan"] - least) / least if least else 0.0
    is_optimal = metrics["makespan"] == metrics["lower_bound"] and metrics["fits"]
    standing = str(Status.OPTIMAL) if entry.outcome is None else entry.outcome.standing  # of an open cut: of its cut
    trainers = "PyTorch" if PYTORCH in entry.runs_in else "none"
    gap = "" if metrics["gap"] is None else f"{metrics['gap']:+.1%}"
    return name, {
        MAKESPAN: Text(number(metrics["makespan"])),
        "vs\nbest": Text("best" if is_best else f"{apart:+.1%}"),
        "\nbubble": Text(f"{metrics['bubble']:.1%}"),
        "over\nideal": Text(f"{metrics['bubble_over_ideal']:.1%}"),
        "of\nspan": Text(f"{metrics['bubble_span']:.1%}"),
        EXPOSED: Text(number(metrics["step"]["network"]) if "step" in metrics else ""),
        PEAK: Text(peak if metrics["fits"] else f"{peak} over", style="" if metrics["fits"] else BAD),
        OWN_BOUND: Text(standing, style=GOOD) if is_optimal else Text(gap),
        "runs\nin": Text(trainers if entry.weights == 1 else f"{trainers}, weights x{entry.weights}"),
    }
