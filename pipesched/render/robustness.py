"""A robustness as a table, and as histograms above it."""

from __future__ import annotations

from math import floor, log10

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from pipesched.analysis.robust.result import Robustness, RobustnessRow
from pipesched.render.grid import FittedTable
from pipesched.render.histogram import Histograms
from pipesched.render.summary import GOOD
from pipesched.render.timescale import number

SHARE, SLOW, MAKESPAN = "best\nshare", "worst\nstraggler", "no\nnoise"
KEPT_LONGEST = ("\nmean", "\np95", SLOW, SHARE, MAKESPAN, "\nstd", "\np99", "\np50")
DIGITS, DIGITS_OF_STD = 4, 2  # of the longest time in the table at least, and of the least standard deviation


def robustness_view(robustness: Robustness, *, ascii_only: bool = False) -> Group:
    """Return the histograms, if there are samples, and the table."""
    table = RobustnessTable(robustness)
    if not any(row.makespans for row in robustness):
        return Group(table)
    unit = f" ({robustness.time_unit})" if robustness.time_unit else ""
    return Group(Histograms(robustness.rows, f"makespan{unit}", ascii_only=ascii_only), "", table)


class RobustnessTable:
    """A row for each schedule that applies, the largest share of shortest samples marked.

    Names are never cut: a narrow table has fewer columns.
    """

    def __init__(self, robustness: Robustness) -> None:
        self.robustness = robustness
        self.rows = [row for row in robustness if row.applicable]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table and the lines below it."""
        if self.rows:
            yield from self._table()
        for row in self.robustness:
            if not row.applicable:
                yield Text(f"{row.algorithm} does not apply: {row.reason}")

    def _table(self) -> RenderResult:
        decimals = _decimals(max(row.p99 for row in self.rows), min(row.std for row in self.rows))
        most = max(row.best_share for row in self.rows)
        styles = [GOOD if len(self.rows) > 1 and row.best_share == most else "" for row in self.rows]
        names = [Text(row.algorithm, style=style) for row, style in zip(self.rows, styles, strict=True)]
        yield FittedTable(names, [_cells(row, decimals) for row in self.rows], KEPT_LONGEST)
        yield Text(_meaning(self.robustness), style="dim")


def _cells(row: RobustnessRow, decimals: int) -> dict[str, str]:
    """Return the cells of a row by the titles of their columns."""

    def time(value: float) -> str:
        return f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"

    worst = row.worst_device
    return {
        MAKESPAN: number(row.makespan),
        "\nmean": time(row.mean),
        "\nstd": time(row.std),
        "\np50": time(row.p50),
        "\np95": time(row.p95),
        "\np99": time(row.p99),
        SHARE: f"{row.best_share:.1%}",
        SLOW: "" if worst is None else f"d{worst} {number(row.worst_makespan)} {row.price:+.1%}",
    }


def _decimals(longest: float, least_std: float) -> int:
    """Return how many decimals times have: enough for the digits of the longest and of the least deviation."""
    wanted = [(longest, DIGITS), (least_std, DIGITS_OF_STD)]
    return min(max([0, *(digits - 1 - floor(log10(value)) for value, digits in wanted if value > 0)]), 9)


def _meaning(robustness: Robustness) -> str:
    """Return what the columns mean, with the settings."""
    devices = f" and {robustness.device_noise:.4g} a device" if robustness.device_noise else ""
    return (
        f"noise {robustness.noise:.4g} an operation{devices}, {robustness.samples:,} samples, seed {robustness.seed};"
        f" best share: of samples in which it is shortest; worst straggler: the device that costs most when it takes"
        f" {number(robustness.straggler)} times as long, the makespan then, and what that is more"
    )
