"""The summary below a chart: `heading`, `summary` (its rows are by `_rows`: every metric, the bound), `sentence`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from rich.table import Table
from rich.text import Text

from pipesched.pipeline.layers.layers import BALANCED, GIVEN, rows_of
from pipesched.pipeline.layers.recut import balance, saved_by_moving, seeks_best
from pipesched.pipeline.plan.message_programs import BestOrder
from pipesched.pipeline.plan.metrics import ACTIVATIONS, NETWORK, PARTS, StepTimes
from pipesched.pipeline.plan.schedule import Schedule, requeued
from pipesched.pipeline.plan.step import BEST, EDGE, GRADIENTS, ON_DEVICE, PAIR, RANK, WEIGHTS, Messages
from pipesched.pipeline.problem.costs import Entry, entries_of
from pipesched.pipeline.problem.declared import BY_NAME
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import canonical, in_units, plain, rounded, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.render.grid import folded, grid, uncut
from pipesched.render.scene import MEASURED_MEMORY, Spelling, as_parameters, counted, devices_text, number
from pipesched.results.outcome import CutChoice, Outcome, SolveReport, Status, StoppedBy, in_chunks
from pipesched.schedulers.registry import called

GOOD, BAD = "bold green", "bold red"
LEAST_SHOWN = 0.0005  # of the makespan: less imbalance is not mentioned
DIGITS = 6  # behind the point, of a time that follows from a fraction
MUCH = 0.03  # of the makespan: with more imbalance it is said what moving work would give
FEW_DEVICES = 7  # whose peaks are listed; of more, the largest and the smallest
FEW_STAGES = 16  # whose layers are listed
MOST_LISTED = 64  # the same, of layers that differ
FEW_MICROBATCHES = 16  # that are listed beside a note; of more, in it
ENDS = {StoppedBy.INTERRUPT: "interrupted"}  # what is said instead of feasible
FORMULAS = {
    "makespan": "last end - first start, over all devices",
    "span": "largest (last end - first start) of a device",
    "ideal": "largest useful work of a device",
    "recomputed": "of stages x microbatches; runs a forward again, which is busy time but no part of ideal",
    "offloaded": "of stages x microbatches; to host memory and back, beside the work of the devices",
    "bubble": "idle device-time / (devices x makespan)",
    "utilization": "useful work / (devices x makespan); recomputation is busy, and not useful",
    "bubble over ideal": "(makespan - ideal) / ideal; Megatron's",
    "bubble of span": "1 - ideal / span; Zero Bubble's",
}


def heading(outcome: Outcome, given: Problem | None = None) -> Text:
    """Return the algorithm and the sizes of the problem; `given` is the problem before it was fused."""
    problem = outcome.schedule.problem
    stages = counted(problem.stages, "stage")
    if given is not None and given.stages != problem.stages:
        anew = problem.layers is not None and problem.layers.rule != GIVEN
        stages = f"{counted(given.stages, 'stage')} {'cut anew' if anew else 'fused'} into {problem.stages}"
    slices = problem.slices.count
    each = f" of {slices} slices" if slices > 1 else ""
    parts = [counted(problem.devices, "device"), stages, counted(problem.batches, "microbatch", "es") + each]
    if problem.rounds > 1:
        parts.append(f"{problem.rounds} rounds")
    elif problem.mode == FORWARD_ONLY:
        parts.append("forwards alone")
    if problem.name:
        parts.insert(0, problem.name)
    return Text(called(outcome.algorithm), style="bold").append("  " + ", ".join(parts), style="not bold")


def summary(
    outcome: Outcome, *, brief: bool = False, timing: bool = True, memory: bool = False, spell: Spelling = as_parameters
) -> Table:
    """Return a table of metrics, their values, and their reasons or formulas.

    `brief` leaves the formulas out, `timing` says how long a solve took, `memory` lists the peak of every device even
    where there are many. `spell` turns the parameters in a text (in backticks) into what the reader types.
    """
    table = grid(uncut(), folded(justify="right"), folded(style="dim"), header=False)
    for name, value, note in _rows(outcome, timing, memory, spell):
        said = note or FORMULAS.get(name, "")
        if brief and name in FORMULAS:
            said = note.rpartition("; ")[2] if name == "utilization" else ""
        table.add_row(name, value, said)
    return table


def _rows(outcome: Outcome, timing: bool, memory: bool, spell: Spelling) -> Iterator[tuple[str, Text | str, str]]:
    """Yield the name, the value and the reason or formula of each row."""
    schedule = outcome.schedule
    problem = schedule.problem
    unit = f" {problem.time_unit}" if problem.time_unit else ""

    def time(value: int | float) -> str:
        return number(value) + unit

    if outcome.report is not None:
        cut = f", the layers cut into {problem.stages} stages" if problem.layers else ""
        yield from _solve_rows(outcome.report, time, timing, problem.memory.unit, cut)
        if not problem.costs.split and problem.mode != FORWARD_ONLY:
            yield "backward", "whole", spell("`split_backward` lets its halves I and W run apart")
    beside = schedule.step is not None
    yield "makespan", Text(time(schedule.makespan), style="bold"), FORMULAS["makespan"] + " and network lanes" * beside
    yield from () if problem.messages is None else _messages(outcome, problem.messages, time)
    if outcome.report is None or outcome.report.objective != "makespan":
        yield "lower bound", time(outcome.lower_bound), f"{outcome.bound.reason}; for {outcome.covers}"
    if outcome.report is None:
        is_best, formula = outcome.status == Status.OPTIMAL, "(makespan - lower bound) / lower bound"
        gap = Text(outcome.standing, style=GOOD) if is_best else Text(f"{outcome.gap:.2%}")
        yield "gap", gap, "makespan = lower bound" if is_best else formula
    if outcome.ordering is not None:
        count, source = len(outcome.ordering.order), outcome.ordering.source(outcome.algorithm)
        listed, source = ", ".join(map(str, outcome.ordering.order)), f"feed the microbatches in this order; {source}"
        few = count <= FEW_MICROBATCHES  # of many the order is in the note
        yield ("order", listed, source) if few else ("order", f"of {count}", f"{source}: {listed}")
    if problem.slices.tried:
        makespans, best = dict(problem.slices.tried), problem.slices.count
        others = (count for count in dict.fromkeys((best - 1, best + 1, 1)) if count in makespans and count != best)
        takes = {count: number(plain(rounded(to_fraction(f"{makespans[count]:.5g}")))) for count in (best, *others)}
        note = f"{counted(best, 'slice')}: {takes.pop(best)}" + "; " * bool(takes)
        yield "slices", str(best), note + ", ".join(f"{count}: {text}" for count, text in takes.items())
    yield from _times(schedule, time)
    yield from () if problem.layers is None and outcome.cut is None else _layers(outcome, time)
    yield "bubble over ideal", f"{schedule.bubble_over_ideal:.2%}", ""
    yield "bubble of span", f"{schedule.bubble_span:.2%}", ""
    yield from () if schedule.step is None else step_rows(schedule, schedule.step, time)
    what = f"{MEASURED_MEMORY}; " * schedule.own_lengths + held_text(problem)
    name = "memory" if any(problem.static_grains) else "peak memory"
    yield name, *_most(schedule.memory, what, problem.memory.unit, memory)
    held = schedule.held if len(schedule.held) > 1 else ()  # of what comes and goes
    peaks = {what: peak for what in held if any(peak := schedule.peak_of(what))}
    classes = {} if peaks.keys() <= {ACTIVATIONS} else peaks
    yield from ((f"  {what}", *_most(peak, "own peak", problem.memory.unit, memory)) for what, peak in classes.items())
    may_save = problem.costs.chooses or MemorySavings.of(schedule.plan.index.letters) != KEEP_ONLY
    yield from _saved(outcome, spell) if may_save else ()
    if problem.memory.budget is not None:
        yield "budget", *_budget(outcome, memory)
    if outcome.report is not None:
        yield from advice_rows(outcome.report, time, spell)


STREAMS = {PAIR: "one stream for each two ranks", RANK: "one stream a rank", ON_DEVICE: "messages on the devices"}


def _messages(outcome: Outcome, known: Messages, time: Callable[[int | float], str]) -> Iterator[tuple[str, str, str]]:
    """Yield in which queues messages go, and what that costs beside queues of single edges, in the same order."""
    schedule = outcome.schedule
    note = f"in the order {known.order}"
    if known.queue in STREAMS:
        edges = requeued(schedule, EDGE)
        more = schedule.makespan_ticks / edges.makespan_ticks - 1 if edges.makespan_ticks else 0
        note += f"; {STREAMS[known.queue]} costs {more:.1%} beside one for each edge ({time(edges.makespan)})"
    if known.order == BEST:
        least = BestOrder(outcome.problem, schedule.plan).bound
        note += f"; no order of messages takes less than {time(in_units(least, outcome.problem.ticks.per_unit))}"
    yield "messages", f"queue: {known.queue}", note


def _solve_rows(
    report: SolveReport, time: Callable[[int | float], str], timing: bool, unit: str, cut: str
) -> Iterator[tuple[str, Text | str, str]]:
    """Yield what a solve found and proved, and the best that heuristics have; `cut` says which stages it had."""
    tried = f"within the budget, over placements tried: {', '.join(report.placements)}"
    cuts = report.cuts
    tried += cut if cuts is None else f", {counted(len(cuts.tried), 'cut')} of {in_chunks(cuts.chunks_tried)}"
    if report.status == Status.OPTIMAL:
        yield "status", Text(report.standing, style=GOOD), f"{report.objective} = bound, {tried}"
    elif cuts is not None and cuts.status == Status.OPTIMAL:
        least = f"over all cuts of {in_chunks(cuts.chunks_tried)} at least {time(report.bound.value)}"
        yield "status", Text(report.standing, style=GOOD), f"{report.objective} = bound of this cut; {least}"
    else:
        yield "status", Text(ENDS.get(report.stopped_by, "feasible"), style="bold"), f"the best found {tried}"
    yield f"bound on {report.objective}", time(report.bound.value), f"{report.bound.reason}; for {report.covers}"
    yield "gap", f"{report.gap:.2%}", f"({report.objective} - bound) / bound"
    if report.cut_off:
        yield "cut off", "", f"{', '.join(report.cut_off)}: with more time the bound may be higher"
    yield "found by", report.source, ""
    if report.not_tried:
        there = "" if cuts is None else " for their best cuts"
        yield "not tried", "", f"{', '.join(report.not_tried)}: there was no time{there}"
    if report.equal:
        equal = (f"{name} at {number(held)} {unit}".rstrip() if held else name for name, held in report.equal.items())
        yield "equal", "", ", ".join(equal)
    if report.heuristic is not None:
        source, value = report.heuristic
        better = f"; {1 - report.value / value:.2%} shorter than that" if report.value < value else ""
        yield "best heuristic", time(value), f"{source}, of those tried that fit{better}"
    if report.repetition is not None:
        found, count = report.repetition, report.repetition.microbatches
        block = "with every microbatch" if count == 1 else f"with every {count} microbatches"
        period, rate, refuted = time(found.period), time(plain(Fraction(found.period) / count)), time(found.refuted)
        said = f"for a microbatch, on {found.placement}: {block}, after {period}"
        proved = f"no schedule that repeats once per microbatch has a period of {refuted} or less"
        yield "repetition", rate, f"{said}. Proved: {proved}"
    if timing:
        yield "time", f"{report.seconds:.2f} s", f"stopped by {report.stopped_by}"


def _times(schedule: Schedule, time: Callable[[int | float], str]) -> Iterator[tuple[str, str, str]]:
    """Yield span, rounds, ideal and bubble; utilization with recomputes, and two parts where devices work unevenly."""
    problem = schedule.problem
    beside = ", a network lane or a stage" * (schedule.step is not None)
    yield "span", time(schedule.span), FORMULAS["span"] + beside
    if schedule.round_time is not None:
        yield "round", time(schedule.round_time), "mean time from the end of a round to that of the next one"
        each = f"microbatches a {problem.time_unit or 'unit of time'}: {problem.batches} in flight / round"
        yield "throughput", f"{schedule.throughput:.4g}", each
    yield "ideal", time(schedule.ideal), f"{FORMULAS['ideal']}, without recompute" if schedule.recomputed else ""
    yield "bubble", f"{schedule.bubble:.2%}", ""
    again = 1 - schedule.bubble - schedule.utilization if schedule.recomputed else 0.0
    if MemorySavings.of(schedule.plan.index.letters) != KEEP_ONLY:
        note = f"useful work / (devices x makespan); recomputing takes another {again:.2%}" if again else ""
        yield "utilization", f"{schedule.utilization:.2%}", note
    share = schedule.imbalance
    if share < LEAST_SHOWN:
        return
    above = schedule.ideal / schedule.balanced - 1 if schedule.balanced else 0.0
    note = f"device {schedule.bottleneck} works {above:.0%} more than the mean"
    if share > MUCH and not seeks_best(problem):
        note += f"; {_at_best(schedule, time)}"
    yield "  imbalance", f"{share:.2%}", note
    rest = "fill, drain, waiting and recomputing" if schedule.recomputed else "fill, drain and waiting"
    yield "  the rest", f"{schedule.bubble + again - share:.2%}", rest


def _layers(outcome: Outcome, time: Callable[[int | float], str]) -> Iterator[tuple[str, str, str]]:
    """Yield how layers are cut: what is known of the cut, or how much less the most work is than with equal counts."""
    problem, layers = outcome.problem, outcome.problem.layers
    if outcome.cut is not None:
        yield "cut", _a_stage(outcome.cut.layout), cut_said(outcome.cut, fits=outcome.schedule.fits)
        return
    found = balance(problem)
    if layers is None or found is None:
        return
    layout, (device, most, equal_most) = layers.layout, found
    if not layers.layer.is_cut_by_counts or layers.blocks:
        work, equal = (time(plain(canonical(rounded(one)))) for one in (most, equal_most))
        yield "cut", f"{_counts(layout)} layers", f"largest work {work} on device {device}, equal counts {equal}"
        return
    listed = ", ".join(map(str, layout)) if len(layout) <= FEW_STAGES else ""
    saved = plain((equal_most - most) * problem.microbatches)
    gained = ""
    if saved:
        gained = f"; device {device} works {time(abs(saved))} ({abs(float(1 - most / equal_most)):.1%}) "
        gained += f"{'less' if saved > 0 else 'more'} than the largest with equal counts"
    yield "layers", _a_stage(layout), f"{layers.rule}{': ' * bool(listed)}{listed}{gained}"


def cut_said(cut: CutChoice, *, fits: bool) -> str:
    """Return the layers of each stage, and what is known of the cut."""
    known = cut.said + ("" if fits else "; none fits the budget, which did not count")
    return f"{_counts(cut.layout)} of {sum(cut.layout)} layers: {known}"


def _a_stage(layout: Sequence[int]) -> str:
    return f"{layout[0]} a stage" if min(layout) == max(layout) else f"{min(layout)} to {max(layout)} a stage"


def _counts(layout: Sequence[int]) -> str:
    return ", ".join(map(str, layout)) if len(layout) <= MOST_LISTED else f"{min(layout)} to {max(layout)}"


def _at_best(schedule: Schedule, time: Callable[[int | float], str]) -> str:
    """Return what moving the work of one stage away from the bottleneck would save of the makespan at best."""
    saved, problem = saved_by_moving(schedule), schedule.problem
    is_unlike = problem.layers is not None and not problem.layers.layer.is_cut_by_counts
    if problem.layers is not None and not saved:
        return f"no move of one layer{' to the next stage' * is_unlike} lowers the largest work"
    if problem.layers is not None and problem.layers.rule == BALANCED and problem.memory.budget is not None:
        return "the budget leaves no memory for another layer elsewhere"  # else the layer would have moved
    stages = problem.settled_placement.stages_on(schedule.bottleneck)
    what = "one layer" if problem.layers else "its smallest stage" if len(stages) > 1 else "part of its stage"
    share = float(saved / schedule.makespan_ticks) if schedule.makespan_ticks else 0.0
    amount = time(plain(saved / problem.ticks.per_unit))
    if is_unlike:
        return f"moving one layer to the next stage would take {amount} off its work"
    return f"moving {what} elsewhere would save {amount} ({share:.1%}) at best"


def sentence(metrics: Mapping[str, Any], unit: str = "", schedule: Schedule | None = None) -> Text:
    """Return what a schedule means, in one sentence: the time of a step, its useful part, and the ideal.

    `metrics` are those of an outcome, `unit` is the label of times; `schedule` knows the speed of its devices.
    """
    step, useful = metrics["makespan"], metrics["utilization"]
    balanced = step * useful
    if schedule is not None and schedule.problem.speed is not None:  # each device does work by its speed
        speeds = [*map(to_fraction, schedule.problem.speed)]
        work = sum(speed * ticks for speed, ticks in zip(speeds, schedule.useful_ticks, strict=True))
        balanced = float(work / sum(speeds) / schedule.problem.ticks.per_unit)
    both = (step, round(balanced, DIGITS))
    times = [f"{number(int(time) if float(time).is_integer() else time)} {unit}".rstrip() for time in both]
    return Text(
        f"A step takes {times[0]}; devices do useful work {useful:.0%} of it;"
        f" perfectly balanced, without waiting, it would take {times[1]}."
    )


def _saved(outcome: Outcome, spell: Spelling) -> Iterator[tuple[str, str, str]]:
    """Yield how many backwards are whole, and activations recomputed and offloaded, where a schedule may do that."""
    schedule, allowed = outcome.schedule, MemorySavings.of(outcome.schedule.plan.index.letters)
    whole = schedule.problem.stages * schedule.problem.microbatches
    if schedule.problem.costs.chooses:
        count = whole * schedule.problem.slices.count
        yield "joined", f"{number(schedule.joined)} of {number(count)}", "backwards run whole, the others as I and W"
    if allowed.recompute:
        whose, kept = _layers_again(schedule.problem) or ("", max(schedule.problem.memory.checkpoint))
        note = FORMULAS["recomputed"].replace(";", f"{whose};", 1) if whose or not kept else ""
        if not kept:
            note += f"; {spell('nothing stays meanwhile: `memory.checkpoint` is 0, the default')}"
        yield "recomputed", f"{number(schedule.recomputed)} of {number(whole)}", note
    if allowed.offload:
        yield "offloaded", f"{number(schedule.offloaded)} of {number(whole)}", ""


def _layers_again(problem: Problem) -> tuple[str, bool] | None:
    """Return what layers run again, where these are not all, and whether a part of their activation stays."""
    layers = problem.layers
    if layers is None:
        return None

    def totals(entries: Sequence[Entry], key: str) -> list[Fraction]:
        rows = rows_of(getattr(layers.layer, key))  # as `sums` of layers counts them
        return [sum(entries_of(entry, rows), Fraction(0)) for entry in entries]

    costs = totals(problem.costs.recompute, "recompute")
    if costs == totals(layers.amounts("recompute"), "recompute"):
        return None
    times, sizes = (layers.layer.sums(key, layers.count) for key in ("recompute", "activation"))
    # of each stage, where those of its layers end, from its first on, whose recomputes sum up to its own
    ends = [
        next((end for end in range(begin, behind + 1) if times[end] - times[begin] == cost), begin)
        for (begin, behind), cost in zip(layers.spans, costs, strict=True)
    ]
    counts = [end - begin for end, (begin, _) in zip(ends, layers.spans, strict=True)]
    if not any(counts):
        return None
    whole = totals(problem.memory.activation, "activation")
    columns = zip(layers.spans, ends, whole, problem.memory.checkpoint, strict=True)
    kept = any(size * (1 - to_fraction(part)) != sizes[end] - sizes[begin] for (begin, _), end, size, part in columns)
    return f", {counted(max(counts), 'layer')} of each stage", kept


MOST_NAMED = 4  # operations of one part that a row names


def step_rows(
    schedule: Schedule, step: StepTimes, time: Callable[[int | float], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield what the step costs beside its passes, and of each part of it how long it lasts and what of it shows."""
    lasting = {part: times for part in PARTS if any(times := step.time(part))}
    if not lasting:
        return
    yield "pipeline", time(step.pipeline), "makespan in which gathers, reductions and optimizers take no time"
    if not lasting.keys().isdisjoint(NETWORK):
        yield "exposed", time(step.network), "makespan less that in which gathers and reductions take no time"
    for part, times in lasting.items():
        owners = [device for device, one in enumerate(times) if one]
        least, most = min(filter(None, times)), max(times)
        each = time(most) if least == most else f"{number(least)} to {time(most)}"
        if len(owners) < len(times):
            each += f" on {devices_text(owners)}"
        elif len(times) > 1:
            each += " a device"
        said = f"{time(step.cost(part))} exposed"
        if part in NETWORK:  # by which operations, and where it is hidden
            exposed, hidden = step.exposed_of(part), step.hidden_on(part)
            texts = [str(schedule.plan.index.op(one)) for one in exposed[:MOST_NAMED]]
            texts += [f"and {len(exposed) - MOST_NAMED} more"] * (len(exposed) > MOST_NAMED)
            said += f" ({', '.join(texts)})" if texts else ""
            said += f", hidden on {devices_text(hidden)}" if hidden else ""
        yield f"  {part}", each, said


def held_text(problem: Problem) -> str:
    """Return what the memory of a device is of: `activations and static memory`."""
    parts = ["activations"]
    parts += ["whole weights"] * problem.sharding.divides(WEIGHTS)
    parts += ["whole gradients"] * problem.sharding.divides(GRADIENTS)
    parts += ["side work"] * bool(problem.side)
    parts += ["static memory"] * any(problem.static_grains)
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _most(held: Sequence[int | float], what: str, unit: str, every: bool) -> tuple[str, str]:
    """Return the most of what devices hold, and a note of all devices, or of many the largest and the smallest."""
    value = f"{number(max(held))} {unit}".strip()
    if every or len(held) <= FEW_DEVICES:
        whose = f"devices 0..{len(held) - 1}" if len(held) > 1 else "device 0"
        return value, f"{what} of {whose}: {', '.join(map(number, held))}"
    texts = []
    for word, extreme in (("largest", max(held)), ("smallest", min(held))):
        devices = [device for device, one in enumerate(held) if one == extreme]
        where = f"{len(devices)} devices, {devices[0]} the first"
        if len(devices) in (1, len(held)):
            where = f"device {devices[0]}" if len(devices) == 1 else "every device"
        texts.append(f"{word} {number(extreme)} on {where}")
    extremes = texts[0].replace("largest ", "") if max(held) == min(held) else ", ".join(texts)
    return value, f"{what}: {extremes}"


def _budget(outcome: Outcome, every: bool) -> tuple[Text, str]:
    """Return whether the schedule fits its budget, and a note of the budget and of what exceeds it."""
    budget = [*map(plain, outcome.problem.memory.budget or ())]
    unit = outcome.problem.memory.unit
    if len(set(budget)) == 1:
        note = f"{number(budget[0])} {unit}".rstrip() + " on every device"
    elif every or len(budget) <= FEW_DEVICES:
        note = f"{', '.join(map(number, budget))} {unit}".rstrip()
    else:
        note = f"{number(min(budget))} to {number(max(budget))} {unit}".rstrip()
    if outcome.schedule.fits:
        return Text("fits", style=GOOD), note
    over = outcome.schedule.over_budget
    where = f"{len(over)} devices, {over[0]} the first"
    if len(over) <= FEW_DEVICES:
        where = f"device {', '.join(map(str, over))}"
    return Text("over budget", style=BAD), f"{note}; exceeded on {where}"


MOST_TYPED = 160  # letters of what is to be typed for an advice: of more, only the beginning is shown


def advice_rows(
    report: SolveReport, time: Callable[[int | float], str], spell: Spelling
) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each change that helps, below a first that says what the times are."""
    if report.advice is None:
        return
    if not report.advice:
        yield "would help", "nothing", "that was tried, by heuristics alone"
        return
    yield "would help", "at most", "by heuristics alone; a solve with one of these changes does no worse"
    for advice in report.advice:
        share = -advice.difference / report.value if report.value else 0.0
        typed = [f"`{name}`" if value else f"`{name}=False`" for name, value in advice.solve.items()]
        keys = {name: BY_NAME[name].key if name in BY_NAME else name for name in advice.problem}
        values = [f"`{keys[name]}` {_text_of(value)}" for name, value in advice.problem.items()]
        text = " ".join(typed + values)
        if len(text) > MOST_TYPED:
            text = f"{values[0]}, with the values of solver.advice in the JSON document"
        yield f"  {advice.change}", time(advice.makespan_at_most), f"{share:.1%} shorter: {spell(text)}"


def _text_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in value.items()) + "}"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
