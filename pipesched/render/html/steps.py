"""The frontier of makespan and memory as a picture: the best value at every budget, as SVG."""

from __future__ import annotations

import html
from fractions import Fraction

from pipesched.pipeline.quantities import to_fraction
from pipesched.render.timescale import number
from pipesched.results.frontier import Frontier
from pipesched.results.status import Status

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 70, 20, 20, 44
COLOUR = "#0072b2"


def steps(frontier: Frontier) -> str:
    """Return the picture: a step for each point, filled where it is proved optimal, with its numbers."""
    budgets = [to_fraction(point.budget) for point in frontier]
    values = [to_fraction(point.value) for point in frontier]

    def place(value: Fraction, among: list[Fraction], start: int, end: int) -> float:
        low, high = min(among), max(among)
        return (start + end) / 2 if low == high else start + (end - start) * float((value - low) / (high - low))

    xs = [place(budget, budgets, LEFT + 20, WIDTH - RIGHT - 60) for budget in budgets]
    ys = [place(value, values, HEIGHT - BOTTOM - 10, TOP + 10) for value in values]
    path = f"M{xs[0]:.1f} {ys[0]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[1:], ys[1:], strict=True))
    parts = [
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="currentColor" opacity=".5"/>',
        f'<path d="{path}H{WIDTH - RIGHT}" fill="none" stroke="{COLOUR}" stroke-width="2"/>',
    ]
    for point, x, y in zip(frontier, xs, ys, strict=True):
        proved = point.status == Status.OPTIMAL
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOUR if proved else "none"}" stroke="{COLOUR}"/>'
            f'<text x="{x + 7:.1f}" y="{y - 5:.1f}">{number(point.value)}</text>'
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{number(point.budget)}</text>'
        )
    memory, time = (f" ({html.escape(unit)})" if unit else "" for unit in (frontier.memory_unit, frontier.time_unit))
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">budget of a device{memory}</text>')
    parts.append(f'<text x="4" y="14">{frontier.objective}{time}; filled: proved optimal</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" fill="currentColor"'
        f' aria-label="{frontier.objective} by budget" style="width:100%;max-width:{WIDTH}px;font:12px sans-serif">'
        f"{''.join(parts)}</svg>"
    )
