"""Still pictures as SVG, for paper, notebooks and readers without scripts: schedules on one time scale."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from pipesched.pipeline.ops import Op, Pair
from pipesched.pipeline.plan import SIDE_KINDS, lane_of
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import hue_number, is_numbered
from pipesched.render.chosen import some_devices
from pipesched.render.palette import Rgb, colour_of, place_of, text_on
from pipesched.render.timescale import number
from pipesched.results.outcome import Outcome

WIDTH, LEFT, HEAD, FOOT = 1000, 70, 20, 26
MOST_SLOTS = 5_000  # of more, a device is drawn by how busy it is
COLUMNS, LEVELS = 500, 8
MOST_LABELLED = 600
MOST_DEVICES = 128
NARROWEST_LABEL = 14
DIGIT = 7  # the width of one
BUSY = "#5b7fa6"


def still(schedules: Sequence[tuple[str, Outcome]]) -> str:
    """Return the picture of these schedules, one below the other, each with its title."""
    until = max(one.schedule.last_ticks / one.problem.ticks.per_unit for _, one in schedules) or 1
    slots = sum(len(order) for _, outcome in schedules for order in outcome.schedule.plan.orders)
    parts, top = [], 0.0
    rows = sum(len(_devices(outcome.schedule)) for _, outcome in schedules)
    height = max(4, min(18, 900 // rows))
    for name, outcome in schedules:
        schedule, unit = outcome.schedule, f" {outcome.problem.time_unit}".rstrip()
        title = html.escape(f"{name}: makespan {number(schedule.makespan)}{unit}, bubble {schedule.bubble:.2%}")
        parts.append(f'<text x="0" y="{_short(top + HEAD - 6)}" font-weight="bold">{title}</text>')
        chart = _Chart(schedule, (WIDTH - LEFT) / until, height)
        for device in _devices(schedule):
            chart.add(device, top + HEAD, busy=slots > MOST_SLOTS)
            top += height + (2 if height > 6 else 1)
            if schedule.plan.network and slots <= MOST_SLOTS:
                top += chart.add_network(device, top + HEAD)
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


def _devices(schedule: Schedule) -> Sequence[int]:
    """Return the devices to draw: all, or some of very many."""
    return some_devices(schedule.problem.devices, MOST_DEVICES) or range(schedule.problem.devices)


class _Chart:
    """The rows of one schedule: a path for each colour, and the labels of slots for each colour of text."""

    def __init__(self, schedule: Schedule, per_unit: float, height: int) -> None:
        self.schedule, self.height = schedule, height
        self.scale = per_unit / schedule.problem.ticks.per_unit
        self.names: list[str] = []
        self.areas: list[str] = []
        self.boxes: dict[tuple[Rgb, int], list[str]] = {}  # by colour, and by how many share the height of a row
        self.labels: dict[Rgb, list[str]] = {}

    def add(self, device: int, y: float, *, busy: bool) -> None:
        """Add what a device runs at a height: its slots, or, with `busy`, how busy it is."""
        if self.height > 8:
            name = self.schedule.problem.device_name(device)
            squeezed = ' textLength="66" lengthAdjust="spacingAndGlyphs"' if " x" in name else ""
            self.names.append(f'<text y="{_short(y + self.height - 5)}"{squeezed}>{name}</text>')
        if busy:
            self.areas.append(self._shares(device, y))
        else:
            self._add_slots(device, y)

    def add_network(self, device: int, y: float) -> float:
        """Add what the network lane of a device moves, in a row half as high; return the height that it takes."""
        schedule, height = self.schedule, self.height / 2
        stages = schedule.problem.settled_placement.stages_on(device)
        for task in lane_of(schedule.plan.network[device], schedule.plan.index):
            op = schedule.plan.index.op(task)
            start, end = schedule.start_ticks[task] * self.scale, schedule.end_ticks[task] * self.scale
            box = f"M{_short(start)} {_short(y + height / 2)}h{_short(max(end - start - 0.4, 0.3))}"
            colour = colour_of(None, op.kind, stages.index(op.stage), len(stages))
            self.boxes.setdefault((colour, 2), []).append(box)
        return height + 2

    def parts(self, *, labelled: bool) -> Iterator[str]:
        yield from self.names
        yield f'<g transform="translate({LEFT} 0)" fill="none">'
        yield from self.areas
        for (colour, parts), boxes in self.boxes.items():
            yield f'<path stroke="{_hex(colour)}" stroke-width="{_short(self.height / parts)}" d="{"".join(boxes)}"/>'
        for colour, texts in self.labels.items() if labelled else ():
            yield f'<g fill="{_hex(colour)}" text-anchor="middle">{"".join(texts)}</g>'
        yield "</g>"

    def _add_slots(self, device: int, y: float) -> None:
        schedule = self.schedule
        chunks = schedule.problem.settled_placement.stages_on(device)
        times = zip(schedule.slot_start_ticks[device], schedule.slot_end_ticks[device], strict=True)
        for slot, (start, end) in zip(schedule.plan.slots(device), times, strict=True):
            x, width = start * self.scale, (end - start) * self.scale
            parts: Sequence[Op] = slot if isinstance(slot, Pair) else [slot]
            for number_of_part, op in enumerate(parts):
                place = place_of(op.slice, schedule.plan.index.slices)
                chunk = 0 if op.kind in SIDE_KINDS else chunks.index(op.stage)
                colour = colour_of(hue_number(op), op.kind, chunk, len(chunks), place)
                middle = y + (number_of_part + 0.5) * self.height / len(parts)
                box = f"M{_short(x)} {_short(middle)}h{_short(max(width - 0.4, 0.3))}"
                self.boxes.setdefault((colour, len(parts)), []).append(box)
                if width > NARROWEST_LABEL and len(parts) == 1:
                    at = f'x="{_short(x + width / 2)}" y="{_short(y + self.height - 5)}"'
                    label = str(op.microbatch if is_numbered(op.kind) else op.stage)
                    full = f"{label}.{op.slice}"  # with its slice where that fits too
                    has_room = op.is_sliced and is_numbered(op.kind) and len(full) * DIGIT < width
                    text = f"<text {at}>{full if has_room else label}</text>"
                    self.labels.setdefault(text_on(colour), []).append(text)

    def _shares(self, device: int, y: float) -> str:
        """Return the share of each column in which a device works, as one area."""
        column = (WIDTH - LEFT) / COLUMNS
        busy = [0.0] * (COLUMNS + 1)
        schedule = self.schedule
        for start, end in zip(schedule.slot_start_ticks[device], schedule.slot_end_ticks[device], strict=True):
            left, right = start * self.scale / column, end * self.scale / column
            first, last = int(left), min(int(right), COLUMNS)
            if first == last:
                busy[first] += right - left
                continue
            busy[first] += first + 1 - left
            for whole in range(first + 1, last):
                busy[whole] += 1
            busy[last] += right - last
        levels = [round(min(share, 1) * LEVELS) for share in busy[:COLUMNS]]
        unit = self.height / LEVELS
        path, before = [f"M0 {_short(y + self.height)}"], 0
        for position, level in enumerate((*levels, 0)):
            if level != before:
                path.append(f"H{_short(position * column)}v{_short((before - level) * unit)}")
                before = level
        return f'<path fill="{BUSY}" d="{"".join(path)}z"/>'


def _hex(colour: Rgb) -> str:
    full = "#{:02x}{:02x}{:02x}".format(*colour)
    return f"#{full[1]}{full[3]}{full[5]}" if full[1::2] == full[2::2] else full


def _short(value: float) -> str:
    """Return a length with at most two digits behind the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
