"""High-level synthesis on the same core: programs on functional units.

>>> from pipesched import hls
>>> graph = hls.parse_program("(a+b)*(c+d) + (e+f)*(g+h)")
>>> units = hls.make_units({"mul": 1, "add": 2}, {"mul": 2})
>>> outcome = hls.solve(graph, units, time_limit=10)
>>> outcome.schedule.latency, outcome.schedule.registers, outcome.status
(6, 3, 'optimal')
"""

from pipesched.hls.explanation import HardwareExplanation, explain_hardware as explain
from pipesched.hls.graph import DataflowGraph, Delay, Dependence, Operation, parse_program
from pipesched.hls.modulo import interval_bounds, pipeline
from pipesched.hls.outcome import HardwareOutcome, RuleTable, compare_rules, list_outcome, solve
from pipesched.hls.schedule import HardwareSchedule, UnitClass, make_units

__all__ = [
    "DataflowGraph", "Delay", "Dependence", "HardwareExplanation", "HardwareOutcome", "HardwareSchedule", "Operation",
    "RuleTable", "UnitClass", "compare_rules", "explain", "interval_bounds", "list_outcome", "make_units",
    "parse_program", "pipeline", "solve",
]  # fmt: skip
