"""Problems whose step has more than passes, and small schedules of sizes, slices and forwards alone, for tests."""

from __future__ import annotations

from typing import Any

from pipesched import Outcome, make_problem, plan, run, schedule_plan
from tests.oracle.orders import forward_naive, seq_1f1b

REDUCED: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 10, "gather": 15, "reduce": 30, "optimizer": 5,
}  # fmt: skip
TIED: dict[str, Any] = {**REDUCED, "tied": 8}
SHARDED: dict[str, Any] = {
    "devices": 2, "stages": 8, "microbatches": 4, "forward": 5, "backward": 10, "activation": 1, "gather": 4,
    "reduce": 4, "weights": 2, "gradients": 4, "states": 12, "shard": "weights",
}  # fmt: skip
SIDE: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 5,
    "side": [{"forward": 2, "backward": 4, "activation": 0.5, "output": 0.1}],
}  # fmt: skip
SMALL: dict[str, Any] = {"devices": 2, "microbatches": 2, "gather": 2, "reduce": 3, "optimizer": 1, "tied": 1}

FOUR: dict[str, Any] = {"devices": 4, "forward": 4, "backward": 8}


def sized(algorithm: str = "1f1b", order: Any = None, **values: Any) -> Outcome:
    """1F1B on 4 devices, of 6 microbatches with works of 1 to 6: 103 long."""
    works = {"work": [1, 2, 3, 4, 5, 6]}
    problem = make_problem(**{"devices": 4, "forward": 1, "backward": 2, "sizes": works, **values})
    return run(problem, algorithm, order=order)


def sliced(microbatches: int = 4, slices: Any = 4, **values: Any) -> Outcome:
    """Seq1F1B on 4 devices, of 4 microbatches in 4 slices: 57 long."""
    problem = make_problem(**{**FOUR, "microbatches": microbatches, "slices": slices, **values})
    return Outcome("seq-1f1b", schedule_plan(problem, plan(problem, seq_1f1b(4, microbatches, problem.slices.count))))


def forwards(microbatches: int = 4, slices: int = 1, **values: Any) -> Outcome:
    """Forward passes alone on 4 devices, in turn."""
    problem = make_problem(**{**FOUR, "microbatches": microbatches, "slices": slices, "mode": "forward", **values})
    return Outcome("naive", schedule_plan(problem, plan(problem, forward_naive(4, microbatches, slices))))
