"""An estimate as tables, by `estimate_view`: stages, devices, the step; first how sure it, or a tuning, is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipesched.checks import joined
from pipesched.config.derived import FITS
from pipesched.config.estimate import changes
from pipesched.estimation.hardware import NUMBERS
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.items import GB, STATES
from pipesched.estimation.model_reader import HARDWARE, preset_names
from pipesched.estimation.result import Estimate, TrainingStep, mean_entry, sizes_beside
from pipesched.estimation.setup import SIZES, Setup
from pipesched.estimation.trace import Trace
from pipesched.estimation.trust.evidence import Interval, OutsideField, PublishedRun, SpeedRatio, Trust
from pipesched.estimation.trust.facts import RunFacts
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.problem import Problem, letters_of
from pipesched.pipeline.problem.units import TRAIN
from pipesched.render.grid import fitting_columns, folded, grid, right, uncut, width_of, without_room
from pipesched.render.scene import counted, number, numbers_text
from pipesched.render.summary import BAD, MOST_LISTED, cut_said
from pipesched.results.outcome import Outcome
from pipesched.schedulers.registry import called
from pipesched.tuning.result import Tuning
from pipesched.tuning.space import Parallelism


def interval_text(interval: Interval, unit: str = "") -> str:
    """Return what is expected, and the ends of the interval."""
    low, expected, high = (f"{value:,.1f}" for value in interval)
    return f"expected {expected}{unit}, 80 % {low} to {high}"


def trust_lines(trust: Trust) -> Iterator[RenderableType]:
    """Yield what an estimate is based on, and each field that lies outside what was measured."""
    beside = [f"{trust.own} run{'s' * (trust.own > 1)} of your own"] * bool(trust.own)
    beside += [f"the runs of {trust.like}"] * (trust.like is not None)
    yield Text(f"Based on published runs{''.join(f', {one}' for one in beside)}; the nearest:", style="dim")
    for run in trust.evidence.nearest:
        rate = f"{run.tokens_per_second_per_gpu:,.0f} tokens/s/GPU, estimated {run.error:+.1%}"
        yield item(f"{run.run}: {rate}")
    if trust.evidence.inside:
        return
    yield Text("Nobody has published a run with", style="dim")
    yield from _outside(trust.evidence.outside)


def _outside(fields: Iterable[OutsideField], indent: int = 2) -> Iterator[RenderableType]:
    return (item(f"{one.field} {one.value}; measured: {one.measured}", indent) for one in fields)


def against_lines(ratios: Iterable[tuple[str, SpeedRatio]]) -> Iterator[RenderableType]:
    """Yield how the step compares with that of each other config."""
    for name, one in ratios:
        ends = f"{one.expected:.3f} of its step, 80 % {one.low:.3f} to {one.high:.3f}"
        known = f"faster with {one.faster:.0%}" if one.faster > 0.5 else f"slower with {1 - one.faster:.0%}"
        verdict = known if one.is_decided else f"cannot be told apart (faster with {one.faster:.0%})"
        yield Text(f"against {name}: {ends}; {verdict}")


LETTERS = {"tensor": "t", "pipeline": "p", "chunks": "v", "context": "c", "expert": "e", "micro": "b"}


def evidence_table(runs: Sequence[PublishedRun]) -> RenderableType:
    """Return a row for each published run: its rate, by how much our estimate of it is off, and how it was laid out."""
    gpus, of, rate = right("\nGPUs"), uncut("\nof"), right("tokens/s\n/GPU")
    table = grid(folded("\nrun"), gpus, of, folded("\nlayout"), rate, right("\nestimate"))
    for one in runs:
        facts, error = one.compared.facts, f"{one.estimated_rate / one.rate - 1:+.1%}"
        table.add_row(one.run, f"{facts.gpus:,}", facts.gpu, _ways(facts), f"{one.rate:,.0f}", error)
    meanings = ", ".join(f"{letter} {key}" for key, letter in LETTERS.items())
    return Group(table, Text(f"{meanings}; estimate: how far ours is off", style="dim"))


def how_sure(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield what is expected of the first row, on what evidence, and which rows to measure first."""
    trust = tuning.rows[0].trust
    if trust is None:
        return
    yield ""
    yield Text(f"Row 1: {interval_text(trust.tokens_per_second_per_gpu, unit=' tokens/s/GPU')}.", style="bold")
    after = " after your own runs" * bool(trust.own)
    yield Text(f"Rows are in the order of what is expected{after}; the search was by estimates.")
    if not tuning.rows[0].sure:
        said = "Nothing surely fits; row 1 is the likeliest to" if tuning.fits == FITS[0] else "Row 1 may not fit"
        yield Text(f"{said}: {trust.memory.expected:.1f} GB, 80 % {trust.memory.low:.1f} to {trust.memory.high:.1f}.")
    yield from trust_lines(trust)
    if tuning.measure is not None:
        first, second = (number + 1 for number in tuning.measure.layouts)
        gain = f"{tuning.measure.gain * 100:.{1 if tuning.measure.gain >= 0.0005 else 2}f} %"
        yield Text(f"measure rows {first} and {second} first: on average the choice is then {gain} faster")


def published_lines(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield the published runs of the same model and GPU, and whether the first row is faster than all of them."""
    if not tuning.published:
        return
    yield from ("", Text("Published runs of this model on this GPU, the most alike first:", style="dim"))
    for run in tuning.published:
        ways = f"{run.compared.facts.gpus:,} GPUs, {_ways(run.compared.facts)}"
        yield item(f"{run.run}: {ways}: {run.rate:,.0f} tokens/s/GPU, estimated {run.estimated_rate:,.0f}")
    if tuning.is_above_published:
        yield Text("row 1 is faster than all of them on as many GPUs, also at the low end of its 80 %")


def faster_outside_lines(tuning: Tuning) -> Iterator[RenderableType]:
    """Yield the points outside what was measured that are faster in the estimate, and what to measure for each."""
    if not tuning.beyond:
        return
    yield from ("", Text("Faster in the estimate, but nobody has measured:", style="dim"))
    best = tuning.rows[0].rate
    for one in tuning.beyond:
        rate = f"{one.trial.rate:,.1f} tokens/s/GPU, {one.trial.rate / best - 1:+.1%}"
        yield item(f"{named(*one.trial.point)}: {rate}")
        yield from _outside(one.outside, 4)
        yield item(f"measure {one.measure}", 4)


def _ways(facts: RunFacts) -> str:
    """Return the sizes of a published run that are not 1, and of tensor and pipeline in any case, by their letters."""
    sizes = {letter: getattr(facts, key) for key, letter in LETTERS.items()}
    return " ".join(f"{letter}{size}" for letter, size in sizes.items() if size > 1 or letter in "tp")


def named(layout: Parallelism, algorithm: str) -> str:
    """Return a point in words."""
    return f"{layout}, {algorithm}" if algorithm else str(layout)


def item(text: str, indent: int = 2, style: str = "") -> RenderableType:
    """Return a line that is indented, also where it goes on."""
    return Padding(Text(text, style=style), (0, 0, 0, indent), expand=False)


def gpus_text(setup: Setup) -> str:
    """Return the GPUs of a setup: `64 h100-sxm with nvlink 200, own efficiency`."""
    gpu = setup.hardware
    known = preset_hardware(gpu.name) if gpu.name in preset_names(HARDWARE) else gpu
    changed = (key for key in NUMBERS if getattr(gpu, key) != getattr(known, key))
    own = [f"{key} {number(getattr(gpu, key))}" for key in changed]
    own += ["own efficiency"] * (gpu.efficiency != known.efficiency)
    return f"{setup.parallel.gpus:,} {gpu.name}" + (f" with {', '.join(own)}" if own else "")


TITLES = {kind.cost: letter for letter, kind in KINDS.items() if letter in letters_of(TRAIN, split=True)}
AFTER = ("logits", "fixed", "total")
BROKEN = {"gradients": "gra-\ndients", "optimizer": "opti-\nmizer", "activations": "acti-\nvations"}
BROKEN |= {"unsharded": "un-\nsharded"}  # titles on two lines
LEFT_OUT = ("fixed", "logits", "unsharded", "side", "gradients", "optimizer", "weights")  # the first for want of room


def estimate_view(estimate: Estimate, **_: bool) -> Group:
    """Return the setup, its stages, its devices, and its step; of one that does not fit, what is too much instead."""
    worst, row = max(enumerate(estimate.devices), key=lambda pair: pair[1].total - pair[1].budget)
    much = f"{_gb(row.total)} of {_gb(row.budget)} GB, {_gb(row.total - row.budget)} GB too much"
    return Group(
        Text(heading(estimate), style="bold"),
        Text(sentence(estimate)),
        "",
        Text("Times of one microbatch in ms, and what it leaves from forward to backward:", style="dim"),
        stage_table(estimate),
        *map(Text, cut_lines(estimate.outcome)),
        *map(Text, devices_lines(estimate.problem)),
        "",
        Text(f"GB of a GPU at its peak, under {called(estimate.outcome.algorithm)}:", style="dim"),
        DeviceTable(estimate),
        "",
        grid(uncut(style="dim"), right(), folded(), rows=_step_rows(estimate, estimate.step), header=False)
        if estimate.fits
        else Text(f"device {worst} does not fit: {much}", style=BAD),
        *(("", *trust_lines(estimate.trust)) if estimate.trust is not None and estimate.fits else ()),
        *(Text(f"note: {note}") for note in estimate.notes),
    )


def heading(estimate: Estimate) -> str:
    """Return what is estimated, on one line."""
    setup = estimate.setup
    named = {key: getattr(setup.parallel, key) for key in (*SIZES, "data")}
    ways = ", ".join(f"{key} {size}" for key, size in named.items() if size > 1 or key == "pipeline")
    return f"{setup.model.name} on {gpus_text(setup)}: {ways}"


def sentence(estimate: Estimate) -> str:
    """Return the parameters of the model and the microbatches of a step."""
    batch, found = estimate.setup.batch, estimate.parameters
    active = f", {found.active / 1e9:.4g} active" if found.active != found.total else ""
    each = f"{batch.micro} x {batch.sequence:,} tokens" if batch.micro > 1 else f"{batch.sequence:,} tokens"
    if batch.lengths is not None:
        each = f"{min(batch.totals):,} to {batch.sequence:,} tokens"
    return (
        f"{found.total / 1e9:.4g} billion parameters{active}; {estimate.problem.microbatches} microbatches of {each},"
        f" {estimate.tokens / 1e6:.4g} million tokens a step"
    )


def stage_table(estimate: Estimate) -> Table:
    """Return a row for each stage, alike neighbours in one: what it holds, and times of a microbatch in ms."""
    texts = []
    for stage, boundary in enumerate([*map(mean_entry, estimate.problem.costs.p2p), 0.0]):
        times = (f"{estimate.stage_time(stage, key):.3f}" for key in TITLES)
        activation, count = f"{estimate.stage_activation(stage):.3f} GB", estimate.stages[stage].count
        layers = count("layer")
        holds = ["embedding"] * count("embedding") + [counted(layers, "layer")] * bool(layers)
        holds += ["MTP"] * count("mtp") + ["head"] * count("head")
        texts.append((" + ".join(holds), *times, f"{boundary:.3f}" if boundary else "", activation))
    rows = ((numbers_text(numbers), *cells) for numbers, cells in _merged(texts))
    return grid(uncut("stage"), folded("holds"), *map(right, (*TITLES.values(), "p2p", "activation")), rows=rows)


def cut_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the cut that was chosen: the layers of stages, and what is known of it."""
    if outcome.cut is not None:
        yield f"cut  {cut_said(outcome.cut, fits=outcome.schedule.fits)}"


def devices_lines(problem: Problem) -> Iterator[str]:
    """Yield which devices have another speed than 1, by which their times are divided, and what links take."""
    others = [device for device, speed in enumerate(problem.speed or ()) if speed != 1]
    if others:
        yield f"times at speed 1; {joined([*map(problem.device_name, others)])}"
    if problem.links is not None:
        times = [f"{time:.3f}" for time in sorted({*map(float, chain(*problem.links))} - {0.0})]
        yield f"links between devices, beside p2p, in ms: {joined(times) or 0}"


class DeviceTable:
    """A row for each device, alike neighbours in one: what a GPU of it holds at its peak, in GB.

    On a narrow screen titles take two lines, and what still does not fit is left out, the smallest parts first.
    """

    def __init__(self, estimate: Estimate) -> None:
        sizes = {**{key: key for key in (*STATES, *sizes_beside(estimate), *AFTER)}, "total": "sum", "budget": "of"}
        texts = [tuple(f"{float(getattr(device, key)) / GB:.1f}" for key in sizes) for device in estimate.devices]
        rows = [*_merged(texts)]
        fits = [estimate.devices[numbers[0]].fits for numbers, _ in rows]
        self.names = [Text(numbers_text(row[0]), "" if fit else BAD) for row, fit in zip(rows, fits, strict=True)]
        self.rows = [dict(zip(sizes.values(), cells, strict=True)) for _, cells in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room, name, rows = options.max_width - width_of("device", self.names), "device", self.rows
        titles = {title: title for title in rows[0]}
        if len(fitting_columns(rows, [*titles], room)) < len(titles):
            name, titles = "\ndevice", {title: BROKEN.get(title, f"\n{title}") for title in titles}
            rows = [{titles[title]: cell for title, cell in row.items()} for row in rows]
        longest = sorted(titles, key=lambda title: LEFT_OUT.index(title) if title in LEFT_OUT else len(LEFT_OUT))
        columns = fitting_columns(rows, [titles[title] for title in longest[::-1]], room)
        named = zip(self.names, rows, strict=True)
        heads = uncut(name), *map(right, columns)
        yield grid(*heads, rows=([text, *(cells[column] for column in columns)] for text, cells in named))
        yield from without_room(titles.values(), columns)


def _merged(rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[list[int], tuple[str, ...]]]:
    """Yield each row with its number, equal neighbours as one with the numbers of all."""
    for cells, numbers in groupby(range(len(rows)), key=rows.__getitem__):
        yield list(numbers), cells


def _step_rows(estimate: Estimate, step: TrainingStep) -> Iterator[tuple[str, str, str]]:
    schedule = estimate.outcome.schedule
    counted = "every score of attention counts" if estimate.whole else "causal: half of attention's scores count"
    yield "pipeline", f"{step.pipeline:,.1f} ms", f"{called(step.algorithm)}, bubble {schedule.bubble:.1%}"
    late = schedule.step.exposed if schedule.step is not None and estimate.has_step else ()
    named = f": {joined([*late], MOST_LISTED)}" if late else ""
    what = f"of gradients and parameters, what nothing hides{named}"
    yield "communication", f"{step.communication:,.1f} ms", what
    yield "optimizer", f"{step.optimizer:,.1f} ms", ""
    trust = estimate.trust
    yield "step", f"{step.time:,.1f} ms", "" if trust is None else interval_text(trust.time)
    rates = "" if trust is None else interval_text(trust.tokens_per_second_per_gpu)
    yield "tokens/s/GPU", f"{step.tokens_per_second_per_gpu:,.1f}", rates
    if trust is not None and not trust.sure:
        most = max(device.total for device in estimate.devices)
        yield "memory", f"{_gb(most)} GB", f"{interval_text(trust.memory)}: may not fit"
    both = [step] if estimate.expected is None else [step, estimate.expected]
    days = [f"{one.gpu_hours_per_trillion / estimate.setup.parallel.gpus / 24:,.1f} days" for one in both]
    for name, texts, said in (
        ("TFLOP/s/GPU", [f"{one.model_tflops_per_gpu:.1f}" for one in both], f"of {number(estimate.setup.peak)}"),
        ("MFU", [f"{one.mfu:.1%}" for one in both], counted),
        ("HFU", [f"{one.hfu:.1%}" for one in both], "recompute counts too"),
        ("10^12 tokens", days, f"{both[-1].gpu_hours_per_trillion:,.0f} GPU-hours"),
    ):
        yield name, texts[0], "; ".join([*(f"expected {text}" for text in texts[1:]), said])


def fit_lines(estimate: Estimate) -> Iterator[Text]:
    """Yield the changes with which an estimate fits that does not."""
    found = changes(estimate)
    if not found:
        yield Text("no few changes of parallel, micro and recompute make it fit")
        return
    yield Text("It fits with")
    for change in found:
        most = max(device.total for device in change.estimate.devices)
        unsure = "" if change.sure else "; may not fit"
        yield Text(f"  {change.text}: {_gb(most)} GB, {change.rate:,.1f} tokens/s/GPU{unsure}")


def trace_table(found: Trace) -> Iterator[RenderableType]:
    """Yield a traced number, and a row for each of its parts."""
    yield Text(f"{found.address} = {found.value:.6g} {found.unit}".rstrip(), style="bold")
    rows = (("  " * (part.depth + 1) + part.name, f"{part.value:.6g}", f"= {part.formula}") for part in found.parts)
    yield grid(uncut(), right(), folded(style="dim"), rows=rows, header=False)


def _gb(size: Fraction) -> str:
    return f"{float(size) / GB:.1f}"
