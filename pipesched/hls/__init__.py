"""High-level synthesis on the same core: expressions and loops as dataflow graphs on adders and multipliers.

>>> from pipesched import hls
>>> from pipesched.core.cpsat import Limits
>>> graph = hls.parse_program("(a+b)*(c+d) + (e+f)*(g+h)")
>>> units = hls.make_units({"mul": 1, "add": 2}, {"mul": 2})
>>> outcome = hls.solve(graph, units, Limits(seconds=10))
>>> outcome.schedule.latency, outcome.schedule.registers, outcome.status
(6, 3, 'optimal')
"""

from pipesched.hls.compare import RuleTable as RuleTable
from pipesched.hls.compare import compare_rules as compare_rules
from pipesched.hls.graph import DataflowGraph as DataflowGraph
from pipesched.hls.graph import Dependence as Dependence
from pipesched.hls.graph import Operation as Operation
from pipesched.hls.modulo import interval_bounds as interval_bounds
from pipesched.hls.modulo import pipeline as pipeline
from pipesched.hls.outcome import HardwareOutcome as HardwareOutcome
from pipesched.hls.outcome import list_outcome as list_outcome
from pipesched.hls.outcome import solve as solve
from pipesched.hls.program import parse_program as parse_program
from pipesched.hls.schedule import HardwareSchedule as HardwareSchedule
from pipesched.hls.units import UnitClass as UnitClass
from pipesched.hls.units import make_units as make_units
