"""What commands compare: algorithms by their names, plans of files, and options that a config gives to one of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipesched.cli.options import ProblemSource
    from pipesched.comparing.contestants import Contestant
    from pipesched.config.algorithm import Algorithm
    from pipesched.config.load import Config
    from pipesched.results.comparison import Comparison


class NamedContestants(NamedTuple):
    """What is compared: algorithms by their names, and plans of files, None where there are no files."""

    names: Sequence[str]
    plans: Mapping[str, Contestant] | None

    def algorithms(
        self, configured: Algorithm | None, *, everything: bool = False, plotted: bool = False
    ) -> str | Sequence[str]:
        """Return the algorithms to compare: with `everything` all, else those that were named.

        Without names and files these are the default ones and the config's; where they are `plotted`, all.
        """
        from pipesched.comparing.compare import ALL, DEFAULT

        alone = not self.names and self.plans is None
        if everything or (plotted and alone):
            return ALL
        own = [configured.name] if configured else []
        return list(dict.fromkeys([*DEFAULT, *own])) if alone else self.names

    def compared(
        self, config: Config, options: Mapping[str, Any], executor: str, trust: Mapping[str, Any], **asked: bool
    ) -> Comparison:
        """Return their schedules, by `options` on top of those of the config; `asked` is as for `algorithms`.

        `trust` is what is known beside published runs, as parameters of `compare`.
        """
        from pipesched.cli.output import working
        from pipesched.comparing.compare import compare

        chosen = self.algorithms(config.algorithm, **asked)
        own = own_options(config.algorithm, chosen)
        count = (20 if isinstance(chosen, str) else len(chosen)) + len(self.plans or ())
        with working(config.problem, count) as say, located(config.algorithm, options):
            known: dict[str, Any] = {"plans": self.plans, "each": own, "executor": executor, **trust}
            return compare(config.problem, chosen, listener=lambda name: say(f"scheduling {name}"), **known, **options)


def read_contestants(
    names: Sequence[str], files: Sequence[tuple[str | None, str]], source: ProblemSource
) -> tuple[NamedContestants, ProblemSource]:
    """Return what is compared, and the problem: without a config that of the first document. Raises ConfigError."""
    from pipesched.cli.reading import note_on_stderr
    from pipesched.comparing.contestants import GivenPlan, contestants, name_files, problem_of_plans

    plans = contestants(name_files(files)) if files else None
    _note_rounded(plans or {})
    if plans is not None and source.config is None:
        orders = [plan.file for plan in plans.values() if isinstance(plan, GivenPlan)]
        source = source._replace(document=problem_of_plans(plans))
        if source.document is not None:
            note_on_stderr(f"the problem is that of {source.document.name}")
        elif orders:
            whose = f"the built-in default's{', or in options' * bool(source.overrides)}: name a config for others"
            note_on_stderr(f"of {', '.join(orders)} only the order counts; costs and memory are {whose}")
    return NamedContestants(names, plans), source


def _note_rounded(plans: Mapping[str, Contestant]) -> None:
    """Say on stderr which numbers of building blocks in files are rounded."""
    from pipesched.cli.reading import note_on_stderr
    from pipesched.comparing.contestants import GivenAlgorithm
    from pipesched.config.rounding import rounding_note
    from pipesched.text.given import Given

    for plan in plans.values():
        note = rounding_note({"algorithm": Given(plan.algorithm)}) if isinstance(plan, GivenAlgorithm) else None
        if note is not None:
            note_on_stderr(note)


def own_options(configured: Algorithm | None, names: str | Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the options that the config gives to one algorithm, if it is compared."""
    from pipesched.comparing.compare import ALL
    from pipesched.schedulers.registry import family

    if configured is None or not (names == ALL or configured.name in {family(name).name for name in names}):
        return {}
    return {configured.name: configured.options}


def located(configured: Algorithm | None, options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which an error in an option of the config, unless `options` replace it, names its line."""
    return configured.overridden(options).located() if configured else nullcontext()
