"""Tests of schedules of your own: a family on random problems."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from pipesched.checks import require_whole
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, OwnCodeFailed
from pipesched.pipeline.arguments import make_problem
from pipesched.results.outcome import Outcome, run
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import family

MOST_DEVICES, MOST_CHUNKS, MOST_MICROBATCHES, MOST_COST = 6, 3, 10, 9


def check_family(function: str | Callable[..., Any], n: int = 200, seed: int = 0) -> int:
    """Run a family on random problems: its plans are complete, have no deadlock, and no makespan below the bound.

    Where it says `obeys_budget`, no plan exceeds the budget; where it says `settled_order`, its order does not depend
    on costs.

    Args:
        function: The family, by its function or its name.
        n: How many problems. Half of them have a forward, a backward and messages of one length each; in the others
            these differ by stage. Some have the halves of the backward.
        seed: Of the problems, which are the same each time.

    Returns:
        On how many of them it made a schedule: it may say NotApplicable, or NoSchedule under a budget.

    Raises:
        AssertionError: For the first problem on which it does something wrong, with that problem and what is wrong;
            and where it runs none of them.
    """
    known, draw, scheduled = family(function), Random(seed), 0
    for _ in range(require_whole(n, "n", least=1)):
        given = _drawn(known, draw)
        problem = make_problem(**given)
        try:
            outcome = run(problem, function)
            wrong = _wrong(outcome, known, {key: given[key] for key in ("devices", "stages", "microbatches")})
            scheduled += 1
        except OwnCodeFailed as error:
            wrong = str(error)
        except NotApplicable:
            continue
        except NoSchedule:
            wrong = ""
            with suppress(NoSchedule, ConfigError):  # it says so itself
                known.plan(prepare(problem, known))
                wrong = "its plan exceeds the budget, and it says obeys_budget"
        if wrong:
            arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
            raise AssertionError(f"{wrong}\non pipesched.make_problem({arguments})") from None
    if not scheduled:
        raise AssertionError(f"{known.name} makes a schedule of none of {n} problems")
    return scheduled


def _drawn(known: Family, draw: Random) -> dict[str, Any]:
    """Return a problem, as arguments of make_problem, that the numbers of devices and stages suit."""
    devices = draw.randint(1, MOST_DEVICES) * (2 if known.copies > 1 else 1)
    stages = devices * known.chunks_run(draw.randint(1, MOST_CHUNKS))
    microbatches = draw.randint(1, MOST_MICROBATCHES) * (2 if known.copies > 1 else 1)
    is_even, keys = draw.random() < 0.5, ("forward", "backward_input", "backward_weight")

    def cost(count: int) -> int | list[int]:
        return draw.randint(1, MOST_COST) if is_even else [draw.randint(0, MOST_COST) for _ in range(count)]

    is_split = known.splits_backward or draw.random() < 0.5
    given = {key: cost(stages) for key in (keys if is_split else ("forward", "backward"))}
    given["p2p"] = draw.randint(0, MOST_COST) if is_even else cost(stages - 1)
    if known.obeys_budget:
        given["budget"] = draw.randint(1, 2 * microbatches)
    return {"devices": devices, "stages": stages, "microbatches": microbatches, **given}


def _wrong(outcome: Outcome, known: Family, sizes: dict[str, Any]) -> str:
    """Return what is wrong with a schedule, which was checked; empty for nothing."""
    schedule = outcome.schedule
    if schedule.makespan < outcome.lower_bound:
        return f"its makespan is {schedule.makespan}, below the bound of {outcome.lower_bound}"
    if known.settles(*sizes.values()):
        with suppress(ConfigError, NoSchedule):
            other = run(make_problem(**sizes, forward=1, backward_input=1, backward_weight=1), known.name).schedule
            plans = [one.plan for one in (schedule, other)]
            rows = [[[*map(str, plan.slots(device))] for device in range(sizes["devices"])] for plan in plans]
            if bool(plans[0].count("I")) == bool(plans[1].count("I")) and rows[0] != rows[1]:
                return "its order depends on costs, and it says settled_order"
    return ""
