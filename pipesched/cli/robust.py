"""`pipesched robust`: the orders of several schedules when durations vary, and when a device is slow."""

from __future__ import annotations

from typing import Any

from pipesched.cli.compare import read_candidates
from pipesched.cli.exits import require_one
from pipesched.cli.options import EVERY_CORE, ProblemSource, Screen, Target
from pipesched.cli.output import print_result, saving, target_format
from pipesched.cli.reading import TO_COMPARE, given_config, note_made, split_files, split_positionals


def command(
    words: list[str] | None = TO_COMPARE,
    *,
    variation: dict[str, Any],
    executor: str | None,
    problem: ProblemSource,
    family_options: dict[str, Any],
    target: Target,
    screen: Screen,
) -> None:
    """Time schedules with durations that vary, and with each device slow in turn: how sure is their makespan.

    Orders stay as they are. The same operation has the same random factor in every schedule.
    """
    from pipesched.analysis.robustness import Variation, robustness

    Variation(**variation)  # bad numbers are said before anything takes long
    files, others = split_files(words)
    names, problem = split_positionals(others, problem)
    target_format(target, "robustness")
    named, problem = read_candidates(names, files, problem)
    config = given_config(problem)
    runs = executor or EVERY_CORE
    compared = named.compared(config, family_options, runs, {})
    made = (entry.outcome for entry in compared)
    note_made(problem, made, assumed=config.assumes_halves, fused=config.problem)
    result = robustness(compared, **variation, executor=runs)
    with saving(result, "robustness", target):
        print_result(result, screen)
    require_one(result)
