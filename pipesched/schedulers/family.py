"""Schedule families: each is a function from Problem to Plan, and what people need to know before they use it.

`Family` is what the modules of schedulers/ declare. `prepare` fits a problem to one; `plan_of` (plan_of.py) then plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pipesched.checks import (
    require_callable,
    require_flag,
    require_label,
    require_name,
    require_sequence,
    require_type,
    require_whole,
    shown,
)
from pipesched.display import Displayable
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.layers.recut import can_be_cut, fitted_to
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.placement import PLACEMENTS, named_placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY

T = TypeVar("T")
ANY = "any"
SIMULATED = "by simulation"  # a formula that nobody gives
FORWARDS = "sequential, naive, interleaved, looped-bfs and list"  # the families of which `forward_only` holds
SLICED = "sequential, naive, seq-1f1b, interleaved, zb-h1, zb-h2, zb-v and list"  # those of which `slices` does
FLAGS = (
    "is_multiple", "obeys_budget", "settled_order", "slices", "forward_only", "is_slow", "has_pairs", "looks_at_each",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Family(Displayable):
    """An algorithm that makes a plan of a problem: `plan(problem, **options)`.

    Raises ConfigError, about the field at fault, for what is none of these.
    """

    name: str
    plan: Callable[..., Plan]
    placement: str  # its name; any: as the config says, linear by default
    needs: str  # like `bubble` and `memory` in words and formulas, for people
    bubble: str
    memory: str
    paper: str  # where it was published
    elsewhere: str = "none"  # other software that has it
    options: tuple[str, ...] = ()  # the keys that `plan` takes
    required: tuple[str, ...] = ()  # those without a default: a comparison of all leaves it out where they are missing
    requires: Callable[[Problem], None] | None = None  # raises NotApplicable for what does not suit it, beside stages
    chunks: int = 1  # stages a device that it runs: others are fused to it
    is_multiple: bool = False  # whether it runs any multiple of `chunks` too
    # what others may rely on
    obeys_budget: bool = False  # it makes another plan under a budget
    settled_order: bool = False  # its order follows from the numbers of devices, stages and microbatches: see `settles`
    splits_backward: bool | None = False  # plans have I and W always, never, or (None) as the costs say
    same_with_one_stage: str = ""  # the family whose plans are the same with one stage a device
    same_without_slices: str = ""  # that without slices, where a comparison of all leaves this one out
    with_slices: str = ""  # the family that is this one with slices
    slices: bool = False  # it runs slices of microbatches
    forward_only: bool = False  # it has an order of forward passes alone, then with slices too
    is_slow: bool = False  # it times many plans, for most of a second
    has_pairs: bool = False  # forwards and backwards run as pairs
    looks_at_each: bool = False  # at the costs of each microbatch: another order of them has another plan
    most_chunks: Callable[[Problem], int] | None = None  # the most activations that a device holds; None: not told
    origin: str = ""  # of a user's function: where it stands, file and line
    summary: str = ""  # of a user's function: its first sentence
    title: str = ""  # of a user's function: what tables call it

    def __post_init__(self) -> None:
        labels = ("name", "needs", "bubble", "memory", "paper", "elsewhere")
        for key in (*labels, "same_with_one_stage", "same_without_slices", "with_slices", "origin", "summary", "title"):
            require_label(getattr(self, key), key)
        require_type(self.plan, Callable, "a function", "plan")
        for key in ("requires", "most_chunks"):
            require_callable(getattr(self, key), key)
        for key in FLAGS:
            require_flag(getattr(self, key), key)
        if self.splits_backward is not None:
            require_flag(self.splits_backward, "splits_backward")
        require_name((ANY, *PLACEMENTS), self.placement, "placement", "placement")
        require_whole(self.chunks, "chunks", least=1)
        for key in ("options", "required"):
            object.__setattr__(self, key, tuple(require_sequence(getattr(self, key), key)))
            for entry, option in enumerate(getattr(self, key)):
                if not isinstance(option, str) or option not in self.options:
                    raise ConfigError(f"must be names of options, not {shown(option)}", key, entry=entry)

    def settles(self, devices: int, stages: int, microbatches: int) -> bool:
        """Return whether its order follows from these numbers alone: that of a group size which is found does not."""
        is_found = "group_size" in self.options and stages > devices and microbatches % devices
        return self.settled_order and not is_found

    def __repr__(self) -> str:
        head = f"Family({shown(self.name, 24)}, placement={self.placement}, needs="
        return f"{head}{shown(self.needs, 118 - len(head))})"

    @property
    def stages(self) -> str:
        """How many stages it runs on P devices: "P", "2P", "kP" or "2kP" (a multiple), or "any"."""
        if self.placement == ANY:
            return ANY
        return f"{self.chunks if self.chunks > 1 else ''}{'k' * self.is_multiple}P"

    @property
    def copies(self) -> int:
        """How many copies of the weights there are, over all devices of a pipeline."""
        return 2 if self.placement == "bidirectional" else 1

    def chunks_run(self, wanted: int) -> int:
        """Return how many stages a device it runs, where so many are wanted."""
        if self.placement == ANY:
            return wanted
        return max(wanted // self.chunks, 1) * self.chunks if self.is_multiple else self.chunks


class Binding(partial[T]):
    """A function of several families with what one of them is: two of the same are equal, after pickle too."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and (self.func, self.keywords) == (other.func, other.keywords)

    def __hash__(self) -> int:
        return hash((self.func, *self.keywords.values()))


def require_even(problem: Problem, *, name: str, keys: Sequence[str]) -> None:
    """Raise NotApplicable, with the nearest even numbers, where a number of the problem with one of these keys is odd.

    `name` is that of the family.
    """
    for key in keys:
        if (count := getattr(problem, key)) % 2:
            nearest = f"{count - 1} or {count + 1}" if count > 1 else "2"
            raise NotApplicable(f"{name} needs an even number of {key}, for instance {nearest}, not {count}", key)


def prepare(problem: Problem, family: Family) -> Problem:
    """Return `problem` as `family` runs it: fused to its number of stages, with its placement.

    Raises NotApplicable when the stages cannot be fused, when the config asks for another placement, or when the family
    has no slices, or no forward passes alone.
    """
    if problem.mode == FORWARD_ONLY or problem.slices.are_several:
        _require_units(problem, family)
    devices, fitted = problem.devices, problem
    if family.placement != ANY:
        unit, is_open = family.chunks * devices, can_be_cut(problem)
        if problem.stages % unit and not is_open:
            low = problem.stages // unit * unit
            nearest = f"{low} or {low + unit}" if low else f"{unit}"
            needs = f"{family.name} needs a multiple of {unit} stages ({family.stages}), for instance {nearest}"
            raise NotApplicable(f"{needs}; there are {problem.stages}", "stages")
        stages = family.chunks_run(problem.stages // devices) * devices
        fitted = fitted_to(problem, named_placement(family.placement, devices, stages))
        theirs = None if is_open or problem.placement is None else fitted.settled_placement.in_blocks(problem.stages)
        if theirs is not None and problem.placement is not None and theirs != problem.placement.by_number:
            where = f"{family.name} places its stages {family.placement}, on devices {theirs.said}"
            raise NotApplicable(f"{where}, not {problem.placement.said}; use placement: auto", "placement")
    elif not problem.placement:
        fitted = fitted_to(problem, named_placement("linear", devices, problem.stages))
    if (fitted.mode, fitted.slices) != (problem.mode, problem.slices):  # of a model, a cut says what units there are
        _require_units(fitted, family)
    if family.requires is not None:
        family.requires(fitted)
    return fitted


def _require_units(problem: Problem, family: Family) -> None:
    """Raise NotApplicable, with the families that do, for one that does not run forwards alone, or slices."""
    is_forward = problem.mode == FORWARD_ONLY
    if is_forward and not family.forward_only:
        raise NotApplicable(f"{family.name} has no order of forward passes alone; {FORWARDS} have one", "mode")
    if not problem.slices.are_several or family.slices or is_forward:
        return
    if family.with_slices:
        raise NotApplicable(f"{family.name} has no slices; {family.with_slices} is its order with them", "slices")
    in_training = " in training" if family.forward_only else ""
    raise NotApplicable(f"{family.name} has no slices{in_training}; {SLICED} have them", "slices")
