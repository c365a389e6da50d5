"""The JSON documents of results in rows (version 1): `sweep_document` writes one, `sweep_of` reads it; so do others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from itertools import chain, product
from typing import Any, TypeVar

from pipesched.analysis.robustness import FIGURES, Robustness, RobustnessRow, Variation
from pipesched.checks import shown
from pipesched.documents.json_text import NUMBERS, get, head, picked, plain_values, require_finite, require_metrics
from pipesched.documents.problem import (
    CUT,
    ORDERING,
    cut_document,
    ordering_document,
    problem_document,
    read_cut,
    read_ordering,
)
from pipesched.errors import ConfigError
from pipesched.pipeline.check.check import excesses
from pipesched.pipeline.problem.costs import Memory
from pipesched.results.comparison import (
    VARIED_WORDS,
    Comparison,
    Entry,
    Frontier,
    FrontierPoint,
    ParetoPoint,
    Sweep,
    SweepPoint,
)
from pipesched.results.outcome import CHOSEN, Outcome, Status
from pipesched.results.packing import Packing
from pipesched.schedulers.options import GROUP_SIZE, OBJECTIVES, OPTIONS, ORDER, VARIED
from pipesched.schedulers.ordering import BEST
from pipesched.text.writer import ConfigText, dump

T = TypeVar("T")


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Return format "pipesched.comparison": a row an algorithm, in the order asked for.

    Of a model on GPUs, `faster` is how likely a step is shorter than the first one's. A comparison that was read from a
    document "pipesched.pareto" becomes one again.
    """
    is_known = any(entry.standing is not None for entry in comparison)
    rows = ({**_row(entry), **({"faster": comparison.faster(entry)} if is_known else {})} for entry in comparison)
    name = "comparison" if all(entry.dominated is None for entry in comparison) else "pareto"
    return {**rows_document(name, rows), **_units(comparison)}


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """Return format "pipesched.sweep": a row for each value of the field and each algorithm; units that are named."""
    memory = "" if sweep.memory_unit == Memory.unit else sweep.memory_unit
    named = {"time_unit": sweep.time_unit, "memory_unit": memory}
    rows = (
        {sweep.field: point.value, **_row(entry), sweep.field: point.value}  # an order that is varied stays a word
        for point in sweep.points
        for entry in point.comparison
    )
    return {**rows_document("sweep", rows), **{key: unit for key, unit in named.items() if unit}}


def pareto_document(comparison: Comparison, pareto_points: Sequence[ParetoPoint]) -> dict[str, Any]:
    """Return format "pipesched.pareto": a row a schedule, ranked, and last those that do not apply."""
    found = (
        Entry(
            one.outcome.algorithm, one.outcome, "", one.options, file=one.file, dominated=one.dominated_by is not None
        )
        for one in pareto_points
    )
    rows = map(_row, chain(found, (entry for entry in comparison if not entry.applicable)))
    return {**rows_document("pareto", rows), **_units(comparison)}


def _units(comparison: Comparison) -> dict[str, str]:
    memory = {"memory_unit": comparison.memory_unit} if comparison.memory_unit else {}
    return {"time_unit": comparison.time_unit, **memory}


def check_document(outcome: Outcome | None, found: Sequence[str]) -> dict[str, Any]:
    """Return format "pipesched.check": whether a schedule, None if it cannot run, keeps all rules; what it breaks."""
    return {
        **head("check"),
        "algorithm": None if outcome is None else outcome.algorithm,
        "valid": not found,
        "fits": None if outcome is None else outcome.schedule.fits,
        "violations": list(found),
        "over": [] if outcome is None else excesses(outcome.schedule),
    }


def rows_document(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return format "pipesched.<name>": one object a row."""
    return {**head(name), "rows": list(rows)}


def _row(entry: Entry) -> dict[str, Any]:
    who = {"algorithm": entry.algorithm, **({"file": entry.file} if entry.file else {})}
    if entry.metrics is None:
        return {**who, "applicable": False, "reason": entry.reason, **({"failed": True} if entry.failed else {})}
    return {
        **who,  # the order is a list where microbatches are not fed as they are given
        **{option: plain_values(value) for option, value in entry.options.items() if option != ORDER},
        **({} if entry.fed is None else ordering_document(entry.fed)),
        **cut_document(entry.cut),
        "applicable": True,
        **picked(entry, "runs_in", "weights"),
        "metrics": dict(entry.metrics),
        **({} if entry.dominated is None else {"dominated": entry.dominated}),
        **({"frozen": True} if entry.frozen else {}),
    }


def comparison_of(content: dict[str, Any]) -> Comparison:
    """Return the comparison in a document: its rows with their metrics, without schedules. Raises ConfigError."""
    return Comparison(_read(content, _entry), _unit(content, "time_unit"), _unit(content, "memory_unit"))


def _read(content: dict[str, Any], read: Callable[[Any], T]) -> tuple[T, ...]:
    """Return what `read` makes of each row. Raises ConfigError that names the row."""
    rows = []
    for number, row in enumerate(get(content, "rows", list)):
        try:
            rows.append(read(row))
        except ConfigError as error:
            raise ConfigError(f"rows[{number}]: {error}") from None
    return tuple(rows)


def _unit(content: Mapping[str, Any], key: str) -> str:
    unit = content.get(key, "")
    return unit if isinstance(unit, str) and unit.isprintable() else ""


def sweep_of(content: dict[str, Any]) -> Sweep:
    """Return the sweep in a document: its rows by the value of the field. Raises ConfigError."""
    rows = get(content, "rows", list)
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    options = [key for key in VARIED if key in first and (key == GROUP_SIZE or isinstance(first[key], str))]
    field = next((key for key in [*(key for key in first if key not in _ENTRY_KEYS), *options]), None)
    if field is None:
        raise ConfigError("'rows' must name the field that was varied")

    def read(row: Any) -> tuple[Any, Entry]:
        value = get(row, field, object)
        if value not in VARIED_WORDS.get(field, ()):
            value = require_finite(plain_numbers(value), field)
        if field in VARIED:  # it is no list of microbatches, and no option of the entry
            row = {key: one for key, one in row.items() if key != field} | ({ORDER: []} if field == ORDER else {})
        return value, _entry(row)

    points: dict[Any, list[Entry]] = {}
    for value, entry in _read(content, read):
        points.setdefault(value, []).append(entry)
    time, memory = _unit(content, "time_unit"), _unit(content, "memory_unit")
    compared = (SweepPoint(value, Comparison(tuple(entries), time)) for value, entries in points.items())
    return Sweep(field, tuple(compared), memory)


_ENTRY_KEYS = (
    "algorithm", "file", "applicable", "runs_in", "weights", "metrics", "reason", "dominated", "faster", "frozen",
    "failed", ORDERING, CUT,
    *OPTIONS,
)  # fmt: skip


def _entry(row: Any) -> Entry:
    """Return the entry of a row, as `_row` writes it."""
    name, file = get(row, "algorithm", str), get({"file": "", **row}, "file", str)
    if not get(row, "applicable", bool):
        return Entry(name, reason=get(row, "reason", str), file=file, failed=row.get("failed") is True)
    metrics, ordering, cut = plain_numbers(get(row, "metrics", dict)), read_ordering(row), read_cut(row)
    require_metrics(metrics, "metrics.", (*NUMBERS, "peak_memory"))
    if not isinstance(metrics.get("fits"), bool):
        raise ConfigError(f"metrics.fits must be true or false, not {shown(metrics.get('fits'))}")
    trainers, copies = row.get("runs_in", []), row.get("weights", 1)
    if not isinstance(trainers, list) or not all(isinstance(trainer, str) for trainer in trainers):
        raise ConfigError(f"runs_in must be a list of names, not {shown(trainers)}")
    return Entry(
        name,
        options={
            **{option: plain_numbers(row[option]) for option in OPTIONS if option in row and option != ORDER},
            **({ORDER: BEST} if ordering is not None and ordering.rule == BEST and ordering.order else {}),
        },
        ordering=ordering,
        cut=cut,
        document=metrics,
        trainers=tuple(trainers),
        copies=require_finite(copies, "weights"),
        dominated=None if "dominated" not in row else get(row, "dominated", bool),
        file=file,
        frozen=get({"frozen": False, **row}, "frozen", bool),
    )


def plain_numbers(value: Any) -> Any:
    """Return a value of a document with a float for each exact decimal."""
    if isinstance(value, dict):
        return {key: plain_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain_numbers(entry) for entry in value]
    return float(value) if isinstance(value, Decimal) else value


def frontier_document(frontier: Frontier) -> dict[str, Any]:
    """Return format "pipesched.frontier": a row a point by rising budget, in the user's units."""
    labels = picked(frontier, "objective", "time_unit", "memory_unit", "covers")
    rows = (
        {
            "budget": point.budget,
            **picked(point.outcome.schedule, "makespan", "span"),
            **picked(point, "bound", "gap", "status"),
            **picked(point.outcome.schedule, "bubble", "peak_memory", "memory"),
            **picked(point, "placement", "source"),
        }
        if point.outcome is not None
        else point.row or {}
        for point in frontier
    )
    return {**rows_document("frontier", rows), **labels}


def frontier_of(content: dict[str, Any]) -> Frontier:
    """Return the frontier in a document: its points, without schedules. Raises ConfigError."""
    objective = content.get("objective", "makespan")
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise ConfigError(f"'objective' must be one of {', '.join(sorted(OBJECTIVES))}, not {shown(objective)}")

    def point(written: Any) -> FrontierPoint:
        row = plain_numbers(written)
        numbers = {key: get(row, key, object) for key in ("budget", objective, "bound", "gap")}
        texts = {key: get(row, key, str) for key in ("status", "placement", "source")}
        for key, value in numbers.items():
            require_finite(value, key)
        require_metrics(row, "")
        if texts["status"] not in (Status.OPTIMAL.value, Status.FEASIBLE.value):
            raise ConfigError(f"status must be optimal or feasible, not {shown(texts['status'])}")
        budget, value, bound, gap = numbers.values()
        return FrontierPoint(budget, value, bound, gap, **{**texts, "status": Status(texts["status"])}, row=row)

    defaults = {"time_unit": "", "memory_unit": "", "covers": CHOSEN}
    labels = {key: str(content.get(key, default)) for key, default in defaults.items()}
    return Frontier(_read(content, point), objective, **labels)


def packing_document(packing: Packing) -> dict[str, Any]:
    """Return format "pipesched.packing": the documents of each microbatch by their index, and what that takes."""
    return {
        **head("packing"),
        "documents": len(packing.lengths) if packing.pieces is None else packing.pieces[-1][0] + 1,
        "tokens": sum(packing.tokens),
        **picked(packing, "ranks", "cap", "microbatches", "algorithm", "makespan", "bound", "gap", "covers"),
        **picked(packing, "exact", "fits"),
        **cut_document(packing.cut),
        "makespans": [*packing.makespans],
        **picked(packing, "assignment", "work"),
        "baselines": [picked(one, "rule", "fits", "makespan", "most_tokens") for one in packing.baselines],
        **({"tried": [*map(list, packing.tried)]} if packing.tried else {}),
        **({} if packing.more is None else {"more": [*packing.more]}),
        **({"dropped": packing.dropped} if packing.dropped else {}),
        **({} if packing.pieces is None else {"pieces": [*map(list, packing.pieces)]}),
    }


def rank_config(packing: Packing, rank: int | None = None) -> ConfigText:
    """Return the config of a rank, by default the slowest, of which `run` takes as long. Raises ConfigError."""
    rank = packing.slowest if rank is None else rank
    problem = replace(packing.problem(rank), layers=None)
    content = {key: value for key, value in problem_document(problem).items() if value not in (None, "")}
    for section in ("costs", "memory"):
        content[section] = {key: value for key, value in content[section].items() if value is not None}
    what = f"rank {rank} of {packing.ranks}, {packing.tokens[rank]} tokens in {packing.microbatches} microbatches"
    return dump({**content, "algorithm": packing.algorithm}, f"{what}: makespan {packing.makespans[rank]}")


def robustness_document(robustness: Robustness) -> dict[str, Any]:
    """Return format "pipesched.robustness": how durations varied, and a row a schedule, in the order asked for."""
    rows = [
        {
            **picked(row, "algorithm", *FIGURES),
            "stragglers": list(row.stragglers),
            "fits": row.fits,
            "over": list(row.over),
        }
        if row.applicable
        else {**picked(row, "algorithm", "applicable", "reason"), **({"failed": True} if row.failed else {})}
        for row in robustness
    ]
    return {**head("robustness"), **asdict(robustness.variation), "rows": rows}


def robustness_of(content: dict[str, Any]) -> Robustness:
    """Return the robustness in a document: its rows without samples. Raises ConfigError."""

    def read(written: Any) -> RobustnessRow:
        row = plain_numbers(written)
        name, failed = get(row, "algorithm", str), row.get("failed") is True
        if row.get("applicable") is False:
            return RobustnessRow(name, reason=get(row, "reason", str) or "does not apply", failed=failed)
        figures = {key: get(row, key, object) for key in FIGURES}
        stragglers, over = get(row, "stragglers", list), get({"over": [], **row}, "over", list)
        over = [{key: get(one, key, object) for key in ("device", "memory", "budget")} for one in over]
        for key, value in chain(figures.items(), product(["stragglers"], stragglers), *(one.items() for one in over)):
            if value is not None or key != "best_share" or not over:
                require_finite(value, key)
        return RobustnessRow(name, **figures, stragglers=tuple(stragglers), over=tuple(over))

    settings = {key: plain_numbers(get(content, key, object)) for key in asdict(Variation())}
    return Robustness(_read(content, read), **settings)
