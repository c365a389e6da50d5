"""Where a number belongs in a document, nothing else may stand."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

import pipesched
from pipesched.documents.comparison import comparison_document
from pipesched.documents.json_text import dump
from pipesched.documents.problem import MAY_BE_NULL
from pipesched.documents.schedule import document
from pipesched.errors import ConfigError

PROBLEM = pipesched.make_problem(devices=2, microbatches=2, forward=5, backward=10, budget=3, offload=2, overlap=12)
LAYERS = pipesched.make_problem(devices=2, microbatches=2, layers=5, layer={"forward": 2}, last={"forward": 1})
DOCUMENTS: dict[str, Any] = {
    "schedule": document(pipesched.run(PROBLEM, "1f1b", offload="full")),
    "layers": document(pipesched.run(LAYERS, "1f1b")),
    "solved": document(pipesched.solve(PROBLEM, advice=False)),
    "comparison": comparison_document(pipesched.compare(PROBLEM, ["1f1b", "naive"])),
}
NULL = {*(f"problem.{key}" for key in MAY_BE_NULL), "cut.all"}
UNKNOWN = ("metrics.lower_bound", "metrics.gap")  # of a schedule, and of a row of a comparison


def numbers_in(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers."""
    if isinstance(node, dict):
        for key in node:
            yield from numbers_in(node[key], (*path, key))
    elif isinstance(node, list):
        for place, one in enumerate(node):
            yield from numbers_in(one, (*path, place))
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path


@pytest.mark.parametrize("value", [None, "text", [], {}], ids=str)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_replaced(name: str, value: Any) -> None:
    """Null, a text, a list or an object in its place is a ConfigError, but null where a value may be absent."""
    content = json.loads(dump(DOCUMENTS[name]))
    paths = [*numbers_in(content)]
    assert len(paths) > 30
    for path in paths:
        changed = deepcopy(content)
        inside = changed
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = value
        at = ".".join(map(str, path))
        if value is None and (at in NULL or at.endswith(UNKNOWN)):
            continue
        try:
            pipesched.read(io.StringIO(json.dumps(changed)))
        except ConfigError:
            continue
        pytest.fail(f"{path} may be {value}")
