"""Words without a flag: names of algorithms, files of schedules, and the config file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipesched.cli.options import ProblemSource, argument, option
from pipesched.errors import ConfigError

ALGO = option("--algo/-a NAME", "The algorithm, as a word does too; default: the config's, else 1f1b.")
TO_COMPARE = argument(
    "NAME|FILE|NAME=FILE",
    "Algorithms of `pipesched list`, schedules (FILE.json, FILE.csv) and building blocks (NAME=FILE.yaml), and the"
    " YAML file of the problem, which is else the first FILE.json's; default: naive 1f1b interleaved.",
)
TO_EXPLAIN = argument(
    "NAME|FILE..", "An algorithm of `pipesched list` and the YAML file of the problem, a schedule's file, or traces."
)
CONFIG_SUFFIXES = (".yaml", ".yml")
SCHEDULE_SUFFIXES = (".json", ".csv")


def split_files(words: Sequence[str] | None) -> tuple[list[tuple[str | None, str]], list[str]]:
    """Tell files to compare (`mine.json`, `wave=block.yaml`), each with its name, from other words, also with commas.

    A YAML file without a name is the config. Raises ConfigError for a second one, and for an empty name or file.
    """
    files: list[tuple[str | None, str]] = []
    others: list[str] = []
    for word in words or ():
        for part in [word] if "=" in word or word.lower().endswith(CONFIG_SUFFIXES) else word.split(","):
            name, equals, file = part.partition("=")
            if equals:
                if not name.strip() or not file.strip():
                    raise ConfigError(f"{part}: write NAME=FILE, for instance wave=block.yaml")
                files.append((name.strip(), file.strip()))
            elif is_file(part.strip()):
                files.append((None, part.strip()))
            else:
                others.append(part)
    configs = [word for word in others if word.lower().endswith(CONFIG_SUFFIXES)]
    if len(configs) > 1:
        first, second, *_ = configs
        what = f"one config is enough; there is {first} already; a building block needs a name: mine={second}"
        raise ConfigError(f"{second}: {what}")
    return files, others


def split_positionals(words: Sequence[str] | None, problem: ProblemSource) -> tuple[list[str], ProblemSource]:
    """Tell names of algorithms (`1f1b zb-h1`, or `1f1b,zb-h1`) from the config file. Raises ConfigError."""
    names: list[str] = []
    for word in words or ():
        if word.lower().endswith(CONFIG_SUFFIXES) and "=" not in word:
            problem = with_config(problem, word)
        else:
            names += [name.strip() for name in word.split(",") if name.strip()]
    return names, problem


def with_config(problem: ProblemSource, file: str | None) -> ProblemSource:
    """Return the source with a config file that was named without a flag. Raises ConfigError for a second one."""
    if file is None:
        return problem
    if problem.config is not None:
        raise ConfigError(f"{file}: one config is enough; there is {problem.config} already")
    return problem._replace(config=file)


def only_name(names: Sequence[str], algo: str | None) -> str | None:
    """Return the one algorithm that was named, as a word or by --algo. Raises ConfigError for others."""
    from pipesched.schedulers.registry import family

    named = [*names, *([] if algo is None else [algo])]
    if len(named) > 1:
        raise ConfigError(f"{' '.join(named)}: one algorithm at a time; `pipesched compare` takes several")
    for word in names:  # of no flag, so messages name none
        if is_file(word):
            raise ConfigError(f"{word} is no algorithm; `pipesched show` draws the schedule of a file")
        try:
            family(word)
        except ConfigError as error:
            raise ConfigError(error.message) from None
    return named[0] if named else None


def is_file(word: str) -> bool:
    """Return whether a word names the file of a schedule: of a user's format too."""
    if word.lower().endswith(SCHEDULE_SUFFIXES):
        return True
    if not Path(word).suffix or ":" in word:
        return False
    from pipesched.file_formats.registry import own_format

    form = own_format(word)
    return form is not None and form.reads
