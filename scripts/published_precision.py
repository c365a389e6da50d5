"""Published steps in low precision beside ours, and how much faster they are than the same setups in bf16.

Each source is left out in turn: the shares in few bits are fitted on the others (scripts/fit_precision.py), the rest
stays as it is fitted on steps in 16 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from least_squares import Vector, minimize
from pipesched.estimation.hardware import BF16, RECIPES
from pipesched.estimation.setup import FULL, SELECTIVE
from published_runs import Run, records_of, whole_run
from published_setups import HBM2E_NUMBERS
from published_times import SUMMARY_HEAD, Compared, estimate_of, step_of, step_time, summary, with_efficiency

FILE = "measured_precision.json"
HOPPER, BLACKWELL, ULTRA = ("h100-sxm", "h800"), ("b200", "gb200"), ("b300", "gb300")
GROUPS = (HOPPER, BLACKWELL, ULTRA)  # GPUs whose shares of low precision are the same
START = {"fp8": 0.85, "mxfp8": 0.8, "nvfp4": 0.6}
WIDTH = 0.15  # of the logarithm of a share, about its start
GRID: Vector = np.log([0.4, 0.65, 1.0])  # shares between which times are interpolated
SMALLEST = 0.25  # power of its rows by which a family weighs less a row
RATIO_GOAL, TIME_GOAL = 0.08, 0.10  # the largest medians


class LowRun(NamedTuple):
    """A published run in low precision, who published it, and how many times as fast it is as its twin in bf16."""

    run: Run
    source: str
    gain: float | None

    @property
    def precision(self) -> str:
        """Its precision."""
        return self.run.setup.training.precision

    @property
    def kind(self) -> tuple[tuple[str, ...], str]:
        """The GPUs and the share that its share is fitted with."""
        return group_of(self.run.setup.hardware.name), RECIPES[self.precision].peak


class LowTimes(NamedTuple):
    """A run beside what the step takes for the shares of GRID, and its twin in bf16; in ms."""

    low: LowRun
    times: tuple[float, ...]
    twin: float

    def time(self, share: float) -> float:
        """Return the step for a share."""
        return float(np.exp(np.polyval(np.polyfit(GRID, np.log(self.times), 2), np.log(share))))


def group_of(gpu: str) -> tuple[str, ...]:
    """Return the GPUs that share what is fitted."""
    return next((group for group in GROUPS if gpu in group), (gpu,))


def precision_runs() -> list[Run]:
    """Return all runs of the file that are compared, those in bf16 too."""
    return [_run(record) for record in records_of(FILE) if not _reason(record)]


def left_out_of_precision() -> Counter[str]:
    """Return the reasons for which others are not, and how often."""
    return Counter(filter(None, map(_reason, records_of(FILE))))


def _reason(record: Mapping[str, Any]) -> str:
    model = record["config"]["model"]
    if isinstance(model, dict) and "hf" in model:
        return f"the shape of {model['hf']} is not in the record"
    if record["recipe"].get("block") == "row":
        return "a scale for each row: no recipe here"
    return "" if record["step_ms"] else "no global batch"


def _run(record: Mapping[str, Any]) -> Run:
    """Return the run of a record, on the GPUs of its cluster; torchtitan's `selective` repeats every second product."""
    config = record["config"]
    blocks = str(record["recipe"].get("block")) == "128"
    config = {**config, "training": {**config["training"], **({"precision": "fp8-blockwise"} if blocks else {})}}
    found = whole_run({**record, "config": config}, {})
    setup = found.setup
    if "HBM2e" in record["trust"]:
        slower = HBM2E_NUMBERS["tflops"] / setup.hardware.tflops
        numbers = {**HBM2E_NUMBERS, "fp8": round(float(setup.hardware.fp8 or 0) * slower)}
        setup = replace(setup, hardware=replace(setup.hardware, **numbers))
    if found.family.startswith("torchtitan") and setup.training.recompute == SELECTIVE:
        training = replace(setup.training, recompute=FULL, full_layers=setup.model.layers // 2)
        setup = replace(setup, training=training)
    return found._replace(setup=setup)


def low_runs() -> Iterator[LowRun]:
    """Yield the runs in low precision."""
    twins = {record["id"]: record.get("twin") or {} for record in records_of(FILE)}
    for run in precision_runs():
        if run.setup.recipe is not None:
            twin = twins[run.name]
            yield LowRun(run, publisher(run.family), twin.get("speedup") if twin.get("same_layout") else None)


def publisher(family: str) -> str:
    """Return who published a family."""
    return "megatron-bridge" if family.startswith("bridge") else family.partition("-")[0]


@cache
def all_times() -> tuple[LowTimes, ...]:
    """Return all runs in low precision with their times."""
    return tuple(map(_times, low_runs()))


def fitted_shares(rows: Sequence[LowTimes]) -> dict[tuple[tuple[str, ...], str], float]:
    """Return the share of each group of GPUs and precision; without rows that of GPUs that have some, or the start."""
    return {
        (group, peak): fitted_share([row for row in rows if row.low.kind == (group, peak)], START[peak])
        for group in GROUPS
        for peak in (START if group != HOPPER else ("fp8",))
    }


def _times(low: LowRun) -> LowTimes:
    share = low.kind[1]
    each = tuple(step_time(with_efficiency(low.run, **{share: float(np.exp(x))})) for x in GRID)
    setup = low.run.setup
    twin = replace(setup, training=replace(setup.training, precision=BF16))
    return LowTimes(low, each, step_of(estimate_of(twin, low.run.algorithm), low.run.algorithm))


def fitted_share(rows: Sequence[LowTimes], start: float) -> float:
    """Return the share that brings steps, and gains over bf16 where there is a twin, nearest to the published ones."""
    if not rows:
        return start
    families = Counter(row.low.run.family for row in rows)
    weights = [families[row.low.run.family] ** -SMALLEST for row in rows]
    twins = [row for row in rows if row.low.gain]
    weights += [families[row.low.run.family] ** -SMALLEST for row in twins]

    def residuals(logarithm: Vector) -> Vector:
        share = start * float(np.exp(logarithm[0]))
        steps = [row.time(share) / (row.low.run.step or 1) for row in rows]
        gains = [row.time(share) * (row.low.gain or 1) / row.twin for row in twins]
        return np.log(steps + gains)

    found = minimize(residuals, np.zeros(1), np.array([WIDTH]), np.array(weights))
    return round(min(1.0, start * float(np.exp(found[0]))), 3)


class LeftOutTime(NamedTuple):
    """A run beside its step, and its gain over bf16 where that is published, by the shares of all other sources."""

    low: LowRun
    step: Compared
    gain: Compared | None

    @property
    def family(self) -> str:
        """Its source, precision, GPU and kind of model."""
        setup = self.low.run.setup
        kind = "experts" if setup.model.experts else "dense"
        return f"{self.low.source} {self.low.precision} {setup.hardware.name} {kind}"


def left_out_times() -> list[LeftOutTime]:
    """Return each run in low precision by the shares of the other sources."""
    rows, found = all_times(), []
    for source in dict.fromkeys(row.low.source for row in rows):
        shares = fitted_shares([row for row in rows if row.low.source != source])
        for row in (one for one in rows if one.low.source == source):
            low, ours = row.low, row.time(shares[row.low.kind])
            gain = Compared(low.run.name, low.run.family, low.gain, row.twin / ours) if low.gain else None
            found.append(LeftOutTime(low, Compared(low.run.name, low.run.family, low.run.step or 0.0, ours), gain))
    return found


def precision_table() -> bool:
    """Print steps and gains; return whether a goal is missed."""
    rows = left_out_times()
    print("\nSteps in 8 and 4 bits, each source left out")
    print(f"    {'':<46} {'published':>10} {'ours':>10} {'error':>7}   gain over bf16: published, ours")
    for row in rows:
        step, gain = row.step, row.gain
        text = f"{gain.published:>14.3f} {gain.ours:>7.3f} {gain.error:>+7.1%}" if gain else ""
        line = f"    {step.name:<46} {step.published:>10.1f} {step.ours:>10.1f} {step.error:>+7.1%}  {text}"
        print(line.rstrip())
    print(SUMMARY_HEAD)
    for family in dict.fromkeys(row.family for row in rows):
        print(summary(family, [row.step.error for row in rows if row.family == family]))
    steps = summary("all", [row.step.error for row in rows])
    gains = summary("gains over bf16", [row.gain.error for row in rows if row.gain])
    print(steps, gains, sep="\n")
    reasons = left_out_of_precision()
    print(f"  left out: {reasons.total()}")
    for reason, count in reasons.items():
        print(f"    {count} of which {reason}")
    return steps.median > TIME_GOAL or gains.median > RATIO_GOAL
