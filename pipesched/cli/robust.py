"""`pipesched robust`: the orders of several schedules when durations vary, and when a device is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.cli.options import EVERY_CORE, ProblemSource, Screen, Target
from pipesched.cli.positionals import ToCompare, split_files, split_positionals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipesched.config.load import Config
    from pipesched.results.comparison import Comparison


def command(
    words: ToCompare = None,
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
    from pipesched.analysis.robust.robustness import robustness
    from pipesched.analysis.robust.variation import Variation
    from pipesched.cli.output import console_for, print_json, save, target_format
    from pipesched.cli.reading import given_config, note_halves
    from pipesched.documents.robustness import robustness_document
    from pipesched.render.table import display_parts

    Variation(**variation)  # bad numbers are said before anything takes long
    files, others = split_files(words)
    names, problem = split_positionals(others, problem)
    target_format(target, "robustness")
    config = given_config(problem)
    runs = executor or EVERY_CORE
    compared = _compared(names, files, config, family_options, runs)
    note_halves(problem, assumed=config.assumes_halves, outcomes=(entry.outcome for entry in compared))
    result = robustness(compared, **variation, executor=runs)
    save(result, "robustness", target)
    if screen.as_json:
        print_json(robustness_document(result))
        return
    console = console_for(screen)
    for part in display_parts(result, ascii_only=screen.ascii_only):
        console.print(part)


def _compared(
    names: Sequence[str],
    files: Sequence[tuple[str | None, str]],
    config: Config,
    options: dict[str, Any],
    executor: str,
) -> Comparison:
    """Return the schedules of algorithms and files, as `pipesched compare` makes them."""
    from pipesched.cli.contestants import NamedContestants, located, own_options, read_plans
    from pipesched.cli.output import working
    from pipesched.comparing.compare import compare

    named = NamedContestants(names, read_plans(files))
    chosen = named.algorithms(config.algorithm)
    own = own_options(config.algorithm, chosen)
    with working(config.problem, len(chosen) + len(files)), located(config.algorithm, options):
        return compare(config.problem, chosen, plans=named.plans, each=own, executor=executor, **options)
