"""The JSON document of a robustness (version 1): writing it, and reading it back without its samples."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain, product
from typing import Any

from pipesched.analysis.robustness import FIGURES, Robustness, RobustnessRow, Variation
from pipesched.documents.comparison import failure, plain_numbers, rows_document
from pipesched.documents.json_text import get, require_finite
from pipesched.errors import ConfigError


def robustness_document(robustness: Robustness) -> dict[str, Any]:
    """Return format "pipesched.robustness": how durations varied, and a row a schedule, in the order asked for."""
    rows = rows_document("robustness", map(_row, robustness))
    return {"format": rows["format"], "version": rows["version"], **asdict(robustness.variation), "rows": rows["rows"]}


def _row(row: RobustnessRow) -> dict[str, Any]:
    if not row.applicable:
        return {"algorithm": row.algorithm, "applicable": False, "reason": row.reason, **failure(row)}
    more = {key: getattr(row, key) for key in FIGURES} | {"stragglers": list(row.stragglers)}
    return {"algorithm": row.algorithm, **more, "fits": row.fits, "over": list(row.over)}


def robustness_of(content: dict[str, Any]) -> Robustness:
    """Return the robustness in a document: its rows without samples. Raises ConfigError."""
    settings = {key: plain_numbers(get(content, key, object)) for key in asdict(Variation())}
    rows = plain_numbers(get(content, "rows", list))
    return Robustness(tuple(_read(row, number) for number, row in enumerate(rows)), **settings)


def _read(row: Any, number: int) -> RobustnessRow:
    try:
        name, failed = get(row, "algorithm", str), row.get("failed") is True
        if row.get("applicable") is False:
            return RobustnessRow(name, reason=get(row, "reason", str) or "does not apply", failed=failed)
        figures = {key: get(row, key, object) for key in FIGURES}
        stragglers, over = get(row, "stragglers", list), get({"over": [], **row}, "over", list)
        over = [{key: get(one, key, object) for key in ("device", "memory", "budget")} for one in over]
    except ConfigError as error:
        raise ConfigError(f"rows[{number}]: {error}") from None
    for key, value in chain(figures.items(), product(["stragglers"], stragglers), *(one.items() for one in over)):
        if value is not None or key != "best_share" or not over:
            require_finite(value, f"rows[{number}]: {key}")
    return RobustnessRow(name, **figures, stragglers=tuple(stragglers), over=tuple(over))
