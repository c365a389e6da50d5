"""The legend of a page: what the colours and patterns of operations and of idle time mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipesched.pipeline.kinds import KINDS
from pipesched.render.html.data import IDLE_LOOKS, STRIPES
from pipesched.render.marks import IDLE_MARKS
from pipesched.render.palette import colour_of
from pipesched.results.outcome import Outcome


def legend(outcomes: Iterable[Outcome]) -> str:
    """Return the entries: the kinds that run, then the classes of idle time and the critical path, shown on request."""
    letters = {letter for outcome in outcomes for letter in outcome.schedule.plan.index.letters}
    return "".join(_entries([letter for letter in KINDS if letter in letters]))


def _entries(letters: Iterable[str]) -> Iterator[str]:
    for letter in letters:
        colour = f"rgb{colour_of(0, letter)}"
        yield f"<li>{_box(colour, STRIPES.get(letter, ''))}{letter} {KINDS[letter].name}"
    for idle, (colour, stripes) in IDLE_LOOKS.items():
        mark = IDLE_MARKS[idle]
        yield f'<li class="of-idle">{_box(f"rgba({colour},.35)", stripes)}{mark.letter} {mark.meaning}'
    yield f'<li class="of-path">{_box("transparent")}critical path<li>hue: microbatch'


def _box(colour: str, stripes: str = "") -> str:
    return f'<i class="{stripes}" style="background-color:{colour}"></i>'
