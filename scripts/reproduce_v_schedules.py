"""The published figures of the V schedules beside ours.

    python scripts/reproduce_v_schedules.py [--fast]    # exit code 1 when a figure of ours is worse

Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241) and Pipeline Parallelism with Controllable Memory
(Qi et al. 2024, arXiv 2405.15362): makespan, span and peak memory at f = b = w = 1 a chunk, as two independent programs
compute them from the published blocks, and the bubble of span, 1 - ideal / span, with profiled times of a chunk in
microseconds. Ours may be better, since we choose among many orders; the peaks must be equal. `--fast`: P = 4 only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched import Schedule, make_problem, run
from published import FOUR_DIGITS, Figure, reproduce

MOST_FAST = 4  # devices
UNIT = {  # (P, M): makespan, span and peak in chunks
    (4, 8): {"zb-v": (51, 48, 8), "v-half": (53, 53, 6), "v-min": (59, 59, 4), "1f1b-v": (63, None, 6)},
    (8, 24): {"zb-v": (151, 144, 16), "v-half": (161, 161, 10), "v-min": (171, 171, 8), "1f1b-v": (177, None, 12)},
    (16, 48): {"zb-v": (303, 288, 32), "v-half": (329, 329, 18), "v-min": (347, 347, 12), "1f1b-v": (363, None, 22)},
}
PROFILED = {  # (P, M), (f, b, w, p2p): bubble of span
    ((8, 24), (4959, 5217, 3519, 213)): {"zb-v": 0.0447, "v-half": 0.1456, "v-min": 0.2822},
    ((16, 48), (14407, 14380, 9676, 1610)): {"zb-v": 0.0697},
}


def scheduled(name: str, size: tuple[int, int], times: tuple[int, int, int, int]) -> Schedule:
    """Return the schedule of P devices and M microbatches with f, b, w a chunk and p2p a hop."""
    (devices, microbatches), (forward, backward_input, backward_weight, p2p) = size, times
    problem = make_problem(
        devices=devices,
        stages=2 * devices,
        microbatches=microbatches,
        forward=forward,
        backward_input=backward_input,
        backward_weight=backward_weight,
        p2p=p2p,
        activation=1,
    )
    return run(problem, name).schedule


def figures(fast: bool) -> Iterator[Figure]:
    """Every figure."""
    for size, rows in UNIT.items():
        if not fast or size[0] <= MOST_FAST:
            yield from _at_unit_costs(size, rows)
    for (size, times), bubbles in PROFILED.items():
        for name, published in bubbles.items() if not fast else ():
            what = f"{_title(name, size)}, profiled: bubble of span"
            yield Figure(what, published, scheduled(name, size, times).bubble_span, FOUR_DIGITS, or_better=True)


def _at_unit_costs(size: tuple[int, int], rows: dict[str, tuple[int, int | None, int]]) -> Iterator[Figure]:
    for name, (makespan, span, peak) in rows.items():
        schedule = scheduled(name, size, (1, 1, 1, 0))
        yield Figure(f"{_title(name, size)}: makespan", makespan, schedule.makespan, or_better=True)
        if span is not None:
            yield Figure(f"{_title(name, size)}: span", span, schedule.span, or_better=True)
        yield Figure(f"{_title(name, size)}: peak", peak, max(schedule.peak_memory))


def _title(name: str, size: tuple[int, int]) -> str:
    return f"{name} P{size[0]} M{size[1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a figure of ours is worse."""
    return reproduce(__doc__, figures, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
