"""A tuning as text: `tuning_view`, the best points, where the time of the best goes, and what memory forbids.

Or `pareto_view`, speed against memory: a plot of the points of which none is both slower and larger, and their table.
Both show `point_lines` in a `PointsTable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from string import ascii_uppercase

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult, group
from rich.style import Style
from rich.text import Text

from pipesched.render.estimate import faster_outside_lines, gpus_text, how_sure, item, named, published_lines
from pipesched.render.grid import GAP, fitting_columns, folded, grid, right, uncut, width_of, without_room
from pipesched.render.palette import DIM
from pipesched.render.scatter import PlotPoint, Scatter, Wall
from pipesched.render.scene import numbers_text
from pipesched.render.summary import BAD, GOOD
from pipesched.schedulers.registry import called
from pipesched.tuning.judged import against_first
from pipesched.tuning.result import TimeShare, Tuning
from pipesched.tuning.space import Parallelism
from pipesched.tuning.trial import Trial

MAY_NOT_FIT = "may not fit"
LEAST_GAIN = 0.0005  # that is said of a row
PointLine = tuple[Trial, str, list[str]]  # a point, the numbers of its rows (or a mark), and remarks below it


def point_lines(
    trials: Sequence[Trial], *, rows: Sequence[Sequence[int]] = (), marks: Sequence[str] = (), tied: int = 0
) -> list[PointLine]:
    """Return a line for each list of `rows` that share one, by default for each row, with its mark, or numbers from 1.

    Remarks: what a point that may not fit would gain, and that the first `tied` rows cannot be told apart.
    """
    found, rows = [], rows or [[row] for row in range(len(trials))]
    for number, here in enumerate(rows):
        first, *others = (trials[row] for row in here)
        gain = 0.0 if first.behind is None else first.behind.expected - 1
        remarks = [MAY_NOT_FIT + f"; if it does, {gain:+.1%}" * (gain >= LEAST_GAIN)] * first.may_not_fit
        remarks += _others(first, others, trials[0].rate)
        found.append((first, marks[number] if marks else numbers_text([row + 1 for row in here]), remarks))
    if tied > 1:
        last = max((number for number, here in enumerate(rows) if here[0] < tied), default=0)
        found[last][-1].append(f"these {tied} cannot be told apart (rows 1-{tied})")
    return found


def _others(first: Trial, others: Sequence[Trial], best: float) -> Iterator[str]:
    """Yield in which chunks, and under which algorithms, the other points of a layout are, and how slow the last is."""
    if not others:
        return
    chunks: dict[str, list[str]] = {}
    for trial in others:
        chunks.setdefault(trial.point.algorithm, []).append(str(trial.point.layout.chunks))
    own = chunks.pop(first.point.algorithm, [])
    parts = [f"chunks {', '.join(own)}"] if own else []
    names: dict[str, list[str]] = {}
    for name, sizes in chunks.items():
        is_usual = sizes == [str(first.point.layout.chunks)]
        names.setdefault("" if is_usual else f" (chunks {', '.join(sizes)})", []).append(name)
    if names:
        parts.append(f"schedules {', '.join(', '.join(alike) + sizes for sizes, alike in names.items())}")
    is_known = all(trial.trust is not None for trial in (first, *others))
    are_alike = is_known and not any(ratio.is_decided for ratio in against_first([first, *others])[1:])
    yield f"other {'; '.join(parts)}: {'not to be told apart, ' * are_alike}to {others[-1].rate / best - 1:+.1%}"


LETTERS = {"tensor": "t", "pipeline": "p", "chunks": "v", "context": "c", "expert": "e", "expert_tensor": "et"}
LETTERS |= {"micro": "b", "precision": "precision", "recompute": "recompute", "shard": "shard", "shard_ranks": "N"}
WORDS = ("precision", "recompute", "shard")  # sizes of a layout whose values are words
USUAL = (1, "none", None)  # a column of nothing else is left out
LAYOUT, ALGORITHM = "\nlayout", "\nalgorithm"
RATE, APART, MFU, BUBBLE, HELD, SPARE = "tokens/s\n/GPU", "vs\nbest", "\nMFU", "\nbubble", "\nGB", "GB\nleft"
LIKELY, EXPECTED = "\n80 %", "\nexpected"
COLUMN_PRIORITY = (RATE, EXPECTED, SPARE, LIKELY, HELD, APART, MFU, BUBBLE)
NARROWEST_LAYOUT = 10
MEANINGS = {HELD: "GB: of the fullest device", SPARE: "left: on the one that has least left"}
LIKELY_MEANING = "80 %: tokens/s/GPU between which 8 of 10 such runs are"
MOST_DIGITS = 100  # tokens/s/GPU: more are shown as whole numbers


class PointsTable:
    """A line for each point, those as fast as the first marked; `title` is that of the marks before the lines.

    A narrow table has fewer columns, and a very narrow one a layout as one text.
    """

    def __init__(self, lines: Sequence[PointLine], title: str = "row") -> None:
        self.lines, self.title = lines, f"\n{title}"
        self.trials = [trial for trial, *_ in lines]
        self.best = self.trials[0].rate if self.trials else 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.trials:
            return
        layouts = [trial.point.layout for trial in self.trials]
        sizes = [size for size in LETTERS if any(getattr(layout, size) not in USUAL for layout in layouts)]
        cells = [_cells(trial, self.best) for trial in self.trials]
        has_trust = any(trial.trust for trial in self.trials)
        kept = [title for title in COLUMN_PRIORITY if has_trust or title not in (LIKELY, EXPECTED)]
        named = self._named(sizes, is_compact=False)
        room = options.max_width - _together(named)
        is_compact = not fitting_columns(cells, [RATE], room)
        if is_compact:
            named = self._named(sizes, is_compact=True)
            room = options.max_width - _together({**named, LAYOUT: [" " * NARROWEST_LAYOUT]})
        shown = fitting_columns(cells, kept, room) or [RATE]
        values = {title: [one[title] for one in cells] for title in shown}
        table = {**named, **values}
        widths = [width_of(title, texts) for title, texts in table.items()]
        if is_compact:
            room = options.max_width - _together(values) - GAP * len(named)
            mark, layout, algorithm = widths[: len(named)]
            found = [mark, min(layout, max(room - mark - algorithm, NARROWEST_LAYOUT)), algorithm]
            while sum(found) > room and max(found) > 1:  # the widest gives first, none all
                found[found.index(max(found))] -= 1
            widths[: len(named)] = found
        at_left = (LAYOUT, ALGORITHM, "\n", "\nrow")
        columns = [
            folded(title, justify="left" if title in at_left else "right", width=width)
            for title, width in zip(table, widths, strict=True)
        ]
        rows, start = [*zip(*table.values(), strict=True)], 0
        for end, (*_, remarks) in enumerate(self.lines, 1):
            if remarks or end == len(rows):
                yield grid(*(column.copy() for column in columns), rows=rows[start:end], header=not start)
                yield from (item(remark, style="dim") for remark in remarks)
                start = end
        letters = [f"{LETTERS[size]} {size}" for size in sizes if size not in WORDS]
        meaning = [", ".join(letters)] * bool(letters) + [text for column, text in MEANINGS.items() if column in shown]
        meaning += [LIKELY_MEANING] * (LIKELY in shown)
        yield from without_room(kept, shown)
        if meaning:
            yield Text("; ".join(meaning), style="dim")

    def _named(self, sizes: Sequence[str], *, is_compact: bool) -> dict[str, list[Text]]:
        """Return the columns that say which points these are, by their titles: marks, sizes and algorithms."""
        layouts = [trial.point.layout for trial in self.trials]
        found = {self.title: [mark for _, mark, _ in self.lines]}
        if is_compact:
            found[LAYOUT] = [brief(layout, sizes) for layout in layouts]
        else:
            found |= {f"\n{LETTERS[size]}": [_size(layout, size) for layout in layouts] for size in sizes}
        looks = [GOOD if trial.rate == self.best and trial.fits else "" for trial in self.trials]
        names = [Text(called(one.point.algorithm), style=look) for one, look in zip(self.trials, looks, strict=True)]
        return {**{title: [*map(Text, texts)] for title, texts in found.items()}, ALGORITHM: names}


def _together(columns: Mapping[str, Sequence[Text | str]]) -> int:
    return sum(width_of(title, texts) for title, texts in columns.items()) + GAP * (len(columns) - 1)


def brief(layout: Parallelism, sizes: Sequence[str]) -> str:
    """Return a layout as a short text: t4 p8 v2."""
    named = [size for size in sizes if getattr(layout, size) not in USUAL or size in ("tensor", "pipeline")]
    return " ".join(("" if size in WORDS else LETTERS[size]) + _size(layout, size) for size in named)


def _size(layout: Parallelism, size: str) -> str:
    value = getattr(layout, size)
    if size == "shard_ranks" and value is None:
        return "all"
    return f"full {value}" if size == "recompute" and isinstance(value, int) else str(value)


def _cells(trial: Trial, best: float) -> dict[str, Text]:
    is_best = trial.rate == best
    likely = None if trial.trust is None else trial.trust.tokens_per_second_per_gpu
    ends = () if likely is None else (likely.low, likely.high)
    return {
        RATE: Text(f"{trial.rate:,.1f}"),
        EXPECTED: Text("" if likely is None else f"{likely.expected:,.1f}"),
        LIKELY: Text("-".join(f"{end:,.0f}" if end >= MOST_DIGITS else f"{end:.1f}" for end in ends)),
        APART: Text("best" if is_best else f"{trial.rate / best - 1:+.1%}" if best else ""),
        MFU: Text("" if trial.step is None else f"{trial.step.mfu:.1%}"),
        BUBBLE: Text(f"{trial.bubble:.1%}"),
        HELD: Text(f"{trial.memory:.1f}"),
        SPARE: Text(f"{trial.spare:.1f}", style="" if trial.fits else BAD),
    }


REASONS = {  # why points are not simulated -> what is said of them
    "evidence": "are unlike all that was measured",
    "divisibility": "do not divide",
    "memory": "do not fit",
    "bound": "cannot be faster",
    "dominance": "do as another does",
}
LEAST_SHOWN = 0.0005  # of the GPU time: smaller parts are left out
LONGEST_BAR = 30
BOLD = Style(bold=True)
OTHER = "o"  # a point that another one is no worse than
MEANING = "of the points that were simulated none is faster than one of these and holds less"


def tuning_table(tuning: Tuning) -> RenderableType:
    """Return a row for each of the best points; where nothing fits, what misses its memory by least."""
    if not tuning.rows:
        return Group(*_nearest(tuning))
    return PointsTable(point_lines(tuning.rows, tied=tuning.tied))


def head(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what was tuned, and how many points the answer rests on."""
    found = tuning.estimate
    if found is not None:
        yield Text(f"{found.setup.model.name} on {gpus_text(found.setup)}", style="bold")
    elif tuning.name:
        yield Text(tuning.name, style="bold")
    yield Text(sentence(tuning), style="" if tuning.rows else BAD)


def sentence(tuning: Tuning) -> str:
    """Return how many points were searched, how many were simulated, and what is known of the others."""
    outside = tuning.pruned.get("evidence", 0)
    searched = max(tuning.space - outside - tuning.left, tuning.simulated)
    points = f"{searched:,} point{'s' * (searched != 1)}"
    if searched < tuning.space:
        points += f" searched (of {tuning.space:,})"
    if tuning.rows:
        start = f"best {'' if tuning.is_complete else 'so far '}of {points}"
    else:
        capacity = f" in {tuning.capacity:g} GB" * bool(tuning.capacity)
        is_none = tuning.pruned.get("divisibility", 0) == tuning.space
        verb = "divides" if is_none else "fits" if tuning.is_complete else "is known to fit"
        start = f"none of {points} {verb}{'' if is_none else capacity}"
    if tuning.is_widened and tuning.rows:
        start = f"No layout that fits resembles a measured run, so every layout was searched; {start}"
    if tuning.simulated == tuning.space:
        return f"{start}: all simulated"
    counts = [f"{tuning.simulated:,} simulated"] if tuning.simulated else []
    if tuning.simulated < searched:
        counts.append(f"{'the others' if counts else 'all'} proved {'worse or ' * bool(tuning.rows)}impossible")
    left = [f"{outside:,} unlike all that was measured"] if outside else []
    if tuning.left:
        left.append(f"{tuning.left:,} when the search was stopped")
    parts = [*([", ".join(counts)] if counts else []), *([f"not searched: {', '.join(left)}"] if left else [])]
    return f"{start}: {'; '.join(parts)}"


@group()
def tuning_view(tuning: Tuning, *, ascii_only: bool = False, all_rows: bool = False) -> Iterator[RenderableType]:
    """Return what was searched, a line for each of the best layouts (or rows), and evidence; or what nearly fits."""
    yield from head(tuning)
    if tuning.rows:
        yield ""
        alike: dict[object, list[int]] = {}  # rows of one layout whatever its chunks; with `all_rows` each alone
        for row, trial in enumerate(tuning.rows):
            key = row if all_rows else (trial.point.layout._replace(chunks=1), trial.may_not_fit)
            alike.setdefault(key, []).append(row)
        yield PointsTable(point_lines(tuning.rows, rows=[*alike.values()], tied=tuning.tied))
        yield from how_sure(tuning)
        if verdicts := tuning.rows[0].verdicts:
            takers = [f"{one.trainer} ({one.note})" if one.note else one.trainer for one in verdicts if one.takes]
            refusals: dict[str, list[str]] = {}
            for refused in (one for one in verdicts if not one.takes):
                refusals.setdefault(refused.note, []).append(refused.trainer)
            why = [f"not {', '.join(names)}: {note}" for note, names in refusals.items()]
            yield from ("", Text(f"runs in: {'; '.join([', '.join(takers) or 'none', *why])}", style="dim"))
        yield from published_lines(tuning)
        yield from faster_outside_lines(tuning)
        shares = [one for one in tuning.parts if one.share >= LEAST_SHOWN]
        if shares:
            yield from ("", Text("Where the GPU time of the best step goes:", style="dim"))
            yield Bars(shares, ascii_only=ascii_only)
        if tuning.near_misses and tuning.best is not None:
            yield from ("", Text("Memory forbids what may be faster:", style="dim"))
            for one in tuning.near_misses:
                most = f"at most {one.most / tuning.best.rate - 1:.1%} faster"
                yield item(f"{named(one.layout, one.algorithm)}: {_too_much(one.over)}; {most}")
    else:
        yield from _nearest(tuning)
    if any(tuning.pruned.values()):
        reasons = sorted(tuning.pruned.items(), key=lambda pair: -pair[1])
        counts = [f"{count:,} {REASONS.get(reason, reason)}" for reason, count in reasons if count]
        yield from ("", Text(f"Not simulated: {', '.join(counts)}.", style="dim"))
    yield from (Text(f"note: {note}") for note in tuning.notes)


def _nearest(tuning: Tuning) -> Iterator[RenderableType]:
    if not tuning.nearest:
        return
    yield from ("", Text("What misses its memory by least:", style="dim"))
    for miss in tuning.nearest:
        yield item(f"{named(miss.layout, miss.algorithm)}: {_too_much(miss.over)}")
        for change in miss.help:
            yield item(f"it fits with {change}", 4)


def _too_much(over: float) -> str:
    return f"{over:.1f} GB too much" if over >= 0.05 else f"{over * 1000:,.0f} MB too much"


class Bars:
    """A row for each part of a whole: its name, its share, and where there is room a bar."""

    def __init__(self, shares: Sequence[TimeShare], *, ascii_only: bool = False) -> None:
        self.shares, self.ascii_only = shares, ascii_only

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        mark = "#" if self.ascii_only or options.ascii_only else "█"
        texts = [f"{one.share:.1%}" for one in self.shares]
        taken = GAP + max(len(one.name) for one in self.shares) + GAP + max(map(len, texts)) + GAP
        room = min(options.max_width - taken, LONGEST_BAR)
        most = max(one.share for one in self.shares)
        lengths = [max(round(one.share / most * room), 1) if room >= LONGEST_BAR // 5 else 0 for one in self.shares]
        names = [f"  {one.name}" for one in self.shares]
        rows = zip(names, texts, [mark * length for length in lengths], strict=True)
        yield grid(folded(), right(), uncut(), rows=rows, header=False)


def pareto_view(tuning: Tuning, *, ascii_only: bool = False) -> Group:
    """Return a plot of the Pareto points, joined, and of other rows, and their table; or what is nearest to fitting."""
    if not tuning.pareto:
        return tuning_view(tuning, ascii_only=ascii_only)
    points, letters = tuning.pareto, marks(len(tuning.pareto))
    chosen = {trial.point for trial in points}
    others = [trial for trial in tuning.rows if trial.point not in chosen]
    drawn = [PlotPoint(t.memory, t.rate, mark, BOLD) for t, mark in zip(points, letters, strict=True)]
    plot = Scatter(
        [*drawn, *(PlotPoint(t.memory, t.rate, OTHER, DIM) for t in others)],
        x_title="GB of the fullest device",
        y_title="tokens/s/GPU",
        walls=[Wall(Fraction(tuning.capacity), f"{tuning.capacity:g} GB of a GPU")] if tuning.capacity else [],
        paths=[([(t.memory, t.rate) for t in sorted(points, key=lambda t: t.memory)], DIM)],
        names=[(OTHER, "other points of the table", DIM)] if others else [],
        ascii_only=ascii_only,
    )
    table = PointsTable(point_lines(points, marks=letters), "")
    return Group(*head(tuning), "", plot, "", table, Text(MEANING, style="dim"))


def marks(count: int) -> list[str]:
    """Return a mark for each of so many points: a capital, after Z #."""
    return [*ascii_uppercase, *["#"] * (count - len(ascii_uppercase))][:count]
