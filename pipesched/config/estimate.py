"""`estimate`: what a model on GPUs costs and holds, how long its step takes, and how sure that is.

`estimate_of` makes it of a config, `judge_of` reads one's own measured runs, by which `judged` adds how sure it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import require_flag, require_name, require_sequence, require_whole, shown
from pipesched.config.derived import TrustSection
from pipesched.config.load import Config, load_config
from pipesched.config.values import Source, read_fields
from pipesched.errors import ConfigError, PipeschedError
from pipesched.estimation.changes import FittingChange, changes_that_fit
from pipesched.estimation.derived import SetupCutter, budget_of, outline, side_static, with_budget
from pipesched.estimation.items import GB
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup
from pipesched.estimation.trust.evidence import evidence_base
from pipesched.estimation.trust.inside import Judge
from pipesched.pipeline.problem.quantities import TIME, Unit, read_number, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.results.run import run
from pipesched.text.sections import Entries
from pipesched.text.yaml_reader import Value, parse_yaml, read_text

DEFAULTS = ("1f1b", "interleaved")  # with one stage a device, and with several


def estimate_of(
    config: Config, algorithm: str | Callable[..., Any] | None = None, *, whole: bool = False, **options: Any
) -> Estimate:
    """Return the estimate of a config, without how sure it is. Raises ConfigError, also where it has no model."""
    setup = config.setup
    if not isinstance(setup, Setup):
        raise ConfigError("is missing; `estimate` derives costs and memory from a model: model: llama-3-8b", "model")
    require_training(config.problem.mode)
    notes = config.notes[1:]  # the first says that there is an estimate
    if config.algorithm is not None:
        asked = config.algorithm.or_named(algorithm, options)
        with asked.located():
            return Estimate(run(config.problem, asked.name, **asked.options), whole, notes, asked.options)
    name = algorithm or default_algorithm(setup)
    return Estimate(run(config.problem, name, **options), whole, notes, options)


def require_training(mode: str) -> None:
    """Raise ConfigError for forward passes alone: speed, memory and evidence of an estimate are those of training."""
    if mode == FORWARD_ONLY:
        what = "estimates are of steps of training; `run` schedules forward passes alone"
        raise ConfigError(f"must be train: {what}", "mode")


def default_algorithm(setup: Setup) -> str:
    """Return what schedules a pipeline where nothing is asked for."""
    return DEFAULTS[setup.parallel.chunks > 1]


def changes(estimate: Estimate) -> list[FittingChange]:
    """Return the three fastest changes of an estimate's setup with which it fits; none where it does already."""
    if estimate.fits:
        return []
    cutter = estimate.problem.cutter
    replaced = dict(cutter.replaced) if isinstance(cutter, SetupCutter) else {}
    limits = set(estimate.problem.memory.budget or ())
    given = to_fraction(limits.pop()) if len(limits) == 1 else None  # one for each device says nothing of other layouts
    if given not in (None, budget_of(estimate.setup)):
        replaced["budget"] = given

    def again(setup: Setup) -> Estimate:
        asked = estimate.outcome.algorithm
        name = default_algorithm(setup) if asked in DEFAULTS else asked
        options = estimate.options if name == asked else {}
        return Estimate(run(outline(setup, replaced), name, **options), estimate.whole)

    return changes_that_fit(with_budget(estimate.setup, given), again, side_static(replaced) * GB)


FARTHEST = 4.0  # spreads: a run of one's own that is farther off names itself
KEY = "measured"
BESIDE = ("step", "steps")  # keys of a run that are no keys of a config
Measured = str | Path | Sequence[tuple[Any, Any]]
MIXED = (
    "steps in 16 bits stand beside some in 8 or 4: all are judged by published runs in few bits and their twins in 16;"
    " alone, a step in 16 bits is judged by runs in 16 bits, and something else may be expected of it"
)


class OwnRun(NamedTuple):
    """A run of one's own: what it is called, its config, and the milliseconds of a step."""

    name: str
    config: Config
    step: float


def judge_of(
    like: str | None = None, measured: Measured | None = None, *, low: bool = False
) -> tuple[Judge, tuple[str, ...]]:
    """Return what judges estimates, and notes about runs that are far off.

    Args:
        like: The source of published runs whose effect counts as one's own; None: a new one.
        measured: The name of a file of one's own runs, or pairs of a config and the milliseconds of its step.
        low: Some of the estimates are in 8 or 4 bits: published runs in these count, as where a run of one's own is.

    Raises:
        ConfigError: For an unknown source, and a run that cannot be read, with its number.
    """
    own = []
    for one in [] if measured is None else read_own_runs(measured):
        try:
            own.append((one, estimate_of(one.config)))
        except PipeschedError as error:
            raise ConfigError(f"{one.name}: {error}", KEY) from None
    base = evidence_base(low=low or any(found.setup.recipe is not None for _, found in own))
    if like is not None:
        require_name(base.sources, like, "source of published runs", "like")
    judge, notes = Judge(base, base.model, like=like), []
    compared = [(judge.run_of(found), log(one.step / found.step.time)) for one, found in own]
    for (mine, _), (asked, residual) in zip(own, compared, strict=True):
        known = judge.model.posterior([asked])
        off = abs(residual - known.means[0]) / known.spread(0) / judge.model.factors[asked.facts.kind]
        if off > FARTHEST:
            notes.append(f"{mine.name} is {off:.1f} spreads off what published runs say: wrong unit or setting?")
    return judge._replace(model=judge.model.with_runs(compared), own=len(own)), tuple(notes)


def read_own_runs(measured: Measured) -> list[OwnRun]:
    """Return one's own runs, of a file or as pairs of a config and milliseconds. Raises ConfigError."""
    if isinstance(measured, (str, Path)):
        return list(_of_file(Path(measured)))
    pairs = [(*pair,) for pair in require_sequence(measured, KEY)]
    if any(len(pair) != 2 for pair in pairs):
        raise ConfigError("must be pairs of a config and the milliseconds of its step", KEY)
    return [_own_run(number, config, step) for number, (config, step) in enumerate(pairs, 1)]


def _of_file(path: Path) -> Iterator[OwnRun]:
    """Yield the runs in a file: each a config, or the name of its file, with the `step` that was measured."""
    try:
        text = read_text(path)
        runs = Entries(parse_yaml(text, str(path)), "", ("runs",)).values.get("runs") if text.strip() else None
    except ConfigError as error:
        raise ConfigError(str(error), KEY) from None
    if runs is None or not isinstance(runs.data, list):
        raise ConfigError(f"{path}: must hold `runs:`, a list of configs with the milliseconds of a step", KEY)
    if not runs.data:
        raise ConfigError(f"{path}:{runs.line}: `runs` is empty: it lists configs with the milliseconds of a step", KEY)
    for number, one in enumerate(runs.data, 1):
        if not isinstance(one.data, dict):
            raise ConfigError(f"{path}:{one.line}: run {number}: must be a mapping, not {shown(one.plain())}", KEY)
        _require_keys(number, one)
        if "config" in one.data:  # the name of another file, relative to this one
            config: Any = path.parent / str(one.data["config"].plain())
        else:
            keys = {key: value for key, value in one.data.items() if key not in BESIDE}
            config = Value(keys, one.line), str(path)
        yield _own_run(number, config, one.data["step"].plain() if "step" in one.data else None)


def _require_keys(number: int, one: Value) -> None:
    """Raise ConfigError for a run in a file that names no config, for keys beside one, and for a wrong `steps`."""
    try:
        if "config" in one.data:
            entries = Entries(one, "", ("config", *BESIDE))
            if not isinstance(entries.plain("config"), str):
                raise ConfigError("must be the name of a file; the keys of a config stand beside the step", "config")
        elif not {*one.data} - {*BESIDE}:
            raise ConfigError("is missing: the name of a file, or the keys of a config here", "config")
        if "steps" in one.data:
            require_whole(one.data["steps"].plain(), "steps", least=1)
    except ConfigError as error:
        raise ConfigError(f"run {number}: {str(error).removeprefix('.')}", KEY) from None


def _own_run(number: int, config: Any, step: Any) -> OwnRun:
    name = f"run {number}"
    try:
        if step is None:
            raise ConfigError("is missing: the milliseconds of a step, the median of at least 20 steady ones", "step")
        time = float(read_number(step, Unit(TIME, "ms"), "step"))
        if time <= 0:
            raise ConfigError(f"must be more than 0, not {shown(step)}", "step")
        if isinstance(config, tuple):  # keys that stand beside the step
            value, file = config
            config = Source("", file, read_fields(value, file))
        return OwnRun(name, load_config(None, config) if isinstance(config, Mapping) else load_config(config, {}), time)
    except ConfigError as error:
        said = error.message if error.key == "path_or_text" else error
        raise ConfigError(f"{name}: {said}", KEY) from None


def estimate(
    path_or_text: str | Path | None = None,
    algorithm: str | Callable[..., Any] | None = None,
    *,
    whole: bool = False,
    trust: bool = True,
    like: str | None = None,
    measured: Measured | None = None,
    **overrides: Any,
) -> Estimate:
    """Estimate times, memory and speed of a training run from its model, its GPUs and how it is laid out on them.

    Args:
        path_or_text: The name of a YAML file with `model`, `hardware`, `parallel`, `batch` and `training`, or its text;
            None where the overrides say it all.
        algorithm: What schedules the pipeline, a name or a function; default: the config's, else 1f1b, or interleaved
            for several chunks.
        whole: Every score of attention counts in the operations of the model, as in older papers, not only those that
            causal attention needs.
        trust: False leaves out how sure the estimate is.
        like: The source of published runs whose software and cluster one's own are like; default: that of the config.
        measured: The name of a YAML file of one's own runs, or pairs of a config and the milliseconds of its step.
        **overrides: Values that replace those of the config, as `load` takes them: `model="llama-3-8b"`,
            `parallel={"tensor": 4}`, `batch={"micro": 2}`.

    Raises:
        ConfigError: For a file that cannot be read, an unknown key or source, sizes that do not divide, a config
            without a model, or a run of one's own that cannot be read.
        NotApplicable: The algorithm does not suit the problem.
    """
    config = load_config(path_or_text, overrides)
    found = estimate_of(config, algorithm, whole=require_flag(whole, "whole"))
    return judged(found, config.trust, like, measured) if require_flag(trust, "trust") else found


def judged(
    found: Estimate,
    said: TrustSection | None,
    like: str | None = None,
    measured: Measured | None = None,
    others: Iterable[Estimate] = (),
) -> Estimate:
    """Return an estimate with how sure it is; beside `others` in few bits it is judged by these. Raises ConfigError."""
    low = any(one.setup.recipe is not None for one in (found, *others))
    judge, notes = judge_of(said.like if said and like is None else like, measured, low=low)
    notes += (MIXED,) * (low and found.setup.recipe is None)
    return replace(found, trust=judge.trust(found), notes=(*found.notes, *notes))
