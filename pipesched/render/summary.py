"""The summary below a chart: every metric by its name, and how far from the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from pipesched.outcome import Outcome, SolveReport
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.render.labels import counted
from pipesched.render.timescale import number

GOOD, BAD = "bold green", "bold red"
ENDS = {"interrupt": "interrupted"}  # what is said instead of feasible
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
    """What was scheduled: the algorithm and the sizes of the problem. `given` is the problem before any fusing."""
    problem = outcome.schedule.problem
    stages = counted(problem.stages, "stage")
    if given is not None and given.stages != problem.stages:
        stages = f"{counted(given.stages, 'stage')} fused into {problem.stages}"
    parts = [counted(problem.devices, "device"), stages, counted(problem.microbatches, "microbatch", "es")]
    title = Text(outcome.algorithm, style="bold")
    if problem.name:
        parts.insert(0, problem.name)
    return title.append("  " + ", ".join(parts), style="not bold")


def summary(outcome: Outcome, *, brief: bool = False, timing: bool = True) -> Table:
    """Metric, value, and its reason or formula; `brief` leaves the formulas out, `timing` how long a solve took."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for name, value, note in _rows(outcome, timing):
        table.add_row(name, value, "" if brief and name in FORMULAS else note or FORMULAS.get(name, ""))
    return table


def _rows(outcome: Outcome, timing: bool) -> Iterator[tuple[str, Text | str, str]]:
    schedule = outcome.schedule
    problem = schedule.problem
    unit = f" {problem.time_unit}" if problem.time_unit else ""

    def time(ticks: int) -> str:
        return number(in_units(ticks, problem.costs.scale)) + unit

    if outcome.report is not None:
        yield from _solve_rows(outcome.report, time, timing)
        if not problem.costs.split:
            yield "backward", "whole", "--split-backward lets its halves I and W run apart"
    yield "makespan", Text(time(schedule.makespan), style="bold"), ""
    if outcome.report is None or outcome.report.objective != "makespan":
        yield "lower bound", time(outcome.bound.ticks), outcome.bound.reason
    if outcome.report is None:
        yield "gap", *_gap(outcome)
    yield "span", time(schedule.span), ""
    yield "ideal", time(schedule.ideal), f"{FORMULAS['ideal']}, without recompute" if schedule.recomputed else ""
    yield "bubble", f"{schedule.bubble:.2%}", ""
    yield "bubble over ideal", f"{schedule.bubble_over_ideal:.2%}", ""
    yield "bubble of span", f"{schedule.bubble_span:.2%}", ""
    yield "peak memory", *_peak(outcome)
    yield from _saved(outcome)
    if problem.memory.budget is not None:
        yield "budget", *_budget(outcome)


def _solve_rows(report: SolveReport, time: Callable[[int], str], timing: bool) -> Iterator[tuple[str, Text | str, str]]:
    """What a solve found and proved, and what heuristics have instead."""
    tried = f"within the budget, over placements tried: {', '.join(report.placements)}"
    if report.status == "optimal":
        yield "status", Text("optimal", style=GOOD), f"{report.objective} = bound, {tried}"
    else:
        yield "status", Text(ENDS.get(report.stopped_by, "feasible"), style="bold"), f"the best found {tried}"
    yield f"bound on {report.objective}", time(report.bound.ticks), report.bound.reason
    yield "gap", f"{report.gap:.2%}", f"({report.objective} - bound) / bound"
    yield "found by", report.source, ""
    if report.heuristic is not None:
        source, value = report.heuristic
        better = f"; {1 - report.value / value:.2%} shorter than that" if report.value < value else ""
        yield "best heuristic", time(value), f"{source}, of those that fit{better}"
    if timing:
        yield "time", f"{report.seconds:.2f} s", f"stopped by {report.stopped_by}"


def _gap(outcome: Outcome) -> tuple[Text, str]:
    if outcome.status == "optimal":
        scope = "this placement and split of the backward" + ("" if outcome.schedule.fits else ", without the budget")
        return Text("optimal", style=GOOD), f"makespan = bound, for {scope}"
    return Text(f"{outcome.gap:.2%}"), "(makespan - lower bound) / lower bound"


def _peak(outcome: Outcome) -> tuple[str, str]:
    problem = outcome.schedule.problem
    peaks = [in_units(peak, problem.memory.scale) for peak in outcome.schedule.peak_memory]
    each = ", ".join(map(number, peaks))
    return f"{number(max(peaks))} {problem.memory.unit}".strip(), f"activations of devices 0..{len(peaks) - 1}: {each}"


def _saved(outcome: Outcome) -> Iterator[tuple[str, str, str]]:
    """How many activations are recomputed and offloaded, where a schedule may do that."""
    schedule, kinds = outcome.schedule, outcome.schedule.plan.index.kinds
    whole = schedule.problem.stages * schedule.problem.microbatches
    for kind, name, count in (("R", "recomputed", schedule.recomputed), ("O", "offloaded", schedule.offloaded)):
        if kind in kinds:
            yield name, f"{number(count)} of {number(whole)}", ""


def _budget(outcome: Outcome) -> tuple[Text, str]:
    """Whether it fits: what each device uses, static memory included, of what it may."""
    schedule, problem = outcome.schedule, outcome.schedule.problem
    used = [peak + problem.static_memory(device) for device, peak in enumerate(schedule.peak_memory)]
    budget = problem.memory.budget or ()

    def amounts(values: Sequence[int]) -> str:
        return ", ".join(number(in_units(value, problem.memory.scale)) for value in values)

    limits = amounts(budget[:1] if len(set(budget)) == 1 else budget)
    note = f"with static memory {amounts(used)} of {limits}"
    if schedule.fits:
        return Text("fits", style=GOOD), note
    return Text("over budget", style=BAD), f"{note}; exceeded on device {', '.join(map(str, schedule.over_budget))}"
