"""Problems with a step for tests: of stages that are alike, and random ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from pipesched import Problem, make_problem
from pipesched.pipeline.plan.step import GATHERS, LEVELS, REDUCES, Shard, SideItem
from tests.strategies import amounts, problems

ZERO_BUBBLE = {"forward": 10, "backward_input": 10, "backward_weight": 10}
LEVELS_CASE: dict[str, Any] = {
    "devices": 2, "stages": 8, "microbatches": 4, "forward": 5, "backward": 10, "activation": 1,
}  # fmt: skip


def with_costs(shard: Shard | None = None, kept: tuple[int, int, int] = (0, 0, 0), **given: Any) -> Problem:
    """Return a problem with the costs `gather`, `reduce`, `optimizer` and `tied`, and weights, gradients and states."""
    costs = {key: given.pop(key) for key in ("gather", "reduce", "optimizer") if key in given}
    tied, clip, side = given.pop("tied", None), given.pop("clip", None), given.pop("side", ())
    problem = make_problem(**given)
    columns: dict[str, Any] = {key: (cost,) * problem.stages for key, cost in costs.items()}
    memory: dict[str, Any] = {
        key: (size,) * problem.stages for key, size in zip(("weights", "gradients", "states"), kept, strict=True)
    }
    return replace(
        problem,
        costs=replace(problem.costs, **columns, tied=tied),
        memory=replace(problem.memory, **memory),
        shard=shard,
        clip=clip,
        side=side,
    )


@st.composite
def whole_steps(draw: st.DrawFn, *, most_microbatches: int = 3) -> Problem:
    """A problem of unlike devices with a random step: any costs, any level, side work or none."""
    problem = draw(problems(("linear", "loop", "v", "explicit"), unlike=True, most_devices=3, most_chunks=2,
                            most_microbatches=most_microbatches))  # fmt: skip
    level = draw(st.sampled_from(LEVELS))
    needs_gather = level != "none" and draw(st.booleans())
    keys = ["gather"] * needs_gather + [key for key in ("reduce", "optimizer") if draw(st.booleans())]
    costs: dict[str, Any] = {key: _row(draw, problem.stages) for key in keys}
    sizes: dict[str, Any] = {key: _row(draw, problem.stages) for key in ("weights", "gradients", "states")}
    tied: Any = draw(st.none() | amounts())
    reduce = draw(st.sampled_from(REDUCES if level in ("gradients", "weights") else REDUCES[:1]))
    ahead: Any = draw(st.sampled_from([1, 2, 3, "full", "auto"])) if level == "weights" else 3
    gather = draw(st.sampled_from(GATHERS if level == "weights" and ahead == 3 else GATHERS[:1]))
    return replace(
        problem,
        costs=replace(problem.costs, **costs, tied=tied),
        memory=replace(problem.memory, **sizes),
        shard=Shard(level, draw(st.integers(1, 4)), ahead, reduce, gather),
        clip=draw(st.booleans()) if "optimizer" in costs else None,
        side=tuple(draw(st.lists(_items(problem), max_size=2))),
    )


def _row(draw: st.DrawFn, stages: int) -> tuple[Any, ...]:
    return tuple(draw(st.lists(amounts(), min_size=stages, max_size=stages)))


@st.composite
def _items(draw: st.DrawFn, problem: Problem) -> SideItem:
    """Side work of a problem."""
    count = problem.microbatches
    times: st.SearchStrategy[Any] = st.lists(amounts(), min_size=count, max_size=count).map(tuple)
    sizes: dict[str, Any] = {key: draw(amounts(0, 3)) for key in ("p2p", "activation", "output", "static")}
    devices = draw(st.permutations(range(problem.devices)))
    return SideItem(
        forward=draw(times),
        backward=draw(st.none() | times),
        devices=tuple(devices[: draw(st.integers(1, problem.devices))]),
        into=draw(st.integers(0, problem.stages - 1)),
        **sizes,
    )
