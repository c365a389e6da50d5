"""How well `--time-limit` holds: seconds asked for and used, over sizes, placements and limits.

    python scripts/bench_limits.py                       # P4 to P64, M to 1,024, all placements, 1 and 10 s
    python scripts/bench_limits.py --limits 60 --devices 64 --microbatches 1024
    python scripts/bench_limits.py --stop --limits 0.3 1     # an event ends each solve then, in place of a limit
    python scripts/bench_limits.py --what tune --jobs 2      # of a space of 400,000 points; or frontier

Each case runs in a process of its own: `solve` as a function, and with --command the whole command, from its start to
its last line. CPU is the time of the processor with all threads; on a machine that others use, a used time above it
says nothing. 1 if a limit was missed by more than 5 % and more than 0.3 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from measuring import machine

CHUNKS = {"linear": 1, "loop": 2, "v": 2, "wave": 4, "bidirectional": 1, "auto": 2}  # stages a device
LATE, LATE_PART = 0.3, 0.05  # seconds, and the part of the limit, by which a limit may be missed
SPACE = {
    "model": "llama-3-70b",
    "hardware": "h100-sxm",
    "parallel": {"gpus": 64},
    "batch": {"sequence": 8192, "global": 128, "micro": "auto"},
    "training": {"recompute": "auto"},
}
CHILD = """
import json, sys, time
from threading import Event, Timer
from pipesched import NoSchedule, frontier, make_problem, solve, tune
what, values, settings, cpu, stopped_after = json.loads(sys.argv[1])
stop = Event()
if cpu:
    import pipesched.core.clock
    now = pipesched.core.clock.monotonic = time.process_time
else:
    now = time.monotonic
problem = make_problem(**values) if what != "tune" else None
begin = now()
if stopped_after:
    Timer(stopped_after, stop.set).start()
told = {"gap": 0.0, "stopped_by": "-"}
try:
    if what == "tune":
        tune(None, stop=stop, **values, **settings)
    elif what == "frontier":
        frontier(problem, stop=stop, **settings)
    else:
        report = solve(problem, stop=stop, **settings).report
        told = {"gap": report.gap, "stopped_by": str(report.stopped_by)}
except NoSchedule:  # stopped before there was any
    pass
print(json.dumps({"used": now() - begin, **told}))
"""
NEVER = 100_000  # seconds: the limit of what an event ends

COMMAND_BY_CPU = """
import time
import pipesched.cli.progress, pipesched.core.clock
pipesched.cli.progress.monotonic = pipesched.core.clock.monotonic = time.process_time
from pipesched.__main__ import main
main()
"""


class Row(NamedTuple):
    """A case and a limit, with the seconds and the processor's seconds that it used, and what ended it."""

    case: str
    operations: int
    asked: float
    used: float
    cpu: float
    gap: float
    stopped_by: str

    @property
    def is_late(self) -> bool:
        """Whether the limit did not hold."""
        return self.used > self.asked + max(LATE, LATE_PART * self.asked)

    def cells(self) -> list[str]:
        """Return the texts of the row."""
        late = "" if not self.is_late else "late"
        numbers = [f"{self.operations:,}", f"{self.asked:g}", f"{self.used:.2f}", f"{self.cpu:.2f}"]
        return [self.case, *numbers, f"{self.gap:.1%}", self.stopped_by, late]


def cases(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the arguments of each problem, or of the space."""
    if options.what == "tune":
        yield "tune", SPACE
        return
    for placement in options.placements:
        for devices in options.devices:
            for microbatches in options.microbatches:
                values = {
                    "devices": devices,
                    "stages": devices * CHUNKS[placement],
                    "microbatches": microbatches,
                    "forward": 1,
                    "backward": 2,
                    "p2p": 0.2,
                    "budget": 0.75 * devices * CHUNKS[placement],
                    "activation": 1,
                }
                if placement != "auto":
                    values["placement"] = placement
                yield f"{placement} P{devices} M{microbatches}", values


def as_options(values: dict[str, Any]) -> list[str]:
    """Return the arguments of a problem as those of the command."""
    names = {"budget": "mem-budget"}
    return [text for key, value in values.items() for text in (f"--{names.get(key, key)}", str(value))]


def run(command: list[str], environment: dict[str, str]) -> tuple[str, float, float]:
    """Run a process; return its output, its seconds and the seconds of the processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(name: str, values: dict[str, Any], limit: float, options: argparse.Namespace) -> Row:
    """Return the row of a case and a limit."""
    operations = 2 * values["stages"] * values["microbatches"] if options.what != "tune" else 0
    environment = {**os.environ, "NO_COLOR": "1"}
    if options.command:
        words = ["solve", *as_options(values), "--time-limit", str(limit), "--quiet", "--method", options.method]
        form = ["--json"] if options.json else []
        jobs = ["--jobs", str(options.jobs)] if options.jobs != 1 else []
        start = ["-c", COMMAND_BY_CPU] if options.cpu else ["-m", "pipesched"]
        more = ["--workers", "1"] if options.cpu else []
        output, used, cpu = run([sys.executable, *start, *words, *form, *jobs, *more], environment)
        used = cpu if options.cpu else used
        solver: dict[str, Any] = {"gap": 0.0, "stopped_by": "-"}
        if options.json:
            solver = json.loads(output)["solver"]
        return Row(name, operations, limit, used, cpu, solver["gap"], solver["stopped_by"])
    settings = {"time_limit": NEVER if options.stop else limit, "jobs": options.jobs}
    if options.what == "solve":
        settings |= {"method": options.method, "recompute": options.recompute}
    if options.cpu:
        settings["workers"] = 1
    given = json.dumps([options.what, values, settings, options.cpu, limit if options.stop else 0])
    output, _, cpu = run([sys.executable, "-c", CHILD, given], environment)
    told = json.loads(output)
    return Row(name, operations, limit, told["used"], cpu, told["gap"], told["stopped_by"])


def main() -> int:
    """Print the table; 1 where a limit did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--microbatches", type=int, nargs="+", default=[8, 64, 200, 1024])
    parser.add_argument("--placements", nargs="+", default=[*CHUNKS], choices=[*CHUNKS])
    parser.add_argument("--limits", type=float, nargs="+", default=[1, 10])
    parser.add_argument("--what", default="solve", choices=["solve", "frontier", "tune"], help="the function")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--recompute", action="store_true", help="a solve may recompute")
    parser.add_argument("--stop", action="store_true", help="an event ends it after the limit's seconds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--cpu", action="store_true", help="seconds of the processor, with one worker, for a machine that others use"
    )
    parser.add_argument("--command", action="store_true", help="the whole command, not the function alone")
    parser.add_argument("--json", action="store_true", help="with --command: its document, not its text")
    parser.add_argument("--markdown", action="store_true", help="a table for the documentation")
    options = parser.parse_args()
    if options.command and (options.what != "solve" or options.stop or options.recompute):
        parser.error("--command is for a plain solve")
    if options.cpu and (options.what == "tune" or options.stop):
        parser.error("--cpu is for limits of solve and frontier")
    print(f"{machine()}\n")
    heads = ["case", "operations", "asked", "used", "CPU", "gap", "stopped by", ""]
    if options.markdown:
        print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    rows = []
    for name, values in cases(options):
        for limit in options.limits:
            rows.append(row := measured(name, values, limit, options))
            cells = row.cells() if rows else heads
            text = f"| {' | '.join(cells)} |" if options.markdown else "  ".join(f"{cell:>12}" for cell in cells)
            print(text, flush=True)
    late = [row for row in rows if row.is_late]
    worst = max(rows, key=lambda row: row.used / row.asked)
    most = f"most used {worst.used / worst.asked:.1%} of what was asked: {worst.case}"
    print(f"\n{len(rows)} solves, {len(late)} late; {most}")
    return int(bool(late))


if __name__ == "__main__":
    raise SystemExit(main())
