"""Harder cases with several chunks a device, latency and tight budgets: what `solve` finds and proves in a minute.

Each case runs in a process of its own, by default on all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from measuring import machine

ROOT = Path(__file__).resolve().parents[1]
CASES: dict[str, dict[str, Any]] = {
    "n1": {"devices": 16, "stages": 32, "microbatches": 128, "forward": 1, "backward": 2, "p2p": 0.2, "budget": 12},
    "n2": {"devices": 16, "stages": 32, "microbatches": 128, "forward": 1, "backward": 2, "p2p": 0.2, "budget": 10},
    "n3": {"devices": 8, "stages": 16, "microbatches": 24, "forward": [3, *[2] * 14, 4], "backward": 5, "p2p": 0.3,
           "budget": 5},
    "n4": {"devices": 8, "stages": 16, "microbatches": 128, "forward": 5, "backward": 10, "p2p": 1, "budget": 6},
    "n5": {"devices": 32, "stages": 64, "microbatches": 256, "forward": 1, "backward": 2, "p2p": 0.1, "budget": 24},
    "n6": {"devices": 64, "stages": 128, "microbatches": 1024, "forward": 1, "backward": 2, "p2p": 0.2, "budget": 48},
    "n7": {"devices": 4, "stages": 12, "microbatches": 12, "forward": 4, "backward": 9, "placement": "loop",
           "budget": 8, "activation": 1},
}  # fmt: skip

CHILD = """
import json, resource, sys, time
from decimal import Decimal
from pipesched import make_problem, solve
values, settings = json.loads(sys.argv[1], parse_float=Decimal)
if settings.pop("cpu"):
    import pipesched.core.clock
    pipesched.core.clock.monotonic = time.process_time
settings = {name: float(value) if isinstance(value, Decimal) else value for name, value in settings.items()}
begin = time.monotonic()
report = (outcome := solve(make_problem(**values), **settings)).report
seconds = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "value": report.value, "bound": report.bound.value, "gap": report.gap, "source": report.source,
    "status": str(report.status), "seconds": seconds, "cpu": used.ru_utime + used.ru_stime,
    "mib": used.ru_maxrss / 1024, "placement": outcome.schedule.problem.settled_placement.devices[:12],
    "reason": report.bound.reason,
}))
"""


class Answer(NamedTuple):
    """What a solve of a case reports."""

    value: float
    bound: float
    gap: float
    source: str
    status: str
    seconds: float
    cpu: float
    mib: float
    placement: list[int]
    reason: str


def answer(name: str, settings: dict[str, Any]) -> Answer:
    """Solve a case in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    given = json.dumps([CASES[name], settings])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, given], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return Answer(**json.loads(done.stdout))


def line(name: str, found: Answer) -> str:
    """Return a line of the table."""
    return (
        f"| {name} | {found.value:g} | {found.bound:g} | {found.gap:.1%} | {found.status} | {found.seconds:.1f} s "
        f"| {found.cpu:.0f} s | {found.mib:.0f} MiB | {found.source} |"
    )


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these cases", choices=[*CASES, []])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method", default="auto")
    parser.add_argument(
        "--cpu", action="store_true", help="seconds of the processor, for a machine that others use; with --workers 1"
    )
    options = parser.parse_args()
    settings = {"time_limit": options.seconds, "workers": options.workers, "method": options.method, "cpu": options.cpu}
    print(f"{machine()}\n")
    print("| case | found | bound | gap | status | time | CPU | memory | by |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    gaps = 0.0
    for name in options.names or CASES:
        found = answer(name, settings)
        gaps += found.gap
        print(line(name, found), flush=True)
    print(f"\nsum of the gaps: {gaps:.1%}")


if __name__ == "__main__":
    main()
