"""The dataflow graph: cycles need an iteration in between."""

from __future__ import annotations

import pytest

from pipesched.errors import ConfigError
from pipesched.hls.graph import DataflowGraph, Dependence, Operation

OPERATIONS = tuple(Operation(name, "add") for name in "abcd")


def test_a_cycle_is_named_in_its_order() -> None:
    edges = (Dependence(0, 1), Dependence(1, 2), Dependence(2, 3), Dependence(3, 1))
    with pytest.raises(ConfigError, match="b -> c -> d -> b wait for each other in a cycle"):
        DataflowGraph(OPERATIONS, edges, "g")
    with pytest.raises(ConfigError, match="a -> a wait"):
        DataflowGraph(OPERATIONS, (Dependence(0, 0),))


def test_a_cycle_over_iterations_is_a_loop() -> None:
    graph = DataflowGraph(OPERATIONS, (Dependence(0, 1), Dependence(1, 0, 1)))
    assert graph.is_loop
    assert not DataflowGraph(OPERATIONS, (Dependence(0, 1),)).is_loop
    assert [edge.before for edge in graph.inputs(0)] == [1]
    assert [edge.after for edge in graph.uses(0)] == [1]


def test_no_operation_is_no_graph() -> None:
    with pytest.raises(ConfigError, match="no operation to schedule"):
        DataflowGraph(())
