"""What commands work on: words without a flag (`split_..`), configs (`given_config`), schedules (`asked_outcome`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.cli.groups import ALGORITHM_FLAGS, about_problem, spell
from pipesched.cli.options import ProblemSource, argument, option
from pipesched.cli.progress import doing
from pipesched.errors import ConfigError, Given, blame
from pipesched.pipeline.problem.declared import BY_NAME, SETUP_NAMES

if TYPE_CHECKING:
    from pipesched.config.load import Config
    from pipesched.config.values import Source
    from pipesched.display import Displayable
    from pipesched.file_formats.files import ReadSchedule
    from pipesched.pipeline.problem.problem import Problem
    from pipesched.results.comparison import Comparison, Frontier, Sweep
    from pipesched.results.outcome import Outcome

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
    """Tell files to compare, with their names, from other words; one YAML file is the config. Raises ConfigError."""
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


def with_config(problem: ProblemSource, file: str) -> ProblemSource:
    """Return the source with a config file that was named without a flag. Raises ConfigError for a second one."""
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
        with blame(None):
            family(word)
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


DEFAULT = "1f1b"


@contextmanager
def flags_of_problem(source: ProblemSource | None = None) -> Iterator[None]:
    """Let an error about a value of the problem, inside the block, name its flag, beside a config if it was given."""
    try:
        yield
    except ConfigError as error:
        if source is None:
            raise about_problem(error) from None
        given = [*source.overrides, *(BY_NAME[name].key for name in source.overrides if name in BY_NAME)]
        for section, values in source.overrides.items():
            given += [f"{section}.{key}" for key in values] if isinstance(values, dict) else []
        raise about_problem(error, source.config, given) from None


def given_config(source: ProblemSource, *, notes: bool = True, chooses: bool = False) -> Config:
    """Return the problem and algorithm of a config with options on top, told by `notes`. Raises ConfigError."""
    from pipesched.config.load import load_config
    from pipesched.pipeline.problem.suspicions import suspicions

    with flags_of_problem(source):
        config = load_config(source.document or config_source(source.config), source.overrides, chooses=chooses)
    for note in config.notes if notes else ():
        print(f"pipesched: note: {note}", file=sys.stderr)
    if config.rounded is not None:
        note_on_stderr(config.rounded)
    for doubt in suspicions(config.problem):
        print(f"pipesched: warning: {spell(doubt) if source.config is None else doubt}", file=sys.stderr)
    return config


def note_values(values: Mapping[str, Given]) -> None:
    """Say on stderr that a problem is derived, where values describe a training run, and which of them are rounded."""
    from pipesched.config.values import rounding_note

    if values.keys() & SETUP_NAMES:
        from pipesched.config.derived import setup_notes

        with flags_of_problem():
            notes = setup_notes(values)
        for note in notes:
            print(f"pipesched: note: {note}", file=sys.stderr)
    note_on_stderr(rounding_note(values))


def note_made(
    source: ProblemSource, outcomes: Iterable[Outcome | None], *, assumed: bool, fused: Problem | None = None
) -> None:
    """Say once on stderr that schedules run halves of the backward that are `assumed`, and fuse stages that differ."""
    from pipesched.pipeline.problem.suspicions import assumed_halves, fused_stages

    made = [(outcome.algorithm, outcome.schedule) for outcome in outcomes if outcome is not None]
    if assumed and (note := assumed_halves(made)) is not None:
        print(f"pipesched: note: {spell(note) if source.config is None else note}", file=sys.stderr)
    if fused is not None and (note := fused_stages(fused, made)) is not None:
        note_on_stderr(note)


def note_on_stderr(note: str | None) -> None:
    """Say on stderr what a document has no place for, if there is something."""
    if note is not None:
        print(f"pipesched: note: {spell(note)}", file=sys.stderr)


def config_source(config: str | None) -> Source | None:
    """Return the text of a config file, or of standard input for -. Raises ConfigError."""
    if config is None:
        return None
    from pipesched.config.values import Source
    from pipesched.text.yaml_reader import MOST_BYTES, decode, read_text

    if config == "-":
        return Source(decode(read_stdin(MOST_BYTES + 1), "<stdin>"), "<stdin>")
    return Source(read_text(Path(config)), config)


def read_stdin(most: int) -> bytes:
    """Return at most `most` bytes of standard input. Raises ConfigError when it is closed."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed")
    return sys.stdin.buffer.read(most)


def made_schedule(config: Config, name: str | None, options: Mapping[str, Any]) -> Outcome:
    """Schedule by `name`, else the config's algorithm or the default; its own options count, with `options` on top."""
    from pipesched.results.run import run

    if config.algorithm is None:
        return run(config.problem, default_algorithm(config) if name is None else name, **options)
    asked = config.algorithm.or_named(name, options)
    with asked.located():
        return run(config.problem, asked.name, **asked.options)


def asked_outcome(words: Sequence[str], algo: str | None, source: ProblemSource, options: Mapping[str, Any]) -> Outcome:
    """Return the schedule of a file among words, or of an algorithm and a config. Raises ConfigError."""
    from pipesched.cli.output import working
    from pipesched.schedulers.registry import is_known

    names, source = split_positionals(words, source)
    files = [name for name in names if name == "-" or is_file(name) or (not is_known(name) and Path(name).is_file())]
    if files:
        others = [name for name in names if name != files[0]] + ([] if algo is None else ["--algo"])
        others += [ALGORITHM_FLAGS.get(key, f"--option {key}") for key in options]
        if others or len(names) > 1:
            raise ConfigError(f"{(others or names)[0]}: {files[0]} is a schedule already; give one of them")
        return read_schedule(files[0], source).outcome
    name = only_name(names, algo)
    config = given_config(source)
    with working(config.problem):
        outcome = made_schedule(config, name, options)
    note_made(source, [outcome], assumed=config.assumes_halves)
    return outcome


def default_algorithm(config: Config) -> str:
    """Return what schedules a config that names no algorithm: for a model on GPUs the same as `estimate` takes."""
    if config.setup is None:
        return DEFAULT
    from pipesched.config.estimate import default_algorithm as of_setup

    return of_setup(config.setup)


def read_file(name: str, source: ProblemSource) -> ReadSchedule | Comparison | Sweep | Frontier | Displayable:
    """Return what a file or "-" holds; a CSV is timed by the costs of `source`. Raises ConfigError, InvalidSchedule."""
    from pipesched.file_formats import files
    from pipesched.pipeline.problem.suspicions import assumed_of_order
    from pipesched.results.outcome import Outcome
    from pipesched.text.yaml_reader import decode

    with doing(f"reading {name}"):
        if name == source.config == "-":
            raise ConfigError("standard input holds the schedule or the config, not both")
        is_stdin = name == "-"
        data = decode(read_stdin(files.MOST_BYTES + 1), "<stdin>", files.MOST_BYTES) if is_stdin else None
        text = files.read_file(name) if data is None else files.Text(data, "<stdin>")
        if not files.is_csv(text):
            if source.config is not None or source.overrides:
                own = "a schedule document holds its own problem; configs and their options go with CSV"
                raise ConfigError(f"{text.name}: {own}")
            found = files.read_document(text)
            return files.ReadSchedule(found, text.content) if isinstance(found, Outcome) else found
        with flags_of_problem():
            result = files.read_order(text, _timing(source))
        for note in assumed_of_order(result.outcome.problem):  # of the cut, and the microbatches, it came without
            note_on_stderr(note)
        return result


def read_schedule(name: str, source: ProblemSource) -> ReadSchedule:
    """Return the schedule of a file, as `read_file` does. Raises ConfigError for a file that holds none."""
    from pipesched.file_formats.files import ReadSchedule

    result = read_file(name, source)
    if not isinstance(result, ReadSchedule):
        raise ConfigError(f"{name} holds a {type(result).__name__.lower()}, not a schedule")
    return result


def _timing(source: ProblemSource) -> Any:
    """Return what gives a plan of a CSV the costs of a config, with options on top."""
    from pipesched.config.load import ImportedProblem, imported_problem, load_values
    from pipesched.config.values import problem_of
    from pipesched.pipeline.problem.suspicions import other_stages

    config = config_source(source.config)

    def timing(plan: Any, placement: Any, file: str) -> ImportedProblem:
        imported = imported_problem(plan, placement, config, source.overrides, file)
        values = load_values(config, source.overrides)
        note_values(values)
        if config is not None and "stages" not in values:
            with suppress(ConfigError):  # it has costs of so many stages as the file, and not of its own
                why = f"{config.name} gives no stages, so those of {file} count"
                if note := other_stages(why, imported.given, problem_of(values)):
                    print(f"pipesched: note: {note}", file=sys.stderr)
        return imported

    return timing
