"""From a dataflow graph and units to a checked schedule: by a rule of the list scheduler, or the shortest one."""

from __future__ import annotations

from dataclasses import dataclass

from pipesched.checks import require_label, require_name, require_type, require_whole
from pipesched.core.cpsat import Limits
from pipesched.core.listsched import list_schedule
from pipesched.core.optimum import lower_bound, shortest
from pipesched.core.ties import PRIORITIES, TIES
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.schedule import HardwareSchedule, checked, place_on_units
from pipesched.hls.units import Units, assign_classes, lower

PRIORITY, TIE = "alap", "pairing"
MOST_SEED = 2**31 - 1


@dataclass(frozen=True, repr=False)
class HardwareOutcome:
    """A schedule with a lower bound on its latency, or of a loop on its interval, in cycles.

    Raises ConfigError, about the field at fault, for a value of another type.
    """

    schedule: HardwareSchedule
    method: str
    bound: int
    proof: str  # what gave the bound
    status: str  # optimal, feasible (a search left a gap) or heuristic
    stopped_by: str = ""  # time or interrupt, when a search left a gap

    def __post_init__(self) -> None:
        require_type(self.schedule, HardwareSchedule, "a HardwareSchedule", "schedule")
        require_whole(self.bound, "bound")
        for key in ("method", "proof", "status", "stopped_by"):
            require_label(getattr(self, key), key)

    def __repr__(self) -> str:
        return f"HardwareOutcome({self.schedule}, bound {self.bound}, {self.status})"

    @property
    def objective(self) -> int:
        """The value that is bounded: the interval of a loop, else the latency, in cycles."""
        return self.schedule.interval or self.schedule.latency

    @property
    def gap(self) -> float:
        """(objective - bound) / bound."""
        return (self.objective - self.bound) / self.bound


def list_outcome(
    graph: DataflowGraph, units: Units, *, priority: str = PRIORITY, tie: str = TIE, seed: int = 0
) -> HardwareOutcome:
    """Return the list schedule by a priority and a tie (names of the core's PRIORITIES and TIES); `seed` repeats it.

    Raises ConfigError for an unknown name, a bad value, or an operation without a unit.
    """
    require_name(PRIORITIES, priority, "priority", "priority")
    require_name(TIES, tie, "tie", "tie")
    require_whole(seed, "seed", most=MOST_SEED)
    classes = assign_classes(graph, units)
    tasks = lower(graph, units, classes)
    listed = list_schedule(tasks, priority=priority, tie=tie, seed=seed)
    schedule = checked(HardwareSchedule(graph, units, classes, listed.starts, listed.units))
    bound, proof = lower_bound(tasks)
    status = "optimal" if schedule.latency == bound else "heuristic"
    return HardwareOutcome(schedule, f"list ({priority}, {tie})", bound, proof, status)


def solve(graph: DataflowGraph, units: Units, limits: Limits) -> HardwareOutcome:
    """Return the schedule of the least latency that is found within `limits`.

    Dependences on earlier iterations do not count. Raises ConfigError for an operation without a unit.
    """
    classes = assign_classes(graph, units)
    best = shortest(lower(graph, units, classes), limits)
    instances = place_on_units(best.starts, classes, units)
    schedule = checked(HardwareSchedule(graph, units, classes, best.starts, instances))
    status = "optimal" if best.is_proved else "feasible"
    return HardwareOutcome(schedule, best.method, best.bound, best.proof, status, best.stopped_by)
