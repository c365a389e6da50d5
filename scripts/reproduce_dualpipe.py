"""DualPipe's published figures beside ours.

    python scripts/reproduce_dualpipe.py [--fast]       # exit code 1 when a figure differs

Bubbles and memory are the formulas of the table in the README of DeepSeek's DualPipe, at F = B/2 = W as it draws
them: P devices, F a forward, B a full backward, W its weight half, F&B an overlapped pair. Makespans are those of two
independent simulators at unit costs (f = b = w = 1, a pair takes 3) a stage, so that interleaved 1F1B and DualPipe-V,
with two stages a device, have twice the work. `--fast` leaves out the larger sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched import Schedule, make_problem, run
from published import Figure, reproduce

MOST_FAST = 8  # devices
MAKESPANS = {  # (P, M): 1f1b, zb-1p, dualpipe, interleaved with two stages a device, dualpipe-v
    (4, 8): (33, 27, 26, 57, 54),
    (8, 16): (69, 55, 54, 117, 110),
    (8, 32): (117, 103, 102, 213, 206),
    (16, 64): (237, 207, 206, 429, 414),
}
ONE_STAGE = ("1f1b", "zb-1p", "dualpipe")
TWO_STAGES = ("interleaved", "dualpipe-v")
PAIRS = (3, 2.5, 2)  # what F&B takes where F + B = 3


def unit(algorithm: str, devices: int, microbatches: int, *, stages: int = 1, pair: float = 3) -> Schedule:
    """Return a schedule with `stages` stages a device, each of f = b = w = 1 and one unit of activation."""
    problem = make_problem(
        devices=devices,
        stages=stages * devices,
        microbatches=microbatches,
        backward_input=1,
        backward_weight=1,
        overlap=pair,
        activation=1,
    )
    return run(problem, algorithm).schedule


def makespans(devices: int, microbatches: int) -> Iterator[Figure]:
    """Yield the makespans of five families."""
    named = [*((name, 1) for name in ONE_STAGE), *((name, 2) for name in TWO_STAGES)]
    for (name, stages), published in zip(named, MAKESPANS[devices, microbatches], strict=True):
        schedule = unit(name, devices, microbatches, stages=stages)
        yield Figure(f"{name} P{devices} M{microbatches}: makespan", published, schedule.makespan)


def bubbles(devices: int, microbatches: int) -> Iterator[Figure]:
    """Yield the idle time of the devices in the middle.

    1F1B (P-1)(F+B), ZB1P (P-1)(F+B-2W), DualPipe (P/2-1)(F&B+B-3W).
    """
    size = f"P{devices} M{microbatches}"
    for name, each in (("1f1b", 1 + 2), ("zb-1p", 1 + 2 - 2)):
        schedule = unit(name, devices, microbatches)
        yield Figure(f"{name} {size}: bubble", (devices - 1) * each, max(schedule.idle))
    for pair in PAIRS:
        schedule = unit("dualpipe", devices, microbatches, pair=pair)
        idle = max(schedule.idle)
        yield Figure(f"dualpipe {size}, F&B {pair}: bubble", (devices / 2 - 1) * (pair + 2 - 3), idle)


def memories(devices: int, microbatches: int) -> Iterator[Figure]:
    """Yield the activations that a device holds at most: 1F1B and ZB1P P, DualPipe P+1."""
    for name, published in (("1f1b", devices), ("zb-1p", devices), ("dualpipe", devices + 1)):
        schedule = unit(name, devices, microbatches)
        yield Figure(f"{name} P{devices} M{microbatches}: activations", published, max(schedule.peak_memory))


def figures(fast: bool) -> Iterator[Figure]:
    """Every figure."""
    sizes = [size for size in MAKESPANS if not fast or size[0] <= MOST_FAST]
    for table in (makespans, bubbles, memories):
        for devices, microbatches in sizes:
            yield from table(devices, microbatches)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a figure differs."""
    return reproduce(__doc__, figures, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
