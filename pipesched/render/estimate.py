"""An estimate as tables: stages, devices, and the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from pipesched.checks import joined
from pipesched.config.estimate import changes
from pipesched.estimation.hardware import NUMBERS, GpuModel
from pipesched.estimation.hardware_reader import preset_hardware
from pipesched.estimation.items import GB, STATES, Stage
from pipesched.estimation.model_reader import HARDWARE, preset_names
from pipesched.estimation.result import Estimate, TrainingStep, mean_entry, sizes_beside
from pipesched.estimation.setup import SIZES, Setup
from pipesched.estimation.trace import Trace
from pipesched.pipeline.kinds import KINDS, computation_letters
from pipesched.pipeline.problem import Problem
from pipesched.render.grid import fitting_columns, folded, grid, right, uncut, width_of, without_room
from pipesched.render.summary import BAD, MOST_LISTED, cut_said
from pipesched.render.timescale import number, numbers_text
from pipesched.render.trust import interval_text, trust_lines
from pipesched.results.outcome import Outcome


def gpus_text(setup: Setup) -> str:
    """Return the GPUs of a setup: `64 h100-sxm with nvlink 200, own efficiency`."""
    own = ", ".join(_own(setup.hardware))
    return f"{setup.parallel.gpus:,} {setup.hardware.name}" + (f" with {own}" if own else "")


def _own(hardware: GpuModel) -> Iterator[str]:
    """Yield the numbers in which a GPU is not its preset."""
    if hardware.name not in preset_names(HARDWARE):
        return
    known = preset_hardware(hardware.name)
    for key in NUMBERS:
        value = getattr(hardware, key)
        if value != getattr(known, key):
            yield f"{key} {number(value)}"
    if hardware.efficiency != known.efficiency:
        yield "own efficiency"


TITLES = {kind.cost: letter for letter, kind in KINDS.items() if letter in computation_letters(split=True)}
AFTER = ("logits", "fixed", "total")
BROKEN = {"gradients": "gra-\ndients", "optimizer": "opti-\nmizer", "activations": "acti-\nvations"}
BROKEN |= {"unsharded": "un-\nsharded"}  # titles on two lines
LEFT_OUT = (
    "fixed",
    "logits",
    "unsharded",
    "side",
    "gradients",
    "optimizer",
    "weights",
)  # for want of room, in this order


def estimate_view(estimate: Estimate, **_: bool) -> Group:
    """Return the setup, its stages, its devices, and its step; of one that does not fit, what is too much instead."""
    return Group(
        Text(heading(estimate), style="bold"),
        Text(sentence(estimate)),
        "",
        Text("Times of one microbatch in ms, and what it leaves from forward to backward:", style="dim"),
        stage_table(estimate),
        *map(Text, cut_lines(estimate.outcome)),
        *map(Text, devices_lines(estimate.problem)),
        "",
        Text(f"GB of a GPU at its peak, under {estimate.outcome.algorithm}:", style="dim"),
        DeviceTable(estimate),
        "",
        grid(uncut(style="dim"), right(), folded(), rows=_step_rows(estimate, estimate.step), header=False)
        if estimate.fits
        else Text(over_text(estimate), style=BAD),
        *(("", *trust_lines(estimate.trust)) if estimate.trust is not None and estimate.fits else ()),
        *(Text(f"note: {note}") for note in estimate.notes),
    )


def heading(estimate: Estimate) -> str:
    """Return what is estimated, on one line."""
    setup = estimate.setup
    parallel, model = setup.parallel, setup.model
    named = {key: getattr(parallel, key) for key in (*SIZES, "data")}
    ways = ", ".join(f"{key} {size}" for key, size in named.items() if size > 1 or key == "pipeline")
    return f"{model.name} on {gpus_text(setup)}: {ways}"


def sentence(estimate: Estimate) -> str:
    """Return the parameters of the model and the microbatches of a step."""
    setup, found = estimate.setup, estimate.parameters
    active = f", {found.active / 1e9:.4g} active" if found.active != found.total else ""
    batch = setup.batch
    each = f"{batch.micro} x {batch.sequence:,} tokens" if batch.micro > 1 else f"{batch.sequence:,} tokens"
    if batch.lengths is not None:
        each = f"{min(batch.totals):,} to {batch.sequence:,} tokens"
    return (
        f"{found.total / 1e9:.4g} billion parameters{active}; {estimate.problem.microbatches} microbatches of {each},"
        f" {estimate.tokens / 1e6:.4g} million tokens a step"
    )


def stage_table(estimate: Estimate) -> Table:
    """Return a row for each stage, alike neighbours in one: what it holds, and times of a microbatch in ms."""
    p2p = [*map(mean_entry, estimate.problem.costs.p2p), 0.0]
    texts = []
    for stage, boundary in enumerate(p2p):
        times = (_ms(estimate.stage_time(stage, key)) for key in TITLES)
        activation = f"{estimate.stage_activation(stage):.3f} GB"
        texts.append((_holds(estimate.stages[stage]), *times, _ms(boundary) if boundary else "", activation))
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
        times = sorted({*map(float, chain(*problem.links))} - {0.0})
        yield f"links between devices, beside p2p, in ms: {joined([*map(_ms, times)]) or 0}"


def _ms(value: float) -> str:
    return f"{value:.3f}"


def _holds(stage: Stage) -> str:
    """Return what a stage holds: 10 layers, the embedding, the head."""
    layers = stage.count("layer")
    parts = ["embedding"] * stage.count("embedding")
    parts += [f"{layers} layer{'s' * (layers != 1)}"] if layers else []
    parts += ["MTP"] * stage.count("mtp") + ["head"] * stage.count("head")
    return " + ".join(parts)


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
    yield "pipeline", f"{step.pipeline:,.1f} ms", f"{step.algorithm}, bubble {schedule.bubble:.1%}"
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


def over_text(estimate: Estimate) -> str:
    """Return which device misses its memory most, and by how much, of an estimate that does not fit."""
    worst, row = max(enumerate(estimate.devices), key=lambda pair: pair[1].total - pair[1].budget)
    much = f"{_gb(row.total - row.budget)} GB too much"
    return f"device {worst} does not fit: {_gb(row.total)} of {_gb(row.budget)} GB, {much}"


def _gb(size: Fraction) -> str:
    return f"{float(size) / GB:.1f}"
