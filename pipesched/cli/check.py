"""`pipesched check`: does the schedule in a file keep every rule?"""

from __future__ import annotations

from typing import Annotated

import typer

from pipesched.cli.options import Screen


def command(
    file: Annotated[str, typer.Argument(help="A schedule document (JSON); - reads standard input.", metavar="FILE")],
    *,
    screen: Screen,
) -> None:
    """Check the schedule in a file: complete, on its devices, no overlap, inputs there in time, metrics true.

    Exit code 0 if it keeps every rule, 1 with what it breaks if not.
    """
    from pipesched.cli.output import console_for, print_json, read_schedule
    from pipesched.formats.comparison_json import check_document
    from pipesched.formats.schedule_json import wrong_claims
    from pipesched.pipeline.check import violations

    outcome, text = read_schedule(file)
    found = list(violations(outcome.schedule)) or list(wrong_claims(text, outcome))
    if screen.as_json:
        print_json(check_document(outcome, found))
    else:
        console = console_for(screen)
        for violation in found:
            console.print(violation)
        fits = "" if outcome.schedule.fits else " (over budget)"
        console.print(f"rules broken: {len(found)}" if found else f"{outcome.algorithm}: every rule is kept{fits}")
    if found:
        raise typer.Exit(1)
