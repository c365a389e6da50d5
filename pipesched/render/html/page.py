"""The page itself: one HTML file with style, program, data and a still picture, made of the files in `page/`.

The program stands in it without its comments and the spaces that mean nothing.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from pipesched.checks import shown
from pipesched.core.reasons import classes
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.check import checked
from pipesched.pipeline.kinds import ALL_KINDS
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import is_numbered, letter_of
from pipesched.render.html.data import IDLE_LOOKS, STRIPES, Palette, schedule_data
from pipesched.render.html.still import still
from pipesched.render.marks import IDLE_MARKS
from pipesched.render.palette import HUES, colour_of
from pipesched.results.capabilities import capability_of
from pipesched.results.comparison import Comparison, refused
from pipesched.results.outcome import Outcome

ENGINE = ("unpack", "graph", "timing", "moves", "memory", "reasons", "step", "document")  # needs no browser
VIEW = ("state", "scene", "draw", "overlay", "panels", "link", "input", "api", "start")
LITERAL = re.compile(
    r"""//[^\n]*  # a comment, which is no literal, and goes
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?<=[(,=:?&|!])\x20?/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/  # a regular expression
    | `""",
    re.VERBOSE,
)
SPACES = re.compile(r" *([{}()\[\];,=<>?:&|*/%!^~]) *|(?<![+-]) ([+-]) (?![+-])")

DECLARATION = re.compile(r"let(?: |(?=[{\[]))")
SIGNS = re.compile(r"(?<=[)\]])([+-]) (?![+-])| ([+-]=)")  # behind what took the space before them
CONST = re.compile(r"\bconst\b")  # which `let` is shorter than
# Ends of lines where a statement goes on, or ends anyway (as with a block); the 0 of 0.5, and a comma behind the last.
NEEDLESS = re.compile(r"(?<![\w.])0(?=\.\d)|,(?=\n?[)\]}])|(?<=[;{},(\[=>&|?:])\n|\n(?=[)\]}.?:&|])|;\n?(?=})")


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
    """Return these parts of the program, one after the other."""
    return "".join(compact(asset(f"{name}.js")) for name in names)


def compact(script: str) -> str:
    """Return a script without comments, and without spaces and ends of lines that mean nothing.

    Names, texts and regular expressions stay as they are, and templates but for the expressions in them. It knows as
    much of the language as `page/` uses: a regular expression stands behind a bracket, a comma or an operator. A
    template has one line, and no texts with braces or backquotes in its expressions.
    """
    parts: list[str] = []
    code, at = "", 0
    while found := LITERAL.search(script, at):
        code += script[at : found.start()]
        at = found.end() if found[0] != "`" else _end_of_template(script, found.end())
        if not found[0].startswith("//"):
            literal = script[found.start() : at].lstrip()
            parts += _compact_code(code), _compact_template(literal) if found[0] == "`" else literal
            code = ""
    return _joined("".join((*parts, _compact_code(code + script[at:]))).lstrip())


def _joined(script: str) -> str:
    """Return a compact script with neighbouring declarations as one: `let a=1;let b=2` is `let a=1,b=2`."""
    parts: list[str] = []
    declares, at = [False], 0  # of each open bracket: whether the statement in it is a declaration
    begins = True
    while at < len(script):
        if begins:
            declares[-1] = DECLARATION.match(script, at) is not None
        literal = LITERAL.match(script, at)
        end = at + 1 if literal is None else literal.end()
        if literal is not None and literal[0] == "`":
            end = _end_of_template(script, end)
        sign = script[at] if literal is None else ""
        if sign and sign in "([{":
            declares.append(False)
        elif sign and sign in ")]}":
            declares.pop()
        begins = sign in (";", "{", "\n") or (sign == "}" and not declares[-1])
        further = DECLARATION.match(script, end) if sign == ";" and declares[-1] else None
        if further is not None:
            parts.append(",")
            end, begins = further.end(), False
        else:
            parts.append(script[at:end])
        at = end
    return "".join(parts)


def _compact_code(code: str) -> str:
    """Return what stands between literals without needless letters, spaces, ends of lines and semicolons."""
    short = NEEDLESS.sub("", re.sub(r"\s*\n\s*", "\n", SIGNS.sub(r"\1\2", SPACES.sub(r"\1\2", CONST.sub("let", code)))))
    return re.sub(r"\b(true|false)\b", lambda found: "!0" if found[0] == "true" else "!1", short)


def _compact_template(text: str) -> str:
    parts, at = [text[0]], 1
    while text[at] != "`":
        begin, at = at, at + 1 + (text[at] == "\\")
        if text.startswith("${", begin):
            at = _end_of_expression(text, begin + 2)
            parts.append(f"${{{compact(text[begin + 2 : at - 1])}}}")
        else:
            parts.append(text[begin:at])
    return "".join((*parts, text[at:]))


def _end_of_template(script: str, at: int) -> int:
    while script[at] != "`":
        is_expression = script.startswith("${", at)
        at = _end_of_expression(script, at + 2) if is_expression else at + 1 + (script[at] == "\\")
    return at + 1


def _end_of_expression(script: str, at: int) -> int:
    """Return where an expression of a template ends that begins at a position; it may hold further templates."""
    depth = 1  # of braces
    while depth:
        depth += (script[at] == "{") - (script[at] == "}")
        at = _end_of_template(script, at + 1) if script[at] == "`" else at + 1
    return at


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
        remarks = [refused(entry) for entry in result if not entry.applicable]
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
        return [(result.name, Outcome(result.name, result))]
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
    title, srcdoc = html.escape(f"pipesched: {name}"), html.escape(document)
    look = f'sandbox="allow-scripts allow-downloads" style="width:100%;height:{height}px;border:0"'
    return f'<iframe title="{title}" srcdoc="{srcdoc}" {look}></iframe>'


def legend(outcomes: Iterable[Outcome]) -> str:
    """Return the entries: the kinds that run, then the classes of idle time and the critical path, shown on request."""
    schedules = [outcome.schedule for outcome in outcomes]
    letters = {kind for schedule in schedules for kind in schedule.plan.index.kinds if kind != "RESHARD"}
    ways = {(schedule.own_lengths, bool(schedule.plan.messages)) for schedule in schedules}
    idles = {idle for measured, queued in ways for idle in classes(measured=measured, queued=queued)}
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
