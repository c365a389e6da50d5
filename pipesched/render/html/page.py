"""The page itself: one HTML file with style, program, data and a still picture, made of the files in `page/`."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

from pipesched.checks import shown
from pipesched.core.reasons import classes
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.check import checked
from pipesched.pipeline.kinds import ALL_KINDS
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import is_numbered, letter_of
from pipesched.render.html.assets import asset, program, style
from pipesched.render.html.data import IDLE_LOOKS, STRIPES, Palette, schedule_data
from pipesched.render.html.still import still
from pipesched.render.marks import IDLE_MARKS
from pipesched.render.palette import HUES, colour_of
from pipesched.results.capabilities import capability_of
from pipesched.results.comparison import Comparison
from pipesched.results.outcome import Outcome

Titled = tuple[str, Outcome]  # the title of a schedule, and the schedule


def page(result: object) -> str:
    """Return the page of a schedule, of the schedules of a comparison, or of an explanation.

    Raises ConfigError for what holds no schedule, InvalidSchedule for one that breaks a rule, and NotApplicable for one
    with too many digits.
    """
    schedules, explains = titled(result), _explains(result)
    for _, outcome in schedules:
        checked(outcome.schedule)
    remarks = []
    if isinstance(result, Comparison):
        remarks = [f"{entry.label} does not apply: {entry.reason}" for entry in result if not entry.applicable]
    palette: Palette = {}
    data = {
        "schedules": [schedule_data(outcome, name, palette) for name, outcome in schedules],
        "palette": list(palette),
        "hues": len(HUES),
        "stripes": STRIPES,
        "idle": {idle.value: (mark.meaning, mark.letter, *IDLE_LOOKS[idle]) for idle, mark in IDLE_MARKS.items()},
        "explains": explains,
        "remarks": remarks,
    }
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
        "PROGRAM": program(),
    }
    before, *rest = asset("page.html").split("<!--")
    return before + "".join(parts[name] + text for name, _, text in (entry.partition("-->") for entry in rest))


def titled(result: object) -> list[Titled]:
    """Return the schedules of a result, each with its title. Raises ConfigError where there is none."""
    if isinstance(result, Schedule):
        return [("plan", Outcome("plan", result))]
    if isinstance(result, Outcome):
        return [(result.title, result)]
    if isinstance(result, Comparison):
        found = [(entry.label, entry.outcome) for entry in result if entry.outcome is not None]
        if not found:
            raise NotApplicable("html: this comparison holds no schedule to show")
        return found
    if _explains(result):
        found = capability_of(result).load("outcomes")(result)  # type: ignore[union-attr]
        return [*found]
    raise ConfigError(f"must be an Outcome, a Schedule, a Comparison or an Explanation, not {shown(result)}", "result")


def _explains(result: object) -> bool:
    capability = capability_of(result)
    return capability is not None and bool(capability.outcomes)


def embedded(document: str, name: str, height: int) -> str:
    """Return a page as a frame of another document."""
    attributes: dict[str, Any] = {
        "title": f"pipesched: {name}",
        "srcdoc": document,
        "sandbox": "allow-scripts allow-downloads",
        "style": f"width:100%;height:{height}px;border:0",
    }
    pairs = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<iframe {pairs}></iframe>"


def legend(outcomes: Iterable[Outcome]) -> str:
    """Return the entries: the kinds that run, then the classes of idle time and the critical path, shown on request."""
    schedules = [outcome.schedule for outcome in outcomes]
    letters = {kind for schedule in schedules for kind in schedule.plan.index.kinds if kind != "RESHARD"}
    ways = {schedule.own_lengths for schedule in schedules}
    idles = {idle for measured in ways for idle in classes(measured=measured)}
    entries = []
    for name, hue in (("of-hue", 0), ("of-kind", None)):
        for letter in (letter for letter in ALL_KINDS if letter in letters):
            box = _box(f"rgb{colour_of(hue if is_numbered(letter) else None, letter)}", STRIPES.get(letter, ""))
            entries.append(f'<li class="{name}">{box}{letter_of(letter)} {ALL_KINDS[letter].name}')
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
