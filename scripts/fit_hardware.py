"""Fits the shares of a GPU's numbers that training reaches to published times, and stores them in the presets.

    python scripts/fit_hardware.py           # prints shares and residuals, a few minutes
    python scripts/fit_hardware.py --write   # and writes them into pipesched/estimation/presets/hardware

Robust least squares on the logarithm of times, families of many rows weighing less a row. Each share starts from what
is known beforehand, to a width (a standard deviation of its logarithm), so that few runs do not drive it far: the
network of an H100 from 340 of 450 GB/s in an all-reduce (tests/data/measured_collectives.json). A GPU without data
takes the shares of its nearest relative. So does GB200, whose dense runs want 0.82 of the products' shares and those
with experts 1: fitted without one of these families they miss it by more than those of H100 do.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pipesched.estimation
from fit_precision import low_lines
from least_squares import Vector, minimize
from pipesched.estimation.hardware import LOW_PEAKS, Efficiency
from published_runs import RATIOS, Run, published_runs
from published_times import Compared, compare, summaries, summary, with_efficiency

PRESETS = Path(pipesched.estimation.__file__).parent / "presets" / "hardware"
MARK = "# Shares"
WIDTHS = {
    "gemm_forward": 0.15,
    "gemm_input": 0.15,
    "gemm_weight": 0.15,
    "core": 0.1,
    "unfused": 0.3,
    "memory": 0.1,
    "network": 0.1,
    "kernel": 0.5,
    "latency": 0.5,
    "tensor_exposed": 0.5,
    "data_exposed": 0.5,
}
GEMM = ("gemm_forward", "gemm_input", "gemm_weight")
UNLIMITED = ("kernel", "latency")

A100, H100, MI355X = "a100-80gb-sxm", "h100-sxm", "mi355x"


class Fit(NamedTuple):
    """What is fitted on the runs of a GPU: it starts from shares, or from those fitted on another; some stay.

    `together`: there are no times of F, I and W of their own, so that the shares of products move together.
    """

    start: Efficiency | str
    kept: tuple[str, ...]
    together: bool = True

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The shares that are fitted, those that move together as one."""
        each = [(name,) for name in WIDTHS if name not in self.kept and not (self.together and name in GEMM)]
        return [GEMM, *each] if self.together else [*each]


FITS: Mapping[str, Fit] = {
    A100: Fit(Efficiency(0.7, 0.7, 0.78, 0.5, 0.35, 0.8, 0.7, 10, 0.3, 0.2, 0.5), ("tensor_exposed",), together=False),
    H100: Fit(Efficiency(0.6, 0.63, 0.7, 0.5, 0.35, 0.75, 0.75, 10, 0.1, 0.3, 0.3), ("unfused", "latency")),
    MI355X: Fit(H100, tuple(name for name in WIDTHS if name not in GEMM)),
}
RELATIVES = {
    "a100-40gb-sxm": A100,
    "rtx-4090": A100,
    "l40s": A100,
    "h100-pcie": H100,
    "h200": H100,
    "h800": H100,
    "h20": H100,
    "gb200": H100,
    "b200": H100,
    "b300": H100,
    "gb300": H100,
    "mi250x": MI355X,
    "mi300x": MI355X,
    "mi325x": MI355X,
}


def runs_of(gpu: str) -> list[Run]:
    """Return the runs that a GPU is fitted on: of Zero Bubble's tables those of 1F1B, for the rest are ratios to it."""
    runs = [run for run in published_runs() if run.setup.hardware.name == gpu]
    return [run for run in runs if run.kind != RATIOS or run.name.endswith("-1f1b")]


def fit(runs: Sequence[Run], start: Efficiency, groups: Sequence[Sequence[str]]) -> Efficiency:
    """Return the shares that bring our times nearest to the published ones; those of a group move together."""
    rows = _rows(runs, start)
    families = Counter(row.family for row in rows)
    weights = np.array([families[row.family] ** -0.25 for row in rows])
    width = np.array([WIDTHS[group[0]] for group in groups])

    def shares(logarithms: Vector) -> Efficiency:
        given: dict[str, float] = {}
        for group, factor in zip(groups, np.exp(logarithms), strict=True):
            given |= {name: getattr(start, name) * float(factor) for name in group}
        return replace(start, **{name: v if name in UNLIMITED else min(v, 1.0) for name, v in given.items()})

    def residuals(logarithms: Vector) -> Vector:
        return np.log([row.ours / row.published for row in _rows(runs, shares(logarithms))])

    return rounded(shares(minimize(residuals, np.zeros(len(groups)), width, weights)))


def _rows(runs: Sequence[Run], efficiency: Efficiency) -> list[Compared]:
    return list(compare(with_efficiency(run, **asdict(efficiency)) for run in runs))


def rounded(efficiency: Efficiency) -> Efficiency:
    """Return shares with three digits behind the point, kernels with one."""
    return Efficiency(**{name: round(v, 1 if name == "kernel" else 3) for name, v in asdict(efficiency).items()})


def write(gpu: str, efficiency: Efficiency, on: str, comment: str) -> None:
    """Write shares into a preset, in place of those that it has."""
    path = PRESETS / f"{gpu}.yaml"
    text = path.read_text(encoding="utf-8")
    own = text.partition(MARK)[0].rstrip()
    lines = [f"  {name}: {value:g}" for name, value in asdict(efficiency).items() if name not in LOW_PEAKS]
    shares = "\n".join([*lines, *low_lines(text)])
    path.write_text(f"{own}\n{MARK} {comment}\nfitted_on: {on}\nefficiency:\n{shares}\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit each GPU and print its residuals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the presets")
    parser.add_argument("--gpu", choices=FITS, help="only this one, and those that take its shares")
    given = parser.parse_args(arguments)
    fitted: dict[str, Efficiency] = {}
    for gpu, how in FITS.items():
        start = fitted[how.start] if isinstance(how.start, str) else how.start
        runs = runs_of(gpu)
        fitted[gpu] = fit(runs, start, how.groups)
        comment = _report(gpu, _rows(runs, fitted[gpu]), fitted[gpu], len(how.groups))
        if given.write and given.gpu in (None, gpu):
            write(gpu, fitted[gpu], gpu, comment)
            for relative in (name for name, on in RELATIVES.items() if on == gpu):
                write(relative, fitted[gpu], gpu, f"of its nearest relative with published runs, {gpu}")
        if gpu == given.gpu:
            break
    return 0


def _report(gpu: str, rows: Sequence[Compared], efficiency: Efficiency, numbers: int) -> str:
    """Print the residuals of a GPU, family by family; return them in a sentence."""
    every = summary("all", [row.error for row in rows])
    print(f"{gpu}: {', '.join(f'{name} {value:g}' for name, value in asdict(efficiency).items())}")
    for row in rows:
        print(f"  {row.name:<75} {row.published:>11.2f} {row.ours:>11.2f} {row.error:>+7.1%}")
    for one in (*summaries(rows), every):
        errors = f"median {one.median:.1%}, 90th {one.ninetieth:.1%}, mean {one.mean:+.1%}"
        print(f"  {one.family:<30} {one.rows:>3}  {errors}")
    return (
        f"fitted by scripts/fit_hardware.py: {numbers} numbers on {every.rows} published times, whose median error is"
        f" {every.median:.1%}, the 90th percentile {every.ninetieth:.1%}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
