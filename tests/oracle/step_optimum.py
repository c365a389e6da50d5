"""The shortest whole step of a tiny pipeline, by trying every order: for judging bounds and solved schedules.

Below level weights, without a budget, `optimum` runs slots and network operations in every order, and side work on
every device. At level weights lanes follow the rule of the slots' orders, and under a budget memory is counted over
time: there every plan is replayed. Nothing of the package is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import lcm

from tests.oracle.optimum import Search, Task
from tests.oracle.replay import Stuck
from tests.oracle.setup import ZERO
from tests.oracle.step_replay import Texts, graph_of, needs_of, peaks_of, places, programs_of, times_of
from tests.oracle.step_setup import Program, Step, parse


def optimum(step: Step, kinds: str, *, any_ahead: bool = False) -> Fraction | None:
    """The least makespan over all plans of `kinds` ("F", "FB" or "FIW") that fit the budget; None where none does.

    With `any_ahead` each device has as many stages whole at once as is best.
    """
    if step.level == "weights" or step.setup.budget is not None:
        return _best_replayed(step, kinds, any_ahead=any_ahead)
    cases = [_tasks(step, plan) for plan in _assigned(step, kinds)]
    times = [time for tasks in cases for _, duration, inputs in tasks for time in (duration, *inputs.values())]
    scale, best = lcm(*(time.denominator for time in times)), None
    for tasks in cases:
        whole = [
            Task(on, int(duration * scale), [(one, int(late * scale)) for one, late in inputs.items()], ZERO, ZERO)
            for on, duration, inputs in tasks
        ]
        best = Search(2 * step.setup.devices, whole).run(best)
    assert best is not None
    return Fraction(best, scale)


def every_plan(step: Step, kinds: str, *, any_ahead: bool = False) -> Iterator[tuple[Step, Texts]]:
    """All plans of slots and lanes, also such as wait for ever; beside each the step, with its stages ahead."""
    aheads: list[tuple[int, ...]] = [(*step.ahead,)]
    if any_ahead and step.level == "weights":
        most = [max(step.setup.placement.count(device), 1) for device in range(step.setup.devices)]
        aheads = [*product(*(range(1, count + 1) for count in most))]
    for plan in _assigned(step, kinds):
        before = _needed(step, plan)
        for rows in product(*(_orders(row, before) for row in plan.rows)):
            for ahead in aheads:
                at = replace(step, ahead=[*ahead])
                for programs in _programs(at, rows):
                    yield at, Texts(rows, programs)


def _best_replayed(step: Step, kinds: str, *, any_ahead: bool) -> Fraction | None:
    best: Fraction | None = None
    for at, plan in every_plan(step, kinds, any_ahead=any_ahead):
        graph = graph_of(at, plan)
        try:
            start, end = times_of(graph)
        except Stuck:
            continue
        makespan = max(end)
        if best is not None and makespan >= best:
            continue
        if at.setup.budget is not None:
            by_text = [{text: times[node] for text, node in graph.node_of.items()} for times in (start, end)]
            peaks = peaks_of(at, plan.devices(), *by_text).total
            limits = zip(peaks, at.statics(), at.setup.budget, strict=True)
            if any(peak + static > budget for peak, static, budget in limits):
                continue
        best = makespan
    return best


def _assigned(step: Step, kinds: str) -> Iterator[Texts]:
    """All operations on their devices, in no order worth anything; side work on each device that may do it."""
    setup = step.setup
    rows: list[list[str]] = [[] for _ in range(setup.devices)]
    for stage, device in enumerate(setup.placement):
        for mb, part in setup.units:
            rows[device] += [f"{stage}{kind}{mb}" + (f".{part}" if setup.slices > 1 else "") for kind in kinds]
        rows[device] += [f"{stage}OPTIMIZER" for _ in [step.optimizer] if step.optimizer is not None]
    programs = programs_of(replace(step, level="gradients" if step.level == "weights" else step.level), rows)
    works = [(number, mb) for number in range(len(step.side)) for mb in range(setup.microbatches)]
    for chosen in product(*(step.side[number].devices for number, _ in works)):
        assigned = [[*row] for row in rows]
        for (number, mb), device in zip(works, chosen, strict=True):
            has_backward = step.side[number].backward is not None
            assigned[device] += [f"{number}{kind}{mb}" for kind in ("EG" if has_backward else "E")]
        yield Texts(assigned, programs)


def _tasks(step: Step, plan: Texts) -> list[tuple[tuple[int, ...], Fraction, dict[int, Fraction]]]:
    """Of each slot and network operation on which devices and lanes it runs, how long, and after which others."""
    device_of, lanes = plan.devices(), step.setup.devices
    network = {text for program in plan.programs for text, _ in program}
    numbers: dict[str, int] = {}
    tasks: list[tuple[tuple[int, ...], Fraction, str]] = []
    for text, device in device_of.items():
        tied = f"{step.ends[0]}REDUCE_TIED"
        if parse(text).kind == "REDUCE_TIED" and tied in numbers:
            number = numbers[text] = numbers[tied]
            tasks[number] = ((*tasks[number][0], lanes + device), *tasks[number][1:])
            continue
        numbers[text] = len(tasks)
        on = lanes + device if text in network else device
        tasks.append(((on,), step.duration(parse(text), device), text))
    return [
        (on, duration, {numbers[one]: late for one, late in needs_of(step, plan, device_of, text)})
        for on, duration, text in tasks
    ]


def _needed(step: Step, plan: Texts) -> dict[str, set[str]]:
    """Of each slot all that must end before it on any device, by the needs alone."""
    device_of = plan.devices()
    unsharded = replace(step, level="none", gather=None)
    known: dict[str, set[str]] = {}

    def before(text: str) -> set[str]:
        if text not in known:
            inputs = {one for one, _ in needs_of(unsharded, plan, device_of, text)}
            known[text] = inputs.union(*map(before, inputs))
        return known[text]

    return {text: before(text) for row in plan.rows for text in row}


def _orders(row: Sequence[str], before: dict[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """All orders of a device's slots in which none comes before what it needs."""
    if not row:
        yield ()
    for text in row:
        rest = [other for other in row if other != text]
        if not before[text].intersection(rest):
            yield from ((text, *order) for order in _orders(rest, before))


def _programs(step: Step, rows: Sequence[Sequence[str]]) -> Iterator[list[Program]]:
    """The network programs of slots in an order: that of the rule at level weights, else lanes in every order."""
    ruled = programs_of(step, rows)
    if step.level == "weights":
        yield ruled
        return
    for lanes in product(*(permutations(program) for program in ruled)):
        programs = []
        for row, lane in zip(rows, lanes, strict=True):
            place, last = places(row), -1
            program: Program = []
            for text, after in lane:
                is_tied = parse(text).kind == "REDUCE_TIED"
                last = last if after is None else max(last, place[after])
                program.append((text, None if is_tied or last < 0 else row[last]))
            programs.append(program)
        yield programs
