"""What a schedule family is: a plain function from Problem to Plan, and what people need to know before they use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipesched.errors import NotApplicable
from pipesched.pipeline.fuse import fuse
from pipesched.pipeline.placement import place
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import shown

ANY = "any"


@dataclass(frozen=True)
class Family:
    """One family. `stages` is what it trains on: "P" or "2P" (one or two stages a device: others are fused to that),
    "kP" or "2kP" (a multiple) or "any"; `placement` is where they live ("any": as the config says, linear by default).
    """

    name: str
    plan: Callable[..., Plan]
    placement: str
    stages: str
    needs: str
    bubble: str
    memory: str
    source: str
    elsewhere: str = "none"
    options: tuple[str, ...] = ()


def option_name(parameter: str) -> str:
    """How the command line calls an option of a family: group_size is --group-size."""
    return f"--{parameter.replace('_', '-')}"


def need_even(name: str, count: int, key: str) -> None:
    """Raise NotApplicable, with the nearest even numbers, if `count` (the problem's `key`) is odd."""
    if count % 2:
        nearest = f"{count - 1} or {count + 1}" if count > 1 else "2"
        raise NotApplicable(f"{name} needs an even number of {key}, for instance {nearest}, not {count}", key)


def prepare(problem: Problem, family: Family) -> Problem:
    """`problem` as `family` runs it: fused to its number of stages, with its placement.

    Raises NotApplicable when the stages cannot be fused, or when the config asks for another placement.
    """
    if family.placement == ANY:
        return problem if problem.placement else _placed(problem, "linear")
    unit = 2 * problem.devices if "2" in family.stages else problem.devices
    if problem.stages % unit:
        low = problem.stages // unit * unit
        nearest = f"{low} or {low + unit}" if low else f"{unit}"
        raise NotApplicable(
            f"{family.name} needs a multiple of {unit} stages ({family.stages}), for instance {nearest};"
            f" the config has {problem.stages}",
            "stages",
        )
    fitted = _placed(fuse(problem, problem.stages if "k" in family.stages else unit), family.placement)
    _agree(problem, fitted, family)
    return fitted


def _placed(problem: Problem, name: str) -> Problem:
    return replace(problem, placement=place(name, problem.devices, problem.stages))


def _agree(problem: Problem, fitted: Problem, family: Family) -> None:
    """An explicit placement must put every stage where the family puts it."""
    if problem.placement is None:
        return
    size = problem.stages // fitted.stages
    theirs = tuple(device for device in fitted.home().devices for _ in range(size))
    if theirs != problem.placement.devices or fitted.home().mirrored != problem.placement.mirrored:
        raise NotApplicable(
            f"{family.name} places its stages {family.placement}, on devices {shown(theirs)}, not"
            f" {shown(problem.placement.devices)}; use placement: auto",
            "placement",
        )
