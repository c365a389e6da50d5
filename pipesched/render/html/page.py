"""The page itself, by `page`: one HTML file with style, program, data and a `still` picture, of the files in `page/`.

The program stands in it without its comments and the spaces that mean nothing: `page/program.json` holds it so.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise

from pipesched.checks import shown
from pipesched.core.reasons import classes
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import ALL_KINDS, LANES
from pipesched.render.comparison import some_devices
from pipesched.render.html.data import IDLE_LOOKS, STRIPES, Palette, schedule_data
from pipesched.render.palette import HUES, IDLE_MARKS, Rgb, colour_of, text_on
from pipesched.render.scene import LETTERS, OF_STAGES, Row, device_row, lane_rows, looks_of, number
from pipesched.results.comparison import Comparison, refused
from pipesched.results.kinds import COMPARISON, RESULTS, SCHEDULE, kind_of
from pipesched.results.outcome import Outcome

WIDTH, LEFT, HEAD, FOOT = 1000, 70, 20, 26
MOST_SLOTS = 5_000  # of more, a device is drawn by how busy it is
COLUMNS, LEVELS = 500, 8
MOST_LABELLED = 600
MOST_DEVICES = 128
NARROWEST_LABEL = 14
DIGIT = 7  # the width of one
BUSY = "#5b7fa6"
TRANSFERS = [lane.value for lane in LANES]  # lanes that the picture leaves out


def still(schedules: Sequence[tuple[str, Outcome]]) -> str:
    """Return the picture of these schedules, one below the other, each with its title."""
    until = max(one.schedule.last_ticks / one.problem.ticks.per_unit for _, one in schedules) or 1
    slots = sum(len(order) for _, outcome in schedules for order in outcome.schedule.plan.orders)
    parts, top = [], 0.0
    counts = [one.problem.devices for _, one in schedules]
    drawn = [some_devices(count, MOST_DEVICES) or range(count) for count in counts]  # all, or some of very many
    height = max(4, min(18, 900 // sum(map(len, drawn))))
    for (name, outcome), devices in zip(schedules, drawn, strict=True):
        schedule, unit = outcome.schedule, f" {outcome.problem.time_unit}".rstrip()
        title = html.escape(f"{name}: makespan {number(schedule.makespan)}{unit}, bubble {schedule.bubble:.2%}")
        parts.append(f'<text x="0" y="{_short(top + HEAD - 6)}" font-weight="bold">{title}</text>')
        chart = _Chart(schedule, (WIDTH - LEFT) / until, height)
        for device in devices:
            chart.add(device, top + HEAD, busy=slots > MOST_SLOTS)
            top += height + (2 if height > 6 else 1)
            for what, lane in lane_rows(schedule, device) if slots <= MOST_SLOTS else ():
                if what not in TRANSFERS:
                    chart.add_slots(lane, top + HEAD, sharing=2)  # a lane is half as high
                    top += height / 2 + 2
        parts += chart.parts(labelled=slots <= MOST_LABELLED and height > 11)
        top += HEAD + 6
    parts.append(f'<path d="M{LEFT} {_short(top)}H{WIDTH}" stroke="currentColor" opacity=".5"/>')
    axis_unit = schedules[0][1].problem.time_unit
    for quarter, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        mark = html.escape(f"{until * quarter / 4:g}{f' {axis_unit}' if axis_unit and quarter == 4 else ''}")
        x = _short(LEFT + (WIDTH - LEFT) * quarter / 4)
        parts.append(f'<text x="{x}" y="{_short(top + 16)}" text-anchor="{anchor}">{mark}</text>')
    label = html.escape("Still picture of the schedule: " + ", ".join(name for name, _ in schedules))
    return (
        f'<svg viewBox="0 0 {WIDTH} {round(top + FOOT)}" role="img"'
        f' aria-label="{label}" style="width:100%;max-width:1200px;height:auto;font:11px sans-serif"'
        f' fill="currentColor">{"".join(parts)}</svg>'
    )


class _Chart:
    """The rows of one schedule: a path for each colour, and the labels of slots for each colour of text."""

    def __init__(self, schedule: Schedule, per_unit: float, height: int) -> None:
        self.schedule, self.height = schedule, height
        self.scale = per_unit / schedule.problem.ticks.per_unit
        self.look = looks_of(schedule, by_kind=False)
        self.names: list[str] = []
        self.areas: list[str] = []
        self.boxes: dict[tuple[Rgb, int], list[str]] = {}  # by colour, and by how many share the height of a row
        self.labels: dict[Rgb, list[str]] = {}

    def add(self, device: int, y: float, *, busy: bool) -> None:
        """Add what a device runs at a height: its slots, or, with `busy`, in what share of each column it works."""
        if self.height > 8:
            name = self.schedule.problem.device_name(device)
            squeezed = ' textLength="66" lengthAdjust="spacingAndGlyphs"' if " x" in name else ""
            self.names.append(f'<text y="{_short(y + self.height - 5)}"{squeezed}>{name}</text>')
        row = device_row(self.schedule, device)
        if not busy:
            self.add_slots(row, y)
            return
        column, unit = (WIDTH - LEFT) / COLUMNS, self.height / LEVELS
        ticks = column / self.scale
        levels = [round(row.worked(place * ticks, (place + 1) * ticks) / ticks * LEVELS) for place in range(COLUMNS)]
        area = f"M0 {_short(y + self.height)}"
        for position, (before, level) in enumerate(pairwise((0, *levels, 0))):
            if level != before:
                area += f"H{_short(position * column)}v{_short((before - level) * unit)}"
        self.areas.append(f'<path fill="{BUSY}" d="{area}z"/>')

    def add_slots(self, row: Row, y: float, sharing: int = 1) -> None:
        """Add the slots of a row at a height, which `sharing` rows have together; a row of its own has labels."""
        plan = self.schedule.plan
        for slot, start, end in zip(row.order, row.starts, row.ends, strict=True):
            x, width, paired = start * self.scale, (end - start) * self.scale, plan.paired(slot)
            ops = [plan.index.op(slot)] if paired is None else [plan.index.op(slot), paired]
            for place, op in enumerate(ops):
                colour = colour_of(*self.look(op))
                middle = y + (place + 0.5) * self.height / (len(ops) * sharing)
                box = f"M{_short(x)} {_short(middle)}h{_short(max(width - 0.4, 0.3))}"
                self.boxes.setdefault((colour, len(ops) * sharing), []).append(box)
            if width > NARROWEST_LABEL and paired is None and sharing == 1:
                at = f'x="{_short(x + width / 2)}" y="{_short(y + self.height - 5)}"'
                label = str(op.stage if op.kind in OF_STAGES else op.microbatch)
                full = f"{label}.{op.slice}"  # with its slice where that fits too
                has_room = op.is_sliced and op.kind not in OF_STAGES and len(full) * DIGIT < width
                text = f"<text {at}>{full if has_room else label}</text>"
                self.labels.setdefault(text_on(colour), []).append(text)

    def parts(self, *, labelled: bool) -> Iterator[str]:
        yield from self.names
        yield f'<g transform="translate({LEFT} 0)" fill="none">'
        yield from self.areas
        for (colour, parts), boxes in self.boxes.items():
            yield f'<path stroke="{_hex(colour)}" stroke-width="{_short(self.height / parts)}" d="{"".join(boxes)}"/>'
        for colour, texts in self.labels.items() if labelled else ():
            yield f'<g fill="{_hex(colour)}" text-anchor="middle">{"".join(texts)}</g>'
        yield "</g>"


def _hex(colour: Rgb) -> str:
    full = "#{:02x}{:02x}{:02x}".format(*colour)
    return f"#{full[1]}{full[3]}{full[5]}" if full[1::2] == full[2::2] else full


def _short(value: float) -> str:
    """Return a length with at most two digits behind the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


ENGINE = ("graph", "timing", "reasons", "step", "messages", "document")  # needs no browser
VIEW = ("state", "scene", "draw", "overlay", "panels", "input", "start")


@cache
def asset(name: str) -> str:
    """Return a file of the page."""
    return (files("pipesched.render.html") / "page" / name).read_text(encoding="utf-8")


@cache
def style() -> str:
    """Return the style of a page, without spaces that mean nothing."""
    return re.sub(r"\s*([{},;])\s*|(?<=:) ", r"\1", asset("page.css"))


@cache
def program(names: Sequence[str] = (*ENGINE, *VIEW)) -> str:
    """Return these parts of the program, one after the other, as `scripts/compact.py` wrote them."""
    parts = json.loads(asset("program.json"))
    return "".join(parts[name] for name in names)


Titled = tuple[str, Outcome]  # the title of a schedule, and the schedule


def page(result: object) -> str:
    """Return the page of a schedule, of the schedules of a comparison, or of an explanation.

    Raises ConfigError for what holds no schedule, InvalidSchedule for one that breaks a rule, and NotApplicable for one
    with too many digits.
    """
    schedules = titled(result)
    for _, outcome in schedules:
        checked(outcome.schedule)
    remarks = []
    if isinstance(result, Comparison):
        remarks = [refused(entry) for entry in result if not entry.applicable]
    palette: Palette = {}
    data = {
        "schedules": [schedule_data(outcome, name, palette) for name, outcome in schedules],
        "palette": list(palette),
        "hues": len(HUES),
        "stripes": STRIPES,
        "idle": {idle.value: (mark.meaning, mark.letter, *IDLE_LOOKS[idle]) for idle, mark in IDLE_MARKS.items()},
        "explains": kind_of(result)[0] not in (SCHEDULE, COMPARISON),
        "remarks": remarks,
    }
    is_queued = any(outcome.problem.messages for _, outcome in schedules)
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # As it may stand in a script element: nothing in it ends the element, or begins a comment.
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    title = " · ".join(name for name, _ in schedules)
    parts = {
        "TITLE": html.escape(f"{title} - pipesched"),
        "HEADING": html.escape(title),
        "STYLE": style(),
        "LEGEND": legend(outcome for _, outcome in schedules),
        "STILL": still(schedules),
        "DATA": text,
        "PROGRAM": program(tuple(name for name in (*ENGINE, *VIEW) if is_queued or name != "messages")),
    }
    before, *rest = asset("page.html").split("<!--")
    return before + "".join(parts[name] + text for name, _, text in (entry.partition("-->") for entry in rest))


def titled(result: object) -> list[Titled]:
    """Return the schedules of a result, by the function RESULTS names. Raises ConfigError where there is none."""
    kind, known = kind_of(result)
    if not kind or not RESULTS[kind].outcomes:
        what = "an Outcome, a Schedule, a Comparison or an Explanation"
        raise ConfigError(f"must be {what}, not {shown(result)}", "result")
    return [*RESULTS[kind].load("outcomes")(known)]


def titled_outcome(outcome: Outcome) -> list[Titled]:
    """Return a schedule with its title."""
    return [(outcome.title, outcome)]


def titled_entries(comparison: Comparison) -> list[Titled]:
    """Return the schedules of a comparison. Raises NotApplicable where it has none."""
    found = [(entry.label, entry.outcome) for entry in comparison if entry.outcome is not None]
    if not found:
        raise NotApplicable("html: this comparison holds no schedule to show")
    return found


def embedded(document: str, name: str, height: int) -> str:
    """Return a page as a frame of another document."""
    title, srcdoc = html.escape(f"pipesched: {name}"), html.escape(document)
    look = f'sandbox="allow-scripts allow-downloads" style="width:100%;height:{height}px;border:0"'
    return f'<iframe title="{title}" srcdoc="{srcdoc}" {look}></iframe>'


def legend(outcomes: Iterable[Outcome]) -> str:
    """Return the entries: the kinds that run, then the classes of idle time and the critical path, shown on request."""
    schedules = [outcome.schedule for outcome in outcomes]
    indexes = [schedule.plan.index for schedule in schedules]
    letters = {kind for index in indexes for kind in (*index.kinds, *(rows.kind for rows in index.sent))}
    letters -= {"RESHARD"}  # takes no time, so that no box shows it
    ways = {(schedule.own_lengths, bool(schedule.plan.messages)) for schedule in schedules}
    idles = {idle for measured, queued in ways for idle in classes(measured=measured, queued=queued)}
    entries = []
    for name, hue in (("of-hue", 0), ("of-kind", None)):
        for letter in (letter for letter in ALL_KINDS if letter in letters):
            box = _box(f"rgb{colour_of(None if letter in OF_STAGES else hue, letter)}", STRIPES.get(letter, ""))
            entries.append(f'<li class="{name}">{box}{LETTERS[letter]} {ALL_KINDS[letter].name}')
    for idle, (colour, stripes) in IDLE_LOOKS.items():
        mark = IDLE_MARKS[idle]
        if idle in idles:
            entries.append(f'<li class="of-idle">{_box(f"rgba({colour},.35)", stripes)}{mark.letter} {mark.meaning}')
    entries.append(f'<li class="of-path">{_box("transparent")}critical path')
    entries.append('<li class="of-hue">hue: microbatch<li class="of-kind">hue: kind, where operations are narrow')
    if any(schedule.plan.index.slices > 1 for schedule in schedules):
        entries.append('<li class="of-hue">lighter: later slices of a microbatch')
    return "".join(entries)


def _box(colour: str, stripes: str = "") -> str:
    return f'<i class="{stripes}" style="background-color:{colour}"></i>'
