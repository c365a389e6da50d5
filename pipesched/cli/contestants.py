"""What commands compare: algorithms by their names, plans of files, and options that a config gives to one of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipesched.comparing.contestants import Contestant
    from pipesched.config.algorithm import Algorithm


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


def read_plans(files: Sequence[tuple[str | None, str]]) -> Mapping[str, Contestant] | None:
    """Return the plans and blocks in files, by their names. Raises ConfigError."""
    if not files:
        return None
    from pipesched.comparing.contestants import contestants, name_files

    return contestants(name_files(files))


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
