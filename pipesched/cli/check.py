"""`pipesched check`: does the schedule in a file keep every rule?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pipesched.cli.options import Screen

if TYPE_CHECKING:
    from pipesched.outcome import Outcome

Problem = tuple[str | None, dict[str, str]]


def command(
    file: Annotated[
        str,
        typer.Argument(help="A schedule (our JSON, or PyTorch's CSV); - reads standard input.", metavar="FILE"),
    ],
    *,
    problem: Problem,
    screen: Screen,
) -> None:
    """Check the schedule in a file: complete, on its devices, no overlap, inputs there in time, metrics true.

    Of a CSV of PyTorch also what its loader does not look at: duplicates, order of the last stage, SEND and RECV.
    Exit code 0 if it keeps every rule, 1 with what it breaks if not.
    """
    from pipesched.cli.output import console_for, print_json
    from pipesched.formats.comparison_json import check_document

    outcome, found = _checked(file, problem)
    if screen.as_json:
        print_json(check_document(outcome, found))
    else:
        console = console_for(screen)
        for violation in found:
            console.print(violation, soft_wrap=True)
        console.print(f"rules broken: {len(found)}" if outcome is None or found else _praise(outcome), soft_wrap=True)
    if found:
        raise typer.Exit(1)


def _checked(file: str, problem: Problem) -> tuple[Outcome | None, Sequence[str]]:
    """The schedule, if there is one that has times, and what is wrong with it."""
    from pipesched.cli.reading import read_schedule
    from pipesched.errors import InvalidSchedule
    from pipesched.formats.schedule_json import wrong_claims
    from pipesched.pipeline.check import violations

    try:
        outcome, text, _ = read_schedule(file, problem)
    except InvalidSchedule as error:
        return None, error.violations
    return outcome, list(violations(outcome.schedule)) or list(wrong_claims(text, outcome) if text else ())


def _praise(outcome: Outcome) -> str:
    fits = "" if outcome.schedule.fits else " (over budget)"
    note = outcome.schedule.plan.note
    return f"{outcome.algorithm}: every rule is kept{fits}" + (f"\nnote: {note}" if note else "")
