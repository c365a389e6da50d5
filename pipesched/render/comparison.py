"""Comparisons as text: algorithms side by side, makespan against memory, and a measure by the value of a field.

First what charts beside it show (`drawn`), then the views: `ComparisonTable` has a row for each algorithm, `pareto` a
plot and a table, `packing_view` the documents of each rank. `sweep_view` shows one of MEASURES by the value of a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Column, Table
from rich.text import Text

from pipesched.checks import joined, look_up
from pipesched.pipeline.check.check import over_budget
from pipesched.pipeline.layers.layers import BEST as BEST_RULE
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem import quantities as units
from pipesched.pipeline.problem.declared import BY_KEY, words_of
from pipesched.pipeline.problem.quantities import Exact, in_units, plain, to_fraction
from pipesched.render.grid import FittedTable, folded, grid, heads, right, uncut, width_of
from pipesched.render.palette import DIM, OVER, ink
from pipesched.render.scatter import BOLD, PlotPoint, Scatter, Wall
from pipesched.render.scene import counted, number, with_unit
from pipesched.render.summary import BAD, FORMULAS, GOOD, cut_said, held_text, sentence
from pipesched.results.comparison import Comparison, Entry, ParetoPoint, Sweep, SweepPoint, memory_of, refused
from pipesched.results.outcome import Outcome, Status
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


def not_drawn(schedule: Schedule, until: int | None, rows: Sequence[int] | str | None) -> str:
    """Say behind semicolons which parts of a schedule are not drawn; `until` is the tick at which it may be cut."""
    end, scale, devices = schedule.last_ticks, schedule.problem.ticks.per_unit, schedule.problem.devices
    cut = ""
    if until is not None and end > until:
        cut = f"; cut at {number(in_units(until, scale))}, ends at {number(in_units(end, scale))}"
    shown = devices if rows is None or isinstance(rows, str) else len(set(rows))
    return cut + (f"; {shown} of {devices} devices" if shown < devices else "")


MAKESPAN, PEAK, EXPOSED, OWN_BOUND = "\nmakespan", "peak\nmemory", "\nexposed", "vs own\nbound"
COLUMN_PRIORITY = (MAKESPAN, PEAK, OWN_BOUND, "vs\nbest", EXPOSED, "runs\nin", "\nbubble", "of\nspan", "over\nideal")
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
            if rest:
                name.append(f" and {len(rest)} more")
            if is_apart and entry is runnable:
                name.append(f" {second}")
            names.append(name)
            rows.append(cells)
        if rows:
            kept = [title for title in COLUMN_PRIORITY if any(cells[title] for cells in rows)]
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
            said = "each algorithm has its own cut, the best found; a layout that is given is the same for all"
            yield Text(said, style="dim")
        yield from (*frozen(self.comparison), *told_apart(self.comparison), *refusals(self.comparison))


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


FRONTIER = "frontier"
PARETO_MEANING = "peak memory: {} of the device that holds most; dominated: another is no worse in both, better in one"


def pareto(
    pareto_points: Sequence[ParetoPoint], comparison: Comparison, *, ascii_only: bool = False, narrow: bool = False
) -> Group:
    """Return the plot, a row for each schedule, and why others do not apply; a `narrow` table leaves the bubble out."""
    refused = refusals(comparison)
    if not pareto_points:
        return Group(*refused)
    table = _table(pareto_points, units_of(comparison), narrow=narrow)
    meaning = Text(PARETO_MEANING.format(held_text(pareto_points[0].outcome.problem)), style="dim")
    return Group(plot(pareto_points, ascii_only=ascii_only), "", table, meaning, *refused)


def plot(pareto_points: Sequence[ParetoPoint], *, ascii_only: bool = False) -> Scatter:
    """Return a plot of the schedules; in a cell that several share, one that none dominates is drawn.

    The line joins those of them that fit the budget. More than twice the least makespan is off the scale.
    """
    problem = pareto_points[0].outcome.schedule.problem
    marked = sorted(
        zip(pareto_points, marks(pareto_points), strict=True), key=lambda pair: pair[0].dominated_by is not None
    )
    looks = [OVER if not point.fits else BOLD if point.dominated_by is None else DIM for point, _ in marked]
    undominated = [point for point in pareto_points if point.fits and point.dominated_by is None]
    limits, unit = problem.memory.budget, problem.memory.unit
    ends: list[tuple[str, Exact]] = []  # of the budget; where it differs by device, the least and the most of it
    if limits is not None:
        ends = [("", limits[0])] if len(set(limits)) == 1 else [("least ", min(limits)), ("most ", max(limits))]
    return Scatter(
        [PlotPoint(p.memory, p.makespan, mark, look) for (p, mark), look in zip(marked, looks, strict=True)],
        x_title=with_unit("peak memory of the largest device", problem.memory.unit),
        y_title=with_unit("makespan", problem.time_unit),
        steps=sorted({(point.memory, point.makespan) for point in undominated}),
        walls=[Wall(to_fraction(at), f"{which}budget {number(plain(at))} {unit}".rstrip()) for which, at in ends],
        ceiling=2 * min(point.makespan for point in pareto_points),
        ascii_only=ascii_only,
    )


def marks(pareto_points: Sequence[ParetoPoint]) -> list[str]:
    """Return a mark for each schedule: a letter, a capital if none dominates it; after z digits, and then #."""
    marked = zip(pareto_points, ascii_lowercase + digits + "#" * len(pareto_points), strict=False)
    return [letter.upper() if point.dominated_by is None else letter for point, letter in marked]


def _table(pareto_points: Sequence[ParetoPoint], units: Mapping[str, str], *, narrow: bool) -> Table:
    """Return a row for each schedule of `pareto`, with its mark, and why it is no point of the frontier."""
    titles = (MAKESPAN, PEAK) if narrow else (MAKESPAN, "vs\nbest", "\nbubble", PEAK)
    name, *columns = heads(("\nalgorithm", *titles), units)
    table = grid(uncut(), folded(name.header, min_width=8 if narrow else 11), *columns, folded(min_width=len(FRONTIER)))
    letters, best = marks(pareto_points), pareto_points[0]
    for point, mark in zip(pareto_points, letters, strict=True):
        apart = float(point.makespan / best.makespan - 1) if best.makespan else 0.0
        behind = "best" if point.fits and point.makespan == best.makespan else f"{apart:+.1%}"
        peak, bubble = number(plain(point.memory)), f"{point.outcome.schedule.bubble:.1%}"
        memory = Text(peak) if point.fits else Text(f"{peak} over", style=BAD)
        style = DIM if point.dominated_by is not None else BOLD
        middle: list[str | Text] = [number(plain(point.makespan)), *([] if narrow else [behind, bubble]), memory]
        said = FRONTIER if point.fits else "over budget"
        if point.dominated_by is not None:
            said = f"dominated by {letters[point.dominated_by]}"
        table.add_row(mark, point.label, *middle, said, style=style)
    return table


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
    rules = grid(uncut("packing"), right(makespan), right("longer"), folded(""))
    over = ((rank, said) for rank in range(packing.ranks) for said in over_budget(packing.schedule(rank)))
    texts = (f"over budget, as all that were found: rank {rank}, {said}" for rank, said in over)
    own = "" if packing.fits else next(texts, "")
    rules.add_row(Text("this one", style=GOOD if packing.fits else BAD), number(packing.makespan), "", own)
    for one in packing.baselines:
        longer = "" if one.makespan is None or not packing.makespan else f"{one.makespan / packing.makespan - 1:+.1%}"
        takes = "" if one.makespan is None else number(one.makespan)
        rules.add_row(one.rule, takes, longer, Text("; ".join(_faults(one, packing)), style="dim"))
    return Group(heading, "", table, "", rules, "", *_proved(packing))


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
    """Yield what is known of the best packing: bound, cut, and other numbers of microbatches."""
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


BUBBLE, UTILIZATION = "bubble", "utilization"
MICROBATCHES = "microbatches"
TIME, MEMORY, SHARE = "time", "memory", "share"  # what a measure is measured in
MEASURES = {  # by their names in documents: name in words, formula and unit of what a cell of the table shows
    "makespan": ("makespan", FORMULAS["makespan"], TIME),
    "microbatch": ("time a microbatch", "makespan / microbatches", TIME),
    "span": ("span", FORMULAS["span"], TIME),
    "ideal": ("ideal", FORMULAS["ideal"], TIME),
    "lower_bound": ("lower bound", "no schedule of its cut, placement and backward is shorter", TIME),
    "gap": ("gap", "(makespan - bound) / bound", SHARE),
    BUBBLE: (BUBBLE, FORMULAS[BUBBLE], SHARE),
    "bubble_over_ideal": ("bubble over ideal", FORMULAS["bubble over ideal"], SHARE),
    "bubble_span": ("bubble of span", FORMULAS["bubble of span"], SHARE),
    "imbalance": ("imbalance", "part of the bubble that uneven work makes", SHARE),
    UTILIZATION: ("utilization", "useful work / (devices x makespan)", SHARE),  # the one of which more is better
    "memory": ("memory of the fullest device", "activations and static memory", MEMORY),
    "peak_memory": ("peak memory", "activations of the fullest device", MEMORY),
}
OTHER_NAMES = dict.fromkeys(("bubble_of_span", "of_span"), "bubble_span")  # as tables write them
OTHER_NAMES |= {"over_ideal": "bubble_over_ideal", "vs_bound": "gap"}


def name_of_measure(show: object) -> str:
    """Return the name in MEASURES of a measure, given so or in the words of a table. Raises ConfigError for another."""
    spelled = "_".join(show.lower().replace("-", " ").replace("_", " ").split()) if isinstance(show, str) else ""
    known = OTHER_NAMES.get(spelled, spelled)
    if known not in MEASURES:
        look_up(MEASURES, show, "measure", "show")
    return known


def title_of(sweep: Sweep, show: str) -> str:
    """Return the name of a measure with its unit: `bubble of span (%)`. Raises ConfigError for an unknown one."""
    name, _, unit = MEASURES[name_of_measure(show)]
    return with_unit(name, {TIME: sweep.time_unit, MEMORY: sweep.memory_unit, SHARE: "%"}[unit])


def title_of_field(sweep: Sweep) -> str:
    """Return the name of what a sweep varies, with its unit: `memory budget (GB)`."""
    field = BY_KEY.get(sweep.field)
    if field is None or field.dimension is None:
        return words_of(sweep.field)
    return with_unit(words_of(sweep.field), sweep.time_unit if field.dimension == units.TIME else sweep.memory_unit)


def fits(entry: Entry) -> bool:
    """Return whether an algorithm applies, and its schedule is within the budget."""
    return entry.metrics is not None and bool(entry.metrics["fits"])


def value_of(entry: Entry, point: SweepPoint, sweep: Sweep, measure: str) -> float | None:
    """Return a measure, by its name in MEASURES, of an algorithm at a value of the field; None where it does not apply.

    Of memory it is that of the fullest device.
    """
    if entry.metrics is None:
        return None
    if measure != "microbatch":
        value = memory_of(entry.metrics) if measure == "memory" else entry.metrics[measure]
        return float(value if isinstance(value, (int, float)) else max(value))
    count = 1 if sweep.field != MICROBATCHES or isinstance(point.value, str) else point.value
    return float(entry.metrics["makespan"] / (count if entry.outcome is None else entry.outcome.problem.microbatches))


LITTLE = 0.01  # of the time a microbatch: what one more microbatch gains beyond the elbow
MOST_COLUMNS = 8  # of algorithms; more of them are rows
FEWEST = 3  # values of a field that make a line
MOST_LINES = 8  # of a plot


def sweep_view(sweep: Sweep, show: str = BUBBLE, *, ascii_only: bool = False) -> Group:
    """Return the plot, if there is one, and the table. Raises ConfigError for an unknown measure."""
    plot = sweep_plot(sweep, show, ascii_only=ascii_only)
    table = sweep_table(sweep, show)
    return Group(table) if plot is None else Group(plot, "", table)


def sweep_table(sweep: Sweep, show: str = BUBBLE) -> Group:
    """Return a measure of each algorithm by the value of the field, with the best marked, and why others have none."""
    known = name_of_measure(show)
    name, formula, unit = MEASURES[known]
    rows: list[list[Text]] = []
    notes: dict[str, None] = {}  # in order, each once
    for point in sweep.points:
        values = [value_of(entry, point, sweep, known) for entry in point.comparison]
        fitting = (one for one, entry in zip(values, point.comparison, strict=True) if one is not None and fits(entry))
        best = (max if known == UTILIZATION else min)(fitting, default=None)
        where = point.value if isinstance(point.value, str) else number(point.value)
        cells: list[Text] = []
        for entry, value in zip(point.comparison, values, strict=True):
            if value is None:
                cells.append(Text("n/a", "dim"))
                at = f" at {words_of(sweep.field)} {where}: {entry.reason}"
                notes[called(entry.algorithm) + " failed" * entry.failed + at] = None
                continue
            if not fits(entry):
                notes["! over budget"] = None
            text = f"{value:.2%}" if unit == SHARE else number(int(value) if value.is_integer() else value)
            cells.append(Text(text + "!" * (not fits(entry)), GOOD if fits(entry) and value == best else ""))
        rows.append(cells)
        notes |= dict.fromkeys(text.plain for text in frozen(point.comparison))
    elbow = _elbow(sweep) if known == "microbatch" and sweep.field == MICROBATCHES else None
    head = name if unit == SHARE else title_of(sweep, show)  # cells have their %
    return Group(f"{head}: {formula}", _oriented(sweep, rows), *([elbow] if elbow else []), *notes)


def _oriented(sweep: Sweep, rows: Sequence[Sequence[Text]]) -> Table:
    """Return the cells as a table: a column for each algorithm, or a row, where they are many and the values fewer."""
    entries = sweep.points[0].comparison if sweep.points else ()
    field, names = title_of_field(sweep), [entry.label + " (frozen)" * entry.frozen for entry in entries]
    values = [one.value if isinstance(one.value, str) else number(one.value) for one in sweep.points]
    if len(names) <= max(MOST_COLUMNS, len(values)):
        each, down = zip(names, zip(*rows, strict=True), strict=True), zip(values, rows, strict=True)
        columns = (folded(name, justify="right", min_width=width_of("", cells)) for name, cells in each)
        return grid(right(field), *columns, rows=([value, *cells] for value, cells in down))
    columns, across = (Column(value, justify="right") for value in values), zip(*rows, strict=True)
    named = zip(names, across, strict=True)
    return grid(folded(f"{field}:"), *columns, rows=([name, *cells] for name, cells in named))


def _elbow(sweep: Sweep) -> str | None:
    """Return from how many microbatches on one more of them gains little, by the best algorithm at each point."""
    times = [
        (point.value, min(entry.metrics["makespan"] / point.value for entry in point.comparison if entry.metrics))
        for point in sweep.points
        if any(entry.applicable for entry in point.comparison)
    ]
    elbow = None
    for (here, time), (there, later) in reversed([*pairwise(times)]):
        gained = (time - later) / time / (there - here) if time and there > here else 0.0
        if gained >= LITTLE:
            break
        elbow = here
    if elbow is None:
        return None
    whose = ", by the best algorithm at each" if any(len(point.comparison) > 1 for point in sweep.points) else ""
    return f"beyond {number(elbow)}: one more microbatch gains less than {LITTLE:.0%}{whose}"


class PlotMark(NamedTuple):
    """A value of a measure, at a value of the field; `fits` says whether the schedule is within its budget."""

    x: int | float
    y: float
    fits: bool


def sweep_lines(sweep: Sweep, show: str = BUBBLE) -> dict[str, list[PlotMark]]:
    """Return the values of a measure by algorithm and rising value of the field (words: places); shares in percent."""
    measure = name_of_measure(show)
    lines: dict[str, list[PlotMark]] = {}
    where: dict[Any, int | float] = {
        point.value: place if isinstance(point.value, str) or sweep.of_words else point.value
        for place, point in enumerate(sweep.points)
    }
    for point in sorted(sweep.points, key=lambda point: where[point.value]):
        for entry in point.comparison:
            value = value_of(entry, point, sweep, measure)
            if value is not None:
                shown = value * 100 if MEASURES[measure][-1] == SHARE else value
                mark = PlotMark(where[point.value], shown, fits(entry))
                lines.setdefault(entry.label, []).append(mark)
    return lines


def best_lines(sweep: Sweep, show: str = BUBBLE) -> tuple[dict[str, list[PlotMark]], str]:
    """Return the lines that a plot shows, of many the best at the largest value, and in words that they are not all."""
    lines, sign = sweep_lines(sweep, show), -1 if name_of_measure(show) == UTILIZATION else 1
    if len(lines) <= MOST_LINES:
        return lines, ""
    best = sorted(lines, key=lambda name: (-lines[name][-1].x, sign * lines[name][-1].y))[:MOST_LINES]
    return {name: line for name, line in lines.items() if name in best}, f"the best {MOST_LINES} of {len(lines)}"


def sweep_plot(sweep: Sweep, show: str = BUBBLE, *, ascii_only: bool = False) -> Scatter | None:
    """Return a line for each algorithm (of many, the best), or None where less than FEWEST numbers have one."""
    lines, note = best_lines(sweep, show)
    if sweep.of_words or len({mark.x for line in lines.values() for mark in line}) < FEWEST:
        return None
    letters = [*ascii_lowercase, *ascii_uppercase]
    names = [(letters[place % len(letters)], name, ink(place)) for place, name in enumerate(lines)]
    looks = [*zip(names, lines.values(), strict=True)]
    return Scatter(
        [PlotPoint(x, y, mark, style if fit else OVER) for (mark, _, style), line in looks for x, y, fit in line],
        x_title=title_of_field(sweep),
        y_title=title_of(sweep, show),
        paths=[([(x, y) for x, y, _ in line], style) for (*_, style), line in looks],
        names=names,
        note=note,
        ascii_only=ascii_only,
        counts=all(float(point.value).is_integer() for point in sweep.points),
    )
