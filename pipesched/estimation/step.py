"""What a step costs beside its passes where data-parallel ranks divide parameters: gathers, reductions, optimizer.

Of each stage, from the parameters of a rank: dense ones, and those of experts, which other ranks may divide. In
milliseconds; nothing is taken to be hidden, as the schedule says what is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pipesched.errors import NotApplicable
from pipesched.estimation.communication import saved_bytes, tied_terms
from pipesched.estimation.items import GB, Item, Stage
from pipesched.estimation.memory import state_bytes
from pipesched.estimation.setup import Setup, ShardGroup
from pipesched.estimation.terms import PER_MS, Term, Terms, around, total
from pipesched.estimation.times import optimizer_terms
from pipesched.pipeline.plan.step import GRADIENTS, NOTHING, OPTIMIZER_STATES, WEIGHTS
from pipesched.pipeline.problem.placement import Placement

GATHER, REDUCE, OPTIMIZER = STEP_TIMES = ("gather", "reduce", "optimizer")
SIZES = {"weights": WEIGHTS, "gradients": GRADIENTS, "states": OPTIMIZER_STATES}  # by the level that divides them


def gather_terms(setup: Setup, dense: Fraction, experts: Fraction, low: Fraction = Fraction(0)) -> Terms:
    """Return the gather of the weights of a rank, those of `low` and of experts in low precision; none undivided."""
    if setup.training.level == NOTHING:
        return ()
    each, terms = state_bytes(setup.training).weight, []
    for name, count, group in setup.shard_parts(dense, experts):
        if group.ranks > 1:
            less = saved_bytes(setup, experts if name else low)
            sent = (each * float(count) - less) * (group.ranks - 1) / group.ranks
            terms.append(around(setup, f"weights{name}", sent, group, gathers=True))
    return tuple(terms)


def reduce_terms(setup: Setup, dense: Fraction, experts: Fraction) -> Terms:
    """Return the reduction of the gradients of a rank: in groups, around their replicas, and gathered if undivided."""
    each, terms, is_whole = state_bytes(setup.training).gradient, list[Term](), setup.training.level == NOTHING
    for name, count, group in setup.shard_parts(dense, experts):
        replicas, own = ShardGroup(group.replicas, 1, group.apart * group.ranks), each * float(count)
        terms += _summed(setup, f"gradients{name}", own, group, gathered=is_whole)
        terms += _summed(setup, f"gradients{name} of replicas", own / group.ranks, replicas, gathered=True)
    return tuple(terms)


def _summed(setup: Setup, name: str, size: float, group: ShardGroup, *, gathered: bool) -> Iterator[Term]:
    """Yield the sum of so many bytes over a group, of which each rank has a part, unless they are gathered again."""
    if group.ranks > 1:
        sent = size * (group.ranks - 1) / group.ranks
        yield around(setup, name, sent, group)
        if gathered:
            yield around(setup, f"{name}, gathered again", sent, group)


TERMS = {GATHER: gather_terms, REDUCE: reduce_terms, OPTIMIZER: optimizer_terms}


def step_terms(setup: Setup, stage: Stage | Item, what: str) -> Terms:
    """Return what the gather, the reduction or the optimizer of a stage is made of, or of an item as a stage alone."""
    count, experts = stage.size("parameters"), stage.size("experts")
    return TERMS[what](setup, count - experts, experts, *[stage.size("low")] * (what == GATHER))


def milliseconds(terms: Terms) -> Fraction:
    """Return the sum of terms as the schedule has it, in whole microseconds."""
    return Fraction(round(float(total(terms)) * PER_MS), PER_MS)


def step_values(setup: Setup, stages: Sequence[Stage], placement: Placement, *, trains: bool = True) -> dict[str, Any]:
    """Return costs and memory of stages beside those of passes, by parameters of make_problem; none without `shard`."""
    training = setup.training
    if training.shard is None:
        return {}
    tied = tied_terms(setup, placement)
    times = [*([] if training.shard == NOTHING else [GATHER]), *([REDUCE, OPTIMIZER] if trains else [])]
    sizes = [*SIZES] if trains else ["weights"]
    ranks = setup.shard_group().ranks
    divided = {key: ranks if training.divides(level) else 1 for key, level in SIZES.items()}
    # what stays of a stage if the ranks that divide dense parameters divide those of experts too
    held = [sum((_whole(setup, stage, key) / of for key, of in divided.items()), Fraction(0)) for stage in stages]
    return {
        **{key: [milliseconds(step_terms(setup, stage, key)) for stage in stages] for key in times},
        **({"tied": milliseconds(tied)} if tied and trains else {}),
        **{key: [_whole(setup, stage, key) / GB for stage in stages] for key in sizes},
        "static": [(stage.states - kept + stage.size("logits")) / GB for stage, kept in zip(stages, held, strict=True)],
        "shard": {"level": training.shard, "ranks": ranks},
    }


def with_keys(derived: Mapping[str, Any] | None, given: Any) -> Any:
    """Return `shard` with given keys, or a level, on top of what is derived. Raises NotApplicable for level none."""
    above = {"level": given} if isinstance(given, str) else given
    if not derived or not isinstance(above, Mapping):
        return derived if given is None else given
    if NOTHING == above.get("level") != derived["level"]:
        what = f"level none beside `training.shard` {derived['level']}, which gathers and reductions follow from"
        raise NotApplicable(f"{what}: set that to none", "shard", entry="level")
    return {**derived, **above}


def _whole(setup: Setup, stage: Stage, key: str) -> Fraction:
    """Return the bytes of weights, gradients or states of a stage where nothing is divided."""
    each = state_bytes(setup.training)
    count = stage.size("parameters")
    if key != "weights":
        return count * (each.gradient if key == "gradients" else each.optimizer)
    few = Fraction(0) if setup.recipe is None else setup.recipe.weight_bytes(setup.hardware) - each.weight
    return count * each.weight + (stage.size("low") + stage.size("experts")) * few
