"""The core's CP-SAT on PSPLIB (Kolisch and Sprecher 1996): seconds to prove the known optimum of each instance.

    python scripts/bench_rcpsp.py [FOLDER]    # .sm files and optimum.csv (instance,optimum); default: tests/data/psplib

Jobs of these projects use several resources at once, several units of each: the rules `after` and `at_most` of the same
model that schedules pipelines and hardware.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from typing import NamedTuple

from pipesched.core.cpsat import Limits, SearchAnswer, TaskModel
from pipesched.core.tasks import NOWHERE, TaskGraph, arrow
from pipesched.core.timing import heads, tails

PSPLIB = Path(__file__).parents[1] / "tests" / "data" / "psplib"


class Project(NamedTuple):
    """Jobs 0..n-1 with durations, precedences, and what each asks of each resource."""

    durations: list[int]
    precedences: list[tuple[int, int]]
    requests: list[list[int]]
    capacities: list[int]


def read_project(path: Path) -> Project:
    """Return a single-mode instance in PSPLIB's format: sections with a title, numbers in rows."""
    sections: dict[str, list[list[int]]] = {}
    title = ""
    for line in path.read_text().splitlines():
        words = line.split()
        if words and all(word.isdigit() for word in words):
            sections[title].append([int(word) for word in words])
        elif line.startswith(("PRECEDENCE", "REQUESTS", "RESOURCEAVAIL")):
            title = words[0]
            sections[title] = []
        elif line.startswith("*"):
            title = ""
            sections[title] = []
    jobs = sections["REQUESTS/DURATIONS:"]
    return Project(
        durations=[job[2] for job in jobs],
        precedences=[(row[0] - 1, after - 1) for row in sections["PRECEDENCE"] for after in row[3:]],
        requests=[job[3:] for job in jobs],
        capacities=sections["RESOURCEAVAILABILITIES:"][0],
    )


def solve_project(project: Project, limits: Limits) -> SearchAnswer:
    """Return the shortest project that CP-SAT finds in time."""
    count = len(project.durations)
    graph = TaskGraph(project.durations, [NOWHERE] * count, [], [arrow(*pair) for pair in project.precedences])
    before, after = heads(graph), tails(graph)
    horizon = sum(project.durations)
    model = TaskModel()
    for head, duration, tail in zip(before, project.durations, after, strict=True):
        model.task(duration, head, horizon - tail - duration)
    for pair in project.precedences:
        model.after(*pair)
    for resource, capacity in enumerate(project.capacities):
        users = [job for job in range(count) if project.requests[job][resource] and project.durations[job]]
        model.at_most(capacity, users, [project.requests[job][resource] for job in users])
    model.shortest(after, max(map(sum, zip(before, project.durations, after, strict=True))), horizon)
    return model.solve(limits)


def read_optima(folder: Path) -> dict[str, int]:
    """Return the known optimum of each instance."""
    with (folder / "optimum.csv").open(newline="") as file:
        return {row["instance"]: int(row["optimum"]) for row in csv.DictReader(file)}


def main() -> int:
    """Print the table; 1 when an instance was not solved to its known optimum."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else PSPLIB
    missed = 0
    for name, optimum in read_optima(folder).items():
        begin = time.perf_counter()
        answer = solve_project(read_project(folder / f"{name}.sm"), Limits(seconds=60))
        is_right = answer.status == "optimal" and answer.objective == optimum
        missed += not is_right
        seconds = time.perf_counter() - begin
        print(f"{name:>9}: {answer.objective} {answer.status}, known {optimum}, {seconds:.2f} s")
    print("all to their known optima" if not missed else f"{missed} missed")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
