"""The summary below a chart: every metric by its name, and the distance to the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from pipesched.outcome import Outcome, SolveReport
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units, plain
from pipesched.render.labels import Spelling, as_parameters, counted
from pipesched.render.timescale import number
from pipesched.words import Status, StoppedBy

GOOD, BAD = "bold green", "bold red"
FEW_DEVICES = 7  # whose peaks are listed; of more, the largest and the smallest
ENDS = {StoppedBy.INTERRUPT: "interrupted"}  # what is said instead of feasible
FORMULAS = {
    "makespan": "last end - first start, over all devices",
    "span": "largest (last end - first start) of a device",
    "ideal": "largest busy time of a device",
    "recomputed": "of stages x microbatches; runs a forward again, which is busy time but no part of ideal",
    "offloaded": "of stages x microbatches; to host memory and back, beside the work of the devices",
    "bubble": "idle device-time / (devices x makespan)",
    "bubble over ideal": "(makespan - ideal) / ideal; Megatron's",
    "bubble of span": "1 - ideal / span; Zero Bubble's",
}


def heading(outcome: Outcome, given: Problem | None = None) -> Text:
    """Return the algorithm and the sizes of the problem; `given` is the problem before it was fused."""
    problem = outcome.schedule.problem
    stages = counted(problem.stages, "stage")
    if given is not None and given.stages != problem.stages:
        stages = f"{counted(given.stages, 'stage')} fused into {problem.stages}"
    parts = [counted(problem.devices, "device"), stages, counted(problem.microbatches, "microbatch", "es")]
    title = Text(outcome.algorithm, style="bold")
    if problem.name:
        parts.insert(0, problem.name)
    return title.append("  " + ", ".join(parts), style="not bold")


def summary(
    outcome: Outcome,
    *,
    brief: bool = False,
    timing: bool = True,
    memory: bool = False,
    spell: Spelling = as_parameters,
) -> Table:
    """Return a table of metrics, their values, and their reasons or formulas.

    `brief` leaves the formulas out, `timing` says how long a solve took, `memory` lists the peak of every device even
    where there are many. `spell` turns the parameters in a text (in backticks) into what the reader types.
    """
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for name, value, note in _rows(outcome, timing, memory, spell):
        table.add_row(name, value, "" if brief and name in FORMULAS else note or FORMULAS.get(name, ""))
    return table


def _rows(outcome: Outcome, timing: bool, memory: bool, spell: Spelling) -> Iterator[tuple[str, Text | str, str]]:
    schedule = outcome.schedule
    problem = schedule.problem
    unit = f" {problem.time_unit}" if problem.time_unit else ""

    def time(value: int | float) -> str:
        return number(value) + unit

    if outcome.report is not None:
        yield from _solve_rows(outcome.report, time, timing)
        if not problem.costs.split:
            yield "backward", "whole", spell("`split_backward` lets its halves I and W run apart")
    yield "makespan", Text(time(schedule.makespan), style="bold"), ""
    if outcome.report is None or outcome.report.objective != "makespan":
        yield "lower bound", time(outcome.lower_bound), outcome.bound.reason
    if outcome.report is None:
        yield "gap", *_gap(outcome)
    yield "span", time(schedule.span), ""
    yield "ideal", time(schedule.ideal), f"{FORMULAS['ideal']}, without recompute" if schedule.recomputed else ""
    yield "bubble", f"{schedule.bubble:.2%}", ""
    yield "bubble over ideal", f"{schedule.bubble_over_ideal:.2%}", ""
    yield "bubble of span", f"{schedule.bubble_span:.2%}", ""
    yield "peak memory", *_peak(outcome, memory)
    yield from _saved(outcome)
    if problem.memory.budget is not None:
        yield "budget", *_budget(outcome, memory)


def _solve_rows(
    report: SolveReport, time: Callable[[int | float], str], timing: bool
) -> Iterator[tuple[str, Text | str, str]]:
    """Yield what a solve found and proved, and the best that heuristics have."""
    tried = f"within the budget, over placements tried: {', '.join(report.placements)}"
    if report.status == Status.OPTIMAL:
        yield "status", Text("optimal", style=GOOD), f"{report.objective} = bound, {tried}"
    else:
        yield "status", Text(ENDS.get(report.stopped_by, "feasible"), style="bold"), f"the best found {tried}"
    yield f"bound on {report.objective}", time(report.bound.value), report.bound.reason
    yield "gap", f"{report.gap:.2%}", f"({report.objective} - bound) / bound"
    yield "found by", report.source, ""
    if report.heuristic is not None:
        source, value = report.heuristic
        better = f"; {1 - report.value / value:.2%} shorter than that" if report.value < value else ""
        yield "best heuristic", time(value), f"{source}, of those that fit{better}"
    if timing:
        yield "time", f"{report.seconds:.2f} s", f"stopped by {report.stopped_by}"


def _gap(outcome: Outcome) -> tuple[Text, str]:
    if outcome.status == Status.OPTIMAL:
        scope = "this placement and split of the backward" + ("" if outcome.schedule.fits else ", without the budget")
        return Text("optimal", style=GOOD), f"makespan = bound, for {scope}"
    return Text(f"{outcome.gap:.2%}"), "(makespan - lower bound) / lower bound"


def _peak(outcome: Outcome, every: bool) -> tuple[str, str]:
    """Return the largest peak, and a note of the peaks of all devices, or of many the largest and the smallest."""
    peaks, unit = outcome.schedule.peak_memory, outcome.problem.memory.unit
    value = f"{number(max(peaks))} {unit}".strip()
    if every or len(peaks) <= FEW_DEVICES:
        return value, f"activations of devices 0..{len(peaks) - 1}: {', '.join(map(number, peaks))}"
    return value, f"activations: {_extremes(peaks)}"


def _extremes(values: Sequence[int | float]) -> str:
    """Return as text the largest and the smallest of the values of all devices, and whose they are."""
    texts = []
    for word, extreme in (("largest", max(values)), ("smallest", min(values))):
        devices = [device for device, value in enumerate(values) if value == extreme]
        where = f"device {devices[0]}" if len(devices) == 1 else f"{len(devices)} devices, {devices[0]} the first"
        texts.append(f"{word} {number(extreme)} on {where}")
    return texts[0].replace("largest ", "") if max(values) == min(values) else ", ".join(texts)


def _saved(outcome: Outcome) -> Iterator[tuple[str, str, str]]:
    """Yield how many activations are recomputed and offloaded, where a schedule may do that."""
    schedule, allowed = outcome.schedule, Allowed.of(outcome.schedule.plan.index.letters)
    whole = schedule.problem.stages * schedule.problem.microbatches
    if allowed.recompute:
        yield "recomputed", f"{number(schedule.recomputed)} of {number(whole)}", ""
    if allowed.offload:
        yield "offloaded", f"{number(schedule.offloaded)} of {number(whole)}", ""


def _budget(outcome: Outcome, every: bool) -> tuple[Text, str]:
    """Return whether the schedule fits its budget, and a note of what devices use of it, static memory included."""
    schedule, problem = outcome.schedule, outcome.problem
    scale = problem.grains.per_unit
    used = [in_units(peak + problem.static_grains(device), scale) for device, peak in enumerate(schedule.peak_grains)]
    budget = [*map(plain, problem.memory.budget or ())]
    if every or len(used) <= FEW_DEVICES:
        limits = ", ".join(map(number, budget[:1] if len(set(budget)) == 1 else budget))
        note = f"with static memory {', '.join(map(number, used))} of {limits}"
    else:
        limits = number(budget[0]) if len(set(budget)) == 1 else f"{number(min(budget))} to {number(max(budget))}"
        note = f"with static memory {_extremes(used)}, of {limits}"
    if schedule.fits:
        return Text("fits", style=GOOD), note
    return Text("over budget", style=BAD), f"{note}; exceeded on {_devices(schedule.over_budget)}"


def _devices(devices: Sequence[int]) -> str:
    """Name a few devices, or count many."""
    if len(devices) <= FEW_DEVICES:
        return f"device {', '.join(map(str, devices))}"
    return f"{len(devices)} devices, {devices[0]} the first"
