"""Published times beside ours: steps, parts of a step, and ratios between the schedules of one configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from statistics import median, quantiles
from typing import NamedTuple

from pipesched.estimation.communication import boundary_time
from pipesched.estimation.derived import derive
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import MESSAGES, total
from pipesched.estimation.times import layer_times
from pipesched.pipeline.problem.costs import in_one
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.run import run
from published_runs import Run

PER_GB = 1000  # memory in whole MB
FORWARD, INPUT, WEIGHT = "forward", "backward_input", "backward_weight"
PARTS: Mapping[str, tuple[str, ...]] = {  # what is measured: the operations it is the sum of
    "layer_forward": (FORWARD,),
    "layer_backward": (INPUT, WEIGHT),
    "chunk_forward": (FORWARD,),
    "stage_forward": (FORWARD,),
    "stage_backward_input": (INPUT,),
    "stage_backward_weight": (WEIGHT,),
}


class Compared(NamedTuple):
    """A published time in ms, or a ratio of two, and ours."""

    name: str
    family: str
    published: float
    ours: float

    @property
    def error(self) -> float:
        """How much longer ours is, as a share of the published one."""
        return self.ours / self.published - 1


class Summary(NamedTuple):
    """The errors of a family without their signs, and their mean with signs."""

    family: str
    rows: int
    median: float
    ninetieth: float
    mean: float

    def __str__(self) -> str:
        return f"  {self.family:<46} {self.rows:>4} {self.median:>7.1%} {self.ninetieth:>7.1%} {self.mean:>+7.1%}"


SUMMARY_HEAD = f"  {'errors':<46} runs  median    90th    mean"


def compare(runs: Iterable[Run]) -> Iterator[Compared]:
    """Return each time of each run beside ours."""
    for published in runs:
        if published.step is not None:
            yield Compared(published.name, published.family, published.step, step_time(published))
        for part, value in published.parts.items():
            yield Compared(f"{published.name} {part}", published.family, value, _part(published, part))


def ratios(compared: Iterable[Compared]) -> Iterator[Compared]:
    """Return the times of the schedules of one configuration over that of its 1F1B."""
    rows = list(compared)
    for base in rows:
        prefix, is_base = base.name.removesuffix("-1f1b"), base.name.endswith("-1f1b")
        for row in rows if is_base else ():
            if row.name.startswith(f"{prefix}-") and row is not base:
                name = f"{row.name} / 1f1b"
                yield Compared(name, row.family, row.published / base.published, row.ours / base.ours)


def step_time(published: Run) -> float:
    """Return our time of a step in ms."""
    return step_of(estimate_of(published.setup, published.algorithm), published.algorithm)


def step_of(estimate: Estimate, asked: str) -> float:
    """Return the time of a step in ms. Zero Bubble validates the optimizer afterwards: there only the span counts."""
    step = estimate.step
    return step.time + (step.span - step.pipeline if asked.startswith("zb") else 0)


def estimate_of(setup: Setup, asked: str) -> Estimate:
    """Return the estimate of a setup under an algorithm, which may have a limit in units of 1F1B's memory behind it."""
    algorithm, _, limit = asked.partition(" ")
    problem = derive(setup, {})
    return Estimate(run(_limited(setup, problem, int(limit)) if limit else problem, algorithm))


def _limited(setup: Setup, problem: Problem, limit: int) -> Problem:
    """Return the problem with `limit` times the activations that a stage of 1F1B holds for all devices of them."""
    memory = run(problem, "1f1b").problem.memory
    most = limit * problem.devices * max(in_one(memory.activation))
    return derive(setup, {"budget": [Fraction(ceil((static + most) * PER_GB), PER_GB) for static in memory.static]})


def _part(published: Run, part: str) -> float:
    if part == "p2p":
        latency = published.setup.hardware.efficiency.latency
        return float(boundary_time(published.setup, across=False).value) + latency
    times = layer_times(published.setup, experts=False)
    terms = (term for operation in PARTS[part] for term in getattr(times, operation) if term.kind != MESSAGES)
    return published.layers * float(total(terms))


def with_efficiency(published: Run, **shares: float) -> Run:
    """Return a run on its GPU with other shares."""
    hardware = published.setup.hardware
    changed = replace(hardware, efficiency=replace(hardware.efficiency, **shares))
    return published._replace(setup=replace(published.setup, hardware=changed))


def summaries(compared: Iterable[Compared]) -> list[Summary]:
    """Return the summary of each family."""
    families: dict[str, list[float]] = {}
    for row in compared:
        families.setdefault(row.family, []).append(row.error)
    return [summary(family, errors) for family, errors in families.items()]


def summary(family: str, errors: list[float]) -> Summary:
    """Return the summary of some errors."""
    sizes = [abs(error) for error in errors]
    ninetieth = quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0]
    return Summary(family, len(sizes), median(sizes), ninetieth, sum(errors) / len(errors))
