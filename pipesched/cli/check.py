"""`pipesched check`: does the schedule in a file keep every rule?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from pipesched.cli.options import ProblemSource, Screen, argument, option
from pipesched.cli.output import console_for, print_json
from pipesched.cli.traces import RANGES, are_traces, read_timeline, refuse_plan
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.results.outcome import Outcome

MOST_SHOWN = 20  # sentences; --json has all


def command(
    files: list[str] = argument(
        "FILE..",
        "A schedule (our JSON, or PyTorch's CSV); - reads standard input. Or the traces of a run, one a rank.",
        ...,
    ),
    *,
    task: str | None = option("--task FILE", "An exercise, whose config has `task`: print the points of a solution."),
    ranges: str | None = RANGES,
    problem: ProblemSource,
    screen: Screen,
) -> None:
    """Check the schedule in a file: complete, on its devices, no overlap, inputs there in time, metrics true.

    Of a CSV of PyTorch also what its loader does not look at: duplicates, order of the last stage, SEND and RECV.
    Of the traces of a run whether there are clocks of the ranks that fit every message, and then the same but lengths.
    Exit code 0 if it keeps every rule and its budget, 1 with what it breaks if not.

    Of a solution of an exercise (--task) only the order counts. Exit code 0 if it reaches the goal, which is 5 points
    of 10.
    """
    if task is not None:
        from pipesched.comparing.exercise import PASSED, grade

        if len(files) > 1 or problem.config is not None or problem.overrides:
            raise ConfigError(
                "--task: has the problem and takes one solution; give no config, and no option of a problem"
            )
        verdict = grade(Path(task), files[0])
        if screen.as_json:
            print_json({"format": "pipesched.verdict", "version": 1, **verdict._asdict()})
        else:
            console_for(screen).print(str(verdict), *([f"hint: {verdict.hint}"] if verdict.hint else []), sep="\n")
        if verdict.points < PASSED:
            raise typer.Exit(1)
        return
    from pipesched.documents.comparison import check_document

    outcome, violations = _checked(files, problem, ranges)
    if screen.as_json:
        print_json(check_document(outcome, violations))
    else:
        console = console_for(screen)
        is_whole = screen.width is None and not console.is_terminal  # a line each, for other programs
        for violation in violations[:MOST_SHOWN]:
            console.print(violation, soft_wrap=is_whole)
        if len(violations) > MOST_SHOWN:
            console.print(f"and {len(violations) - MOST_SHOWN:,} more; --json has all", soft_wrap=is_whole)
        said = [f"rules broken: {len(violations)}"]
        if outcome is not None and not violations:
            note = outcome.schedule.plan.note
            said = [f"{outcome.algorithm}: every rule is kept", *([f"note: {note}"] if note else [])]
        console.print(*said, sep="\n", soft_wrap=is_whole)
    if violations:
        raise typer.Exit(1)


def _checked(files: Sequence[str], problem: ProblemSource, ranges: str | None) -> tuple[Outcome | None, Sequence[str]]:
    """Return the schedule, None where its operations cannot run, and a sentence for each rule that it breaks."""
    from pipesched.cli.reading import read_schedule
    from pipesched.documents.schedule import wrong_claims
    from pipesched.pipeline.check.check import over_budget, violations

    text = None  # of our JSON alone, whose claims (makespan, ..) are then compared
    try:
        if are_traces(files):
            outcome = read_timeline(files, None, problem, ranges).outcome
        else:
            refuse_plan(None, ranges)  # ranges are of traces
            outcome, text, _ = read_schedule(files[0], problem)
    except InvalidSchedule as error:
        return None, error.violations
    claims = wrong_claims(text, outcome) if text else ()
    return outcome, list(violations(outcome.schedule)) or [*claims, *over_budget(outcome.schedule)]
