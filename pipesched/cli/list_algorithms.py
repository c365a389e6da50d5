"""`pipesched list`: the algorithms, and what to know before using one; also presets, keys, published runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pipesched.cli.groups import spell
from pipesched.cli.options import ProblemSource, Screen, argument, option
from pipesched.cli.output import show
from pipesched.cli.reading import given_config
from pipesched.errors import ConfigError, NotApplicable, blame
from pipesched.schedulers.family import prepare

if TYPE_CHECKING:
    from rich.console import RenderableType

    Listed = tuple[Iterable[dict[str, Any]], list[RenderableType]]  # the rows of a list, and how they are shown

PRESETS = {  # kind -> what to know of the table
    "model": "heads: of queries / of keys and values, where these are fewer",
    "hardware": "dense 16-bit TFLOP/s; links in GB/s a direction; --json has the shares that training reaches too",
}


def command(
    algorithms: list[str] | None = argument(
        "NAME", "Tell all about these; default: a line each. With --evidence: the model of the runs."
    ),
    *,
    models: bool = option("--models", "List the models that are known by name instead."),
    hardware: bool = option("--hardware", "List the GPUs that are known by name instead."),
    evidence: bool = option(
        "--evidence", "List the published runs that estimates rest on instead, all or those of a model."
    ),
    keys: bool = option("--keys", "List every key of a config instead: what its value may be, and what it means."),
    problem: ProblemSource,
    screen: Screen,
) -> None:
    """List the algorithms: placement, bubble and memory formulas; of those that are named all there is to know.

    With a config, or options of a problem, it says which of them apply to it.
    """
    from pipesched.documents.comparison import rows_document

    asked = problem.config is not None or bool(problem.overrides)
    if evidence and (models or hardware or asked):
        raise ConfigError("--evidence: is a list of its own; give it nothing but the name of a model")
    others = [*["models"] * models, *["hardware"] * hardware, *["keys"] * keys]
    if len(others) > 1 and not evidence:
        raise ConfigError(f"--{'models' if models else 'keys'}: is a list of its own; give one of these alone")
    if others and not evidence and (algorithms or asked):
        raise ConfigError("--models, --hardware and --keys list others; give them neither algorithms nor a config")
    name = "list" if evidence or not others else others[0]
    if evidence:
        rows, parts = _evidence(algorithms or ())
    elif others:
        rows, parts = _known(name)
    else:
        rows, parts = _algorithms(algorithms, problem if asked else None)
    show(screen, lambda: rows_document(name, rows), parts)


def _evidence(models: Sequence[str]) -> Listed:
    """Return the published runs, all or those of models. Raises ConfigError for an unknown model."""
    from pipesched.documents.tuning import evidence_rows
    from pipesched.estimation.model_reader import preset_model
    from pipesched.estimation.trust.evidence import evidence_base
    from pipesched.estimation.trust.facts import shape_of
    from pipesched.render.estimate import evidence_table

    shapes = [shape_of(preset_model(name)) for name in models]
    runs = [run for run in evidence_base().runs if not shapes or run.compared.facts.model in shapes]
    parts = [evidence_table(runs) if runs else f"no published run of {', '.join(models)}"]
    return evidence_rows(runs), parts


def _known(name: str) -> Listed:
    from rich.text import Text

    from pipesched.config.starter import known_keys
    from pipesched.estimation.hardware_reader import hardware_rows
    from pipesched.estimation.model_reader import model_rows
    from pipesched.render.catalogue import PresetTable, keys_table

    if name == "keys":
        fields = known_keys()
        return [{"key": one.key, "value": one.shape.form, "meaning": one.help} for one in fields], [keys_table(fields)]
    rows, kind = [*(model_rows() if name == "models" else hardware_rows())], name.removesuffix("s")
    return rows, [PresetTable(rows, kind), Text(PRESETS[kind], "dim")]


def _algorithms(names: Sequence[str] | None, source: ProblemSource | None) -> Listed:
    """Return the algorithms of these names, or all, also of packages; and why they do not suit the given problem."""
    from rich.text import Text

    from pipesched.render.catalogue import CatalogueTable, catalogue_details, catalogue_rows
    from pipesched.schedulers.own import look_for
    from pipesched.schedulers.registry import algorithms, family

    if not names:
        look_for(None, packages=True)
    with blame(None):
        families = [family(name) for name in names] if names else [*algorithms()]
    refusals: dict[str, str] | None = None
    if source is not None:
        problem = given_config(source).problem
        refusals = dict.fromkeys((one.name for one in families), "")
        for one in families:
            try:
                prepare(problem, one)
            except NotApplicable as error:
                refusals[one.name] = str(error)
    parts: list[RenderableType] = [catalogue_details(families, spell)] if names else []
    if not names or refusals is not None:
        parts.append(CatalogueTable(families, refusals))
    if not names and refusals is None:
        parts.append(Text("pipesched list NAME.. tells all about some, -c CONFIG which of them apply", "dim"))
    return catalogue_rows(families, refusals), parts
