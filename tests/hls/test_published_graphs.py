"""The graphs of ExPRESS and MediaBench: optima that are proved in a moment, and large ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipesched.config.hardware import load_hardware
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.outcome import solve
from tests.hls.conftest import CLASSICS, UnitsOf, broken_rules

pytestmark = pytest.mark.slow

GRAPHS = Path(__file__).parents[1] / "data" / "express"
SAME = {"hal": "hal", "ewf": "ewf", "arf": "arf"}  # our program: the published graph


def load(name: str) -> DataflowGraph:
    return load_hardware(str(GRAPHS / f"{name}.json")).graph


@pytest.mark.parametrize("name", SAME)
def test_our_programs_are_the_published_graphs(name: str, units_of: UnitsOf) -> None:
    """As many operations of each type with as many inputs and uses; and the same optimum."""
    ours, theirs = load_hardware(str(CLASSICS / f"{name}.txt")).graph, load(SAME[name])

    def shape(graph: DataflowGraph) -> list[tuple[str, int, int]]:
        tasks = range(len(graph))
        return sorted((graph.operations[t].type.lower(), len(graph.inputs(t)), len(graph.uses(t))) for t in tasks)

    assert shape(ours) == shape(theirs)
    found = [solve(graph, units_of(2, 1, 2), time_limit=20).schedule.latency for graph in (ours, theirs)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "add", "mul", "cycles", "latency"),
    [
        ("collapse_pyr_dfg__113", 3, 2, 2, 16),
        ("feedback_points_dfg__7", 5, 3, 2, 13),
        ("cosine2", 3, 2, 2, 22),
        ("horner_bezier_surf_dfg__12", 3, 2, 2, 11),
        ("idctcol_dfg__3", 3, 2, 2, 32),
        ("idctcol_dfg__3", 4, 2, 2, 30),
        ("jpeg_fdct_islow_dfg__6", 3, 2, 2, 38),
        ("jpeg_idct_ifast_dfg__5", 3, 3, 2, 31),
        ("matmul_dfg__3", 3, 2, 2, 42),
        ("motion_vectors_dfg__7", 2, 1, 2, 29),
        ("write_bmp_header_dfg__7", 4, 2, 2, 26),
    ],
)
def test_optima_of_mediabench(name: str, add: int, mul: int, cycles: int, latency: int, units_of: UnitsOf) -> None:
    found = solve(load(name), units_of(add, mul, cycles), time_limit=20)
    assert (found.schedule.latency, found.status) == (latency, "optimal")
    assert broken_rules(found.schedule) == []


@pytest.mark.parametrize("name", ["invert_matrix_general_dfg__3", "dag_500", "dag_1500"])
def test_large_graphs_have_a_schedule_and_a_small_gap(name: str, units_of: UnitsOf) -> None:
    content = json.loads((GRAPHS / f"{name}.json").read_text())
    found = solve(load(name), units_of(4, 2, 2), time_limit=2)
    assert len(found.schedule.starts) == len(content["ops"])
    assert found.bound <= found.schedule.latency <= 1.02 * found.bound
