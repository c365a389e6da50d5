"""The section `solver` of a schedule's document: what a solve reported, written and read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pipesched.checks import shown
from pipesched.documents.json_text import picked, plain_values
from pipesched.errors import ConfigError
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.placement import placement_name
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule
from pipesched.results.covered import CHOSEN
from pipesched.results.cuts import CutReport, TriedCut
from pipesched.results.outcome import Advice, BestHeuristic, Outcome, Repetition, SolveReport
from pipesched.results.status import Status, StoppedBy


def advice_of(content: object) -> tuple[Advice, ...] | None:
    """Return the advice in a document, None where it has none. Raises ConfigError for what is none."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(one, Mapping) for one in content):
        raise ConfigError(f"solver: 'advice' must be a list of changes, not {shown(content)}")
    return tuple(map(_advice, content))


def wrong_advice(report: SolveReport) -> Iterator[str]:
    """Yield a sentence for each piece of advice that another claim contradicts."""
    values = [one.makespan_at_most for one in report.advice or ()]
    for one in report.advice or ():
        where = f"solver.advice, {one.change}: the difference is {one.difference}"
        if one.difference >= 0:
            yield f"{where}, which does not help"
        difference = Fraction(one.makespan_at_most) - Fraction(report.value_ticks, report.bound.per_unit)
        if round((Fraction(one.difference) - difference) * report.bound.per_unit):
            yield f"{where}, and from {report.value} to {one.makespan_at_most} it is {plain(difference)}"
    if values != sorted(values):
        yield "solver.advice is not in the order of its makespans"


def _advice(content: Mapping[str, Any]) -> Advice:
    change = content.get("change")
    if not isinstance(change, str) or not change.isprintable():
        raise ConfigError(f"solver: 'change' of 'advice' must be one line of text, not {shown(change)}")
    found: dict[str, Any] = {}
    for key in ("makespan_at_most", "difference"):
        value = content.get(key)
        if not isinstance(value, (int, float, Decimal)) or isinstance(value, bool):
            raise ConfigError(f"solver: {key!r} of 'advice' must be a number, not {shown(value)}")
        found[key] = plain(Fraction(value))
    for key in ("solve", "problem"):
        value = content.get(key, {})
        if not isinstance(value, Mapping):
            raise ConfigError(f"solver: {key!r} of 'advice' must hold parameters by their names, not {shown(value)}")
        found[key] = plain_values(value)
    return Advice(change, **found)


MAKESPAN, SPAN = "makespan", "span"
MOST = 10**30


def solver_document(report: SolveReport) -> dict[str, Any]:
    """Return the report of a solve: the value of its objective, the bound on it, and where both come from."""
    best, repetition, cuts, cut = report.heuristic, report.repetition, report.cuts, {}
    if cuts is not None:
        own = {"layout": list(cuts.layout), "chunks": cuts.chunks, "bound": cuts.bound.value, "status": cuts.status}
        cut = {"cut": own, "cuts": [{**one._asdict(), "layout": list(one.layout)} for one in cuts.tried]}
    return {
        "status": report.status,
        "minimize": report.objective,
        "objective": report.value,
        "bound": report.bound.value,
        **picked(report, "covers"),
        "bound_reason": report.bound.reason,
        "gap": report.gap,
        "seconds": round(report.seconds, 3),
        **picked(report, "stopped_by", "source"),
        "heuristic": None if best is None else {"source": best.source, "objective": best.value},
        **{key: list(getattr(report, key)) for key in ("placements", "cut_off", "not_tried")},
        "equal": list(report.equal),
        "repetition": None if repetition is None else repetition._asdict(),
        **({} if report.advice is None else {"advice": [one._asdict() for one in report.advice]}),
        **cut,
    }


def report_of(content: Mapping[str, Any], metrics: object, schedule: Schedule) -> SolveReport:
    """Return the report in a section `solver`; what other programs leave out has a plain default.

    The value is that of the schedule itself. Raises ConfigError for what is no such section.
    """
    objective = _word(content, "minimize", (MAKESPAN, SPAN), MAKESPAN)
    per_unit = schedule.problem.ticks.per_unit
    value = schedule.makespan_ticks if objective == MAKESPAN else schedule.span_ticks
    bound = _bound(content, "bound", per_unit, _text(content, "bound_reason", "as the document says"))
    known = metrics.get("lower_bound") if isinstance(metrics, Mapping) else None
    own = _bound({"lower_bound": 0 if known is None else known}, "lower_bound", per_unit, bound.reason)
    name = placement_name(schedule.problem.settled_placement, schedule.problem.devices)
    return SolveReport(
        objective=objective,
        status=Status(_word(content, "status", [*map(str, Status)], "feasible")),
        value_ticks=value,
        bound=bound,
        makespan_bound=own,
        seconds=float(_number(content, "seconds")),
        stopped_by=StoppedBy(_word(content, "stopped_by", [*map(str, StoppedBy)], "search")),
        source=_text(content, "source", "unknown"),
        heuristic=_heuristic(content.get("heuristic")),
        placements=_names(content, "placements", [name]),
        equal=dict.fromkeys(_names(content, "equal", []), 0),
        repetition=_repetition(content.get("repetition")),
        advice=advice_of(content.get("advice")),
        cuts=_cuts_of(content, per_unit),
        covers=_text(content, "covers", CHOSEN),
        cut_off=_names(content, "cut_off", []),
        not_tried=_names(content, "not_tried", []),
    )


def wrong_solver_claims(content: Mapping[str, Any], outcome: Outcome) -> Iterator[str]:
    """Yield a sentence for each claim of a section `solver` that its schedule, or another claim, contradicts.

    That a bound holds cannot be seen in a document; that it is above the value can.
    """
    report = outcome.report
    if report is None:
        return
    claimed = Fraction(_number(content, "objective")) if "objective" in content else None
    if claimed is not None and round(claimed * report.bound.per_unit) != report.value_ticks:
        yield f"solver.objective is {plain(claimed)} in the document; its schedule has {report.value}"
    if report.bound.ticks > report.value_ticks:
        yield f"solver.bound is {report.bound.value}, above the {report.objective} of the schedule, {report.value}"
    elif (report.status == Status.OPTIMAL) != (report.bound.ticks == report.value_ticks):
        values = f"a {report.objective} of {report.value} and a bound of {report.bound.value}"
        yield f"solver.status is {report.status}, with {values}"
    yield from wrong_advice(report)


def _bound(content: Mapping[str, Any], key: str, per_unit: int, reason: str) -> Bound:
    ticks = round(Fraction(_number(content, key)) * per_unit)
    if ticks < 0:
        raise ConfigError(f"solver: {key!r} must not be negative")
    return Bound(ticks, reason, per_unit)


def _number(content: Mapping[str, Any], key: str) -> int | float | Decimal:
    value = content.get(key, 0)
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if not is_number or not -MOST < value < MOST:
        raise ConfigError(f"solver: {key!r} must be a number, not {shown(value)}")
    number: int | float | Decimal = value
    return number


def _text(content: Mapping[str, Any], key: str, default: str) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigError(f"solver: {key!r} must be one line of text, not {shown(value)}")
    return value


def _word(content: Mapping[str, Any], key: str, known: list[str] | tuple[str, ...], default: str) -> str:
    value = content.get(key, default)
    if value not in known:
        raise ConfigError(f"solver: {key!r} must be one of {', '.join(known)}, not {shown(value)}")
    return str(value)


def _heuristic(content: object) -> BestHeuristic | None:
    if content is None:
        return None
    if not isinstance(content, Mapping):
        raise ConfigError(f"solver: 'heuristic' must hold a source and an objective, not {shown(content)}")
    return BestHeuristic(_text(content, "source", ""), plain(Fraction(_number(content, "objective"))))


def _repetition(content: object) -> Repetition | None:
    if content is None:
        return None
    if not isinstance(content, Mapping):
        raise ConfigError(f"solver: 'repetition' must hold a placement, a period and more, not {shown(content)}")
    count = _number(content, "microbatches")
    if count != int(count) or count < 1:
        raise ConfigError(f"solver: 'microbatches' of 'repetition' must be a whole number, not {shown(count)}")
    period, refuted = (plain(Fraction(_number(content, key))) for key in ("period", "refuted"))
    return Repetition(_text(content, "placement", ""), period, int(count), refuted)


def _names(content: Mapping[str, Any], key: str, default: list[str]) -> tuple[str, ...]:
    names = content.get(key, default)
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isprintable() for name in names):
        raise ConfigError(f"solver: {key!r} must be a list of names, not {shown(names)}")
    return tuple(names)


def _cuts_of(content: Mapping[str, Any], per_unit: int) -> CutReport | None:
    """Return what `cut` and `cuts` say. Raises ConfigError for what is no such section."""
    own, listed = content.get("cut"), content.get("cuts", [])
    if own is None:
        return None
    if not isinstance(own, Mapping) or not isinstance(listed, list) or not all(isinstance(c, Mapping) for c in listed):
        raise ConfigError("solver: 'cut' holds a layout, chunks, a bound and a status, and 'cuts' lists such cuts")
    tried = tuple(
        TriedCut(
            chunks=_count(cut, "chunks"),
            placement=_text(cut, "placement", ""),
            layout=_layout(cut),
            work=plain(Fraction(_number(cut, "work"))),
            makespan=None if cut.get("makespan") is None else plain(Fraction(_number(cut, "makespan"))),
        )
        for cut in listed
    )
    status = Status(_word(own, "status", [*map(str, Status)], "feasible"))
    bound = _bound(own, "bound", per_unit, "as the document says")
    return CutReport(_layout(own), _count(own, "chunks"), bound, status, tried)


def _layout(content: Mapping[str, Any]) -> tuple[int, ...]:
    layout = content.get("layout")
    if not isinstance(layout, list):
        raise ConfigError(f"solver: 'layout' must list the layers of each stage, not {shown(layout)}")
    return tuple(_count({"layout": count}, "layout") for count in layout)


def _count(content: Mapping[str, Any], key: str) -> int:
    count = _number(content, key)
    if count != int(count) or count < 0:
        raise ConfigError(f"solver: {key!r} must be a whole number, not {shown(count)}")
    return int(count)
