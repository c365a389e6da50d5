"""Several algorithms side by side: one table, the best marked, differences in percent; and which are drawn.

So a packing of documents beside those of other rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from pipesched.checks import joined
from pipesched.pipeline.check import over_budget
from pipesched.pipeline.layers import BEST as BEST_RULE
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.grid import FittedTable, folded, grid, right, uncut
from pipesched.render.scene import counted, number, with_unit
from pipesched.render.summary import BAD, GOOD, cut_said, sentence
from pipesched.results.comparison import Comparison, Entry, memory_of, refused
from pipesched.results.outcome import Outcome
from pipesched.results.status import Status
from pipesched.results.trainers import PYTORCH
from pipesched.schedulers.registry import called

if TYPE_CHECKING:
    from pipesched.results.packing import Packing, PackingBaseline

FEW = 4  # algorithms that are all drawn; of more, the best ones
BEST = 3
LONGEST = 2  # times the best makespan: what is longer is cut there
MANY_DEVICES, SHOWN_DEVICES = 16, 8


def are_few(comparison: Comparison) -> bool:
    """Return whether all that applies is drawn by default."""
    return len([entry for entry in comparison if entry.applicable]) <= FEW


def drawn(comparison: Comparison, wanted: int | str | None) -> list[Outcome]:
    """Return the schedules to draw: `wanted` of them, the best first; of few ("all": of many) all in their order."""
    if wanted == "all" or (wanted is None and are_few(comparison)):
        return [entry.outcome for entry in comparison if entry.outcome]
    ranked = [entry.outcome for entry in comparison.ranked() if entry.outcome]
    return ranked[: BEST if wanted is None else int(wanted)]


def edge(together: Sequence[Schedule], comparison: Comparison, end: object = None) -> int:
    """Return the tick at which charts end: the last of all; without an `end` at most LONGEST times the best's."""
    best = comparison.best
    ends = [schedule.last_ticks for schedule in together]
    if best is None or best.outcome is None or end is not None:
        return max(ends)
    return min(max(ends), LONGEST * best.outcome.schedule.last_ticks)


def some_devices(devices: int, many: int = MANY_DEVICES) -> list[int] | None:
    """Return a few of more than `many` devices, evenly spread, with the first and the last; None for all of fewer."""
    if devices <= many:
        return None
    return [number * (devices - 1) // (SHOWN_DEVICES - 1) for number in range(SHOWN_DEVICES)]


def not_drawn(schedule: Schedule, until: int | None, rows: Sequence[int] | str | None) -> list[str]:
    """Return in words which parts of a schedule are not drawn; `until` is the tick at which it may be cut."""
    end, scale = schedule.last_ticks, schedule.problem.ticks.per_unit
    remarks = []
    if until is not None and end > until:
        remarks.append(f"cut at {number(in_units(until, scale))}, ends at {number(in_units(end, scale))}")
    shown = schedule.problem.devices if rows is None or isinstance(rows, str) else len(set(rows))
    if shown < schedule.problem.devices:
        remarks.append(f"{shown} of {schedule.problem.devices} devices")
    return remarks


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
        alike: Any = groupby(entries, lambda one: (one.rank[:3], one.runs_in, one.weights, one.file))
        for entry, *rest in (group for _, group in alike) if self.fold else ([entry] for entry in entries):
            name, cells = _cells(entry, best, star)
            others = len(rest)
            if others:
                name.append(f" and {others} more")
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


def packing_view(packing: Packing, **_: bool) -> Group:
    """Return what was packed, a row a rank, a row for each other rule, and how far the best may be."""
    pieces = "" if packing.pieces is None else f" in {len(packing.lengths)} pieces"
    documents = len(packing.lengths) - len(packing.dropped) if packing.pieces is None else packing.pieces[-1][0] + 1
    left = f", without {len(packing.dropped)} above the cap," if packing.dropped else ""
    what = f"{counted(documents, 'document')}{pieces} of {sum(packing.tokens):,} tokens{left}"
    bins = f"{counted(packing.ranks, 'rank')} x {counted(packing.microbatches, 'microbatch', 'es')}"
    heading = Text(f"{what} on {bins} of at most {packing.cap:,}, fed to {called(packing.algorithm)}")
    makespan = with_unit("makespan", packing.base.time_unit)
    table = grid(right("rank"), right("tokens"), right("work"), right(makespan), right("idle"), uncut(""))
    for rank, (tokens, works) in enumerate(zip(packing.tokens, packing.work, strict=True)):
        cells = (str(rank), f"{tokens:,}", number(sum(works)), number(packing.makespans[rank]))
        mark, style = ("slowest", "bold") if rank == packing.slowest else ("", "")
        table.add_row(*cells, f"{packing.idle(rank):.1%}", mark, style=style)
    return Group(heading, "", table, "", _packings(packing), "", *_proved(packing))


def _packings(packing: Packing) -> RenderableType:
    """Return this packing, and a row for each other rule: what it takes, how much longer that is, and what is wrong."""
    table = grid(uncut("packing"), right(with_unit("makespan", packing.base.time_unit)), right("longer"), folded(""))
    over = ((rank, said) for rank in range(packing.ranks) for said in over_budget(packing.schedule(rank)))
    texts = (f"over budget, as all that were found: rank {rank}, {said}" for rank, said in over)
    own = "" if packing.fits else next(texts, "")
    table.add_row(Text("this one", style=GOOD if packing.fits else BAD), number(packing.makespan), "", own)
    for one in packing.baselines:
        longer = "" if one.makespan is None or not packing.makespan else f"{one.makespan / packing.makespan - 1:+.1%}"
        takes = "" if one.makespan is None else number(one.makespan)
        table.add_row(one.rule, takes, longer, Text("; ".join(_faults(one, packing)), style="dim"))
    return table


def _faults(one: PackingBaseline, packing: Packing) -> Iterator[str]:
    if one.left:
        yield f"{counted(one.left, 'document')} left over"
    if one.most_tokens > packing.cap:
        yield f"{one.most_tokens:,} tokens in a microbatch"
    if one.empty and not one.left:
        yield f"{one.empty:,} of {packing.ranks * packing.microbatches:,} microbatches empty"
    if one.makespan is None and not one.left:
        yield f"{called(packing.algorithm)} has no schedule of it"
    elif not one.fits and not (one.left or one.empty or one.most_tokens > packing.cap):
        yield "over budget"


def _proved(packing: Packing) -> Iterator[Text]:
    """Yield the bound, and what is proved."""
    what = f"every packing, order and schedule of {packing.covers}"
    yield Text(f"bound {number(packing.bound)}, below {what}: gap {packing.gap:.1%}", style="dim")
    if packing.cut is not None:
        alike = ", for microbatches that are alike" * (packing.cut.rule == BEST_RULE)
        yield Text(f"cut {cut_said(packing.cut, fits=True)}{alike}", style="dim")
    if packing.tried:
        others = joined([f"{count} ({number(makespan)})" for count, makespan in packing.tried])
        yield Text(f"microbatches tried, each with its makespan: {others}", style="dim")
    if packing.more is not None:
        count, makespan = packing.more
        less = f"{1 - makespan / packing.makespan:.1%} less"
        yield Text(f"more microbatches are shorter: {count} take {number(makespan)}, {less}")
    if packing.exact:
        yield Text(f"the best of all packings and orders for {called(packing.algorithm)}", style=GOOD)
    yield Text("idle: of the devices' time until the slowest rank is done", style="dim")
