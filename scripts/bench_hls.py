"""The shortest hardware schedules: latency, bound and seconds for the classics, and for a folder of graphs in JSON.

    python scripts/bench_hls.py [FOLDER]
    python scripts/bench_hls.py --every-set FOLDER

Each row is solved in this process, OR-Tools loaded before the clock starts; at most 10 seconds each. Exit code 1 when a
classic is not proved, or a graph of up to 140 operations. With --every-set each graph of up to 140
operations is solved on 96 sets of units, and only what takes a second or is not proved is printed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from pipesched.config.hls import HlsTask, load_hls
from pipesched.core.cpsat import TaskModel
from pipesched.core.listsched import PRIORITIES
from pipesched.hls.modulo import pipeline
from pipesched.hls.outcome import list_outcome, solve

Setting = tuple[int, int, int, str]  # adders, multipliers, cycles of a multiplication, what is pipelined
CLASSICS = Path(__file__).parent.parent / "configs" / "hls"
LATENCIES = {
    "hal": ((1, 1, 1, ""), (1, 2, 1, ""), (2, 2, 1, ""), (1, 1, 2, ""), (1, 2, 2, ""), (1, 3, 2, ""), (1, 1, 2, "mul")),
    "ewf": ((1, 1, 1, ""), (2, 1, 1, ""), (1, 1, 2, ""), (2, 2, 2, ""), (4, 3, 2, ""), (2, 1, 2, "mul")),
    "arf": ((1, 1, 2, ""), (2, 2, 2, ""), (2, 2, 2, "mul"), (5, 3, 2, "")),
    "dct8": ((1, 1, 2, ""), (2, 2, 2, ""), (3, 2, 2, "mul"), (5, 3, 2, "")),
    "fir17-direct": ((1, 1, 2, ""), (2, 2, 2, "")),
}
INTERVALS = {
    "hal-loop": ((2, 2, 1, ""), (3, 3, 2, "")),
    "fir-loop": ((3, 3, 1, ""),),
    "ewf-loop": ((3, 2, 2, ""), (2, 2, 2, ""), (2, 1, 2, "mul")),
}
SETTINGS = ((2, 1, 2, ""), (3, 2, 2, ""), (4, 2, 2, ""), (3, 2, 2, "mul"), (5, 3, 2, ""))  # for the folder
MULTIPLIERS = ((1, ""), (2, ""), (2, "mul"), (3, ""))
EVERY_SET = [(add, mul, *kind) for add, mul, kind in product(range(1, 7), range(1, 5), MULTIPLIERS)]
SECONDS = 10
LARGEST = 140  # operations of a graph that must be proved


def hardware_of(path: Path, setting: Setting, *, loop: bool = False) -> HlsTask:
    """Return the graph of a file with a set of units."""
    add, mul, cycles, pipelined = setting
    units, latency = {"add": add, "mul": mul}, {"mul": cycles}
    return load_hls(str(path), units=units, latency=latency, pipelined=[pipelined] if pipelined else [], loop=loop)


def row(path: Path, setting: Setting, *, loop: bool = False, least: float = 0) -> bool:
    """Solve, print a row if it takes `least` seconds or is not proved; whether it was, or need not be."""
    add, mul, cycles, pipelined = setting
    hardware = hardware_of(path, setting, loop=loop)
    begin = time.perf_counter()
    found = (pipeline if loop else solve)(*hardware, time_limit=SECONDS)
    seconds = time.perf_counter() - begin
    name = f"{path.stem.removeprefix('express_')} ({len(hardware.graph)})"
    what = f"{add}+ {mul}*{'p' if pipelined else ''} mul {cycles}"
    is_proved = found.status == "optimal"
    if seconds >= least or not is_proved:
        print(f"| {name} | {what} | {found.objective} | {found.bound} | {found.proof} | {seconds:.2f} |")
    return is_proved or len(hardware.graph) > LARGEST


def mean_gap(priority: str, tie: str) -> float:
    """Return the mean of (latency - optimum) / optimum over the classics and 20 seeds."""
    gaps = []
    for name, settings in LATENCIES.items():
        for setting in settings:
            hardware = hardware_of(CLASSICS / f"{name}.txt", setting)
            optimum = solve(*hardware, time_limit=SECONDS).objective
            for seed in range(20):
                latency = list_outcome(*hardware, priority=priority, tie=tie, seed=seed).objective
                gaps.append((latency - optimum) / optimum)
    return sum(gaps) / len(gaps)


def every_set(folder: Path) -> list[bool]:
    """Print a row for each graph of up to LARGEST operations and each of EVERY_SET."""
    paths = [path for path in sorted(folder.glob("*.json")) if len(json.loads(path.read_text())["ops"]) <= LARGEST]
    return [row(path, one, least=1) for path in paths for one in EVERY_SET]


def table(folders: Sequence[str]) -> list[bool]:
    """Print a row for each classic, and for each graph of the folders."""
    proved = [row(CLASSICS / f"{name}.txt", one) for name, rows in LATENCIES.items() for one in rows]
    proved += [row(CLASSICS / f"{name}.txt", one, loop=True) for name, rows in INTERVALS.items() for one in rows]
    for folder in folders:
        proved += [row(path, one) for path in sorted(Path(folder).glob("*.json")) for one in SETTINGS]
    for priority in PRIORITIES:
        print(f"mean gap of list schedules, {priority}, ties by lot: {mean_gap(priority, 'random'):.1%}")
    return proved


def main() -> int:
    """Print the table."""
    TaskModel()  # loads OR-Tools
    print("| graph (operations) | units | cycles | bound | proof | seconds |\n| --- | --- | --- | --- | --- | --- |")
    proved = every_set(Path(sys.argv[2])) if sys.argv[1:2] == ["--every-set"] else table(sys.argv[1:])
    print(f"{proved.count(True)} of {len(proved)} proved, or too large to ask for it")
    return int(not all(proved))


if __name__ == "__main__":
    raise SystemExit(main())
