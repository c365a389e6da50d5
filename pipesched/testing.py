"""Tests of schedules of your own: a family on random problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from pipesched.checks import require_whole
from pipesched.errors import ConfigError, NoSchedule, NotApplicable, OwnCodeFailed
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.results.outcome import Outcome
from pipesched.results.run import run
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import family

MOST_DEVICES, MOST_CHUNKS, MOST_MICROBATCHES, MOST_COST, MOST_SLICES = 6, 3, 10, 9, 3
CLAIMS = {"mode": "forward_only", "slices": "slices", "sizes": "looks_at_each"}  # the facts by which these are drawn


def check_family(function: str | Callable[..., Any], n: int = 200, seed: int = 0) -> int:
    """Run a family on random problems: its plans are complete, have no deadlock, and no makespan below the bound.

    Where it says `obeys_budget`, no plan exceeds the budget; where it says `settled_order`, its order does not depend
    on costs. Where it says `slices` half of the problems have some; where it says `forward_only` a third are that. Of
    every family a quarter have microbatches that differ, and a quarter steps. Two copies of the weights go without
    steps, and a quarter of their numbers of devices and of microbatches are odd.

    Args:
        function: The family, by its function or its name.
        n: How many problems. Half of them have a forward, a backward and messages of one length each; in the others
            these differ by stage. Some have the halves of the backward.
        seed: Of the problems, which are the same each time.

    Returns:
        On how many of them it made a schedule: it may say NotApplicable, or NoSchedule under a budget.

    Raises:
        AssertionError: For the first problem on which it does something wrong, with that problem and what is wrong;
            and where it runs fewer than a tenth of them, or of those with something that it claims.
    """
    known, draw, tried, scheduled = family(function), Random(seed), Counter[str](), Counter[str]()
    for _ in range(require_whole(n, "n", least=1)):
        given = _drawn(known, draw)
        problem = make_problem(**given)
        claimed = next((fact for key, fact in CLAIMS.items() if key in given and getattr(known, fact)), "")
        tried.update({"", claimed})
        try:
            outcome = run(problem, function)
            wrong = _wrong(outcome, known, given)
            scheduled.update({"", claimed})
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
    for claimed in ("", *CLAIMS.values()):
        if 10 * scheduled[claimed] < tried[claimed]:
            those = f"{scheduled[claimed] or 'none'} of {tried[claimed]} problems"
            raise AssertionError(f"{known.name} makes a schedule of {those}{claimed and f' for {claimed}=True'}")
    return scheduled[""]


def _drawn(known: Family, draw: Random) -> dict[str, Any]:
    """Return a problem, as arguments of make_problem, that the numbers of devices and stages suit."""
    devices, microbatches = (
        known.copies * draw.randint(1, most) - (known.copies > 1 and draw.random() < 1 / 4)
        for most in (MOST_DEVICES, MOST_MICROBATCHES)
    )
    stages = devices * known.chunks_run(draw.randint(1, MOST_CHUNKS))
    is_even, keys = draw.random() < 0.5, ("forward", "backward_input", "backward_weight")

    def cost(count: int) -> int | list[int]:
        return draw.randint(1, MOST_COST) if is_even else [draw.randint(0, MOST_COST) for _ in range(count)]

    is_split = known.splits_backward or draw.random() < 0.5
    given: dict[str, Any] = {key: cost(stages) for key in (keys if is_split else ("forward", "backward"))}
    given["p2p"] = draw.randint(0, MOST_COST) if is_even else cost(stages - 1)
    if known.obeys_budget:
        given["budget"] = draw.randint(1, 2 * microbatches)
    if known.forward_only and draw.random() < 1 / 3:
        given["mode"] = FORWARD_ONLY
    if (known.slices or "mode" in given) and draw.random() < 1 / 2:
        given["slices"] = draw.randint(2, MOST_SLICES)
    if draw.random() < 1 / 4:
        given["sizes"] = {"work": [draw.randint(1, 3) for _ in range(microbatches)]}
    if known.copies == 1 and "mode" not in given and draw.random() < 1 / 4:
        given |= {"reduce": cost(stages), "optimizer": cost(stages)}
    return {"devices": devices, "stages": stages, "microbatches": microbatches, **given}


def _wrong(outcome: Outcome, known: Family, given: dict[str, Any]) -> str:
    """Return what is wrong with a schedule, which was checked; empty for nothing."""
    schedule = outcome.schedule
    if schedule.makespan < outcome.lower_bound:
        return f"its makespan is {schedule.makespan}, below the bound of {outcome.lower_bound}"
    sizes = {key: given[key] for key in ("devices", "stages", "microbatches", "slices", "mode") if key in given}
    if (
        known.settles(*[*sizes.values()][:3]) and "optimizer" not in given
    ):  # what stands beside passes is not the family's
        with suppress(ConfigError, NoSchedule):
            other = run(make_problem(**sizes, forward=1, backward_input=1, backward_weight=1), known.name).schedule
            plans = [one.plan for one in (schedule, other)]
            rows = [[[*map(str, plan.slots(device))] for device in range(sizes["devices"])] for plan in plans]
            if bool(plans[0].count("I")) == bool(plans[1].count("I")) and rows[0] != rows[1]:
                return "its order depends on costs, and it says settled_order"
    return ""
