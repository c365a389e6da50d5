"""The documents of hardware schedules."""

from __future__ import annotations

import json

from pipesched.documents.explanation import hardware_document, rules_document
from pipesched.documents.json_text import dump
from pipesched.hls.graph import parse_program
from pipesched.hls.modulo import interval_bounds, pipeline
from pipesched.hls.outcome import compare_rules, list_outcome
from pipesched.hls.schedule import make_units

UNITS = make_units({"mul": 1, "add": 2}, {"mul": 2}, ["mul"])


def test_a_schedule() -> None:
    """Every operation with its unit; the end is when the result is usable, also beyond the interval of its unit."""
    content = json.loads(dump(hardware_document(list_outcome(parse_program("x = a*b\ny = x + c"), UNITS))))
    assert content == {
        "format": "pipesched.hls",
        "version": 1,
        "latency": 3,
        "registers": 1,
        "lower_bound": 3,
        "status": "optimal",
        "units": {
            "mul": {"count": 1, "latency": 2, "initiation_interval": 1},
            "add": {"count": 2, "latency": 1, "initiation_interval": 1},
        },
        "ops": [
            {"op": "x", "type": "mul", "unit": ["mul", 0], "start": 0, "end": 2},
            {"op": "y", "type": "add", "unit": ["add", 0], "start": 2, "end": 3},
        ],
    }


def test_an_operation_without_a_name_has_its_expression() -> None:
    ops = hardware_document(list_outcome(parse_program("y = a*b + c"), UNITS))["ops"]
    assert [(one["op"], one.get("text")) for one in ops] == [("*1", "a*b"), ("y", None)]


def test_a_loop_says_its_interval_too() -> None:
    graph = parse_program("x = x * a", loop=True)
    content = hardware_document(pipeline(graph, UNITS, time_limit=10), interval_bounds(graph, UNITS))
    assert (content["initiation_interval"], content["lower_bound"], content["status"]) == (2, 2, "optimal")
    assert content["interval_bounds"] == {"resources": 1, "recurrences": 2}


def test_a_comparison_of_rules() -> None:
    table = compare_rules(parse_program("x = a*b + c"), UNITS)
    content = rules_document(table)
    assert content["format"] == "pipesched.hls-comparison"
    assert content["rows"][0] == {"priority": "none", "tie": "input", "latency": 3, "registers": 1}
    assert len(content["rows"]) == 6 * 8
    assert content["optimum"] == hardware_document(table.optimum)
