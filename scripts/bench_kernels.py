"""How much faster kernels make this checkout than the version before them, and whether it finds the same.

    python scripts/bench_kernels.py                  # the quick groups of cases, by turns in both versions
    python scripts/bench_kernels.py replay v         # only these groups
    python scripts/bench_kernels.py tune million10   # the slow ones run when they are named; --list says which

The version before is commit c37b0fd, exported into a temporary folder; this takes the history of git. Each measurement
is a process of its own, with the same Python and dependencies, and PYTHONPATH says which version it loads. The versions
take turns; medians count. Old and new stand side by side, their ratio is old over new, and `same` says whether orders,
figures or the printed text are alike. Group `pure` measures a copy of this checkout without compiled files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from measuring import AS_INSTALLED, machine

HERE = Path(__file__).resolve().parents[1]
BEFORE = "c37b0fd"
COMPILED = {".so", ".pyd", ".dylib", ".dll", ".o", ".obj", ".pyc"}
ROUNDS = 5
SHORT, LONG, LONGER = 1.0, 5.0, 20.0  # seconds of a process: three times the rounds below, three above, one above
UNITS = {"s": "s", "cpu": "s", "wall": "s", "GB": "GB"}


class Goal(NamedTuple):
    """What a number of a case should be: old over new at least a ratio, new at most a number, or both."""

    metric: str
    ratio: float = 0
    most: float = 0

    @property
    def text(self) -> str:
        """The goal in words."""
        parts = [f"{self.ratio:.2g}x"] * bool(self.ratio) + [f"<= {self.most:,g} {self.unit}".rstrip()] * bool(
            self.most
        )
        return ", ".join(parts)

    @property
    def unit(self) -> str:
        """The unit of the number; empty for one without."""
        return UNITS.get(self.metric, "")

    def is_met(self, old: float, new: float) -> bool:
        """Return whether medians meet the goal."""
        return old >= self.ratio * new * (1 - 1e-12) and (not self.most or new <= self.most)


class Case(NamedTuple):
    """What is measured: words for the command line of pipesched, or (`is_inside`) for bench_kernel_cases.py."""

    words: str
    goals: tuple[Goal, ...]
    is_inside: bool = True
    is_pure: bool = False  # the new version runs without compiled files


def command(words: str, *goals: Goal, is_pure: bool = False) -> Case:
    """Return a case of the command line."""
    return Case(words, goals, is_inside=False, is_pure=is_pure)


V = ("zb-v", "v-half", "v-min", "1f1b-v", "hanayo")
MAKESPANS = tuple(Goal(f"makespan {seed}", ratio=1) for seed in range(3))
SOLVES = {"n6": 6950, "n1": 880, "n2": 980, "n4": 4230, "n5": 1720}  # the longest makespan that is good enough
PURE = 1 / 1.3
LLAMA = "tune --model llama-3-70b --hardware h100-sxm --gpus 64 --sequence 8192 --global-batch 128"
GROUPS: dict[str, dict[str, Case]] = {
    "replay": {"replay of 49,152": Case("replay", (Goal("s", 30),))},
    "orders": {"orders of 393,216": Case("orders", (Goal("s", 6),))},
    "v": {f"{name} P64 V2 M128": Case(f"v {name}", (Goal("s", 8),)) for name in V},
    "zbv1024": {"zb-v P64 V2 M1,024": Case("zbv1024", (Goal("s", most=1.5), Goal("growth", most=10)))},
    "compare-all": {
        "compare --all P64 V2 M128": command(
            "compare --all --devices 64 --chunks 2 --microbatches 128 --charts none", Goal("cpu", 8)
        )
    },
    "robust": {"200 samples of 131,072": Case("robust", (Goal("s", 8),))},
    "messages": {"queue rank of 131,072": Case("messages", (Goal("ratio", most=2.5),))},
    "feeding": {"1f1b, order best, P8 M16": Case("feeding", (Goal("s", 1), *MAKESPANS))},
    "pack": {"pack 512 on 8 ranks": Case("pack", (Goal("s", most=0.03), *MAKESPANS))},
    "small": {
        "pipesched --help": command("--help", Goal("wall", 0.95)),
        "pipesched run": command("run", Goal("wall", 0.95)),
    },
    "pure": {
        f"pure: {words}": command(words, Goal("cpu", PURE), is_pure=True)
        for words in (
            "--help",
            "run",
            "run zb-v --devices 16 --chunks 2 --microbatches 64",
            "compare --all --jobs 1",
            "solve --workers 1",
        )
    },
    "solve-n6": {"solve n6": Case("solve n6 60", (Goal("value", most=SOLVES["n6"]),))},
    "solve-n1-n5": {
        f"solve {name}": Case(f"solve {name} 60", (Goal("value", most=value),))
        for name, value in SOLVES.items()
        if name != "n6"
    },
    "solve-families": {"solve families": Case("families 30", (Goal("value"), Goal("over zb-v", most=1)))},
    "tune": {"tune Llama-3-70B, 64 H100": command(LLAMA, Goal("wall", most=35))},
    "million10": {"1f1b of 10 million": Case("million10", (Goal("s", most=9), Goal("GB", most=2.7)))},
}
SECONDS = re.compile(r"\d[\d.]* s\b")  # what a command prints of its own time
SLOW = ("solve-n6", "solve-n1-n5", "solve-families", "tune", "million10")
HEADINGS = ("case", "old", "new", "ratio", "goal", "met", "same")
WIDTHS = (58, 10, 10, 7, 14, 4, 4)


class Failed(Exception):
    """A process that ended with an error."""


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of a process that loads pipesched from a folder."""
    return {**AS_INSTALLED, "PYTHONPATH": str(tree), "NO_COLOR": "1", "COLUMNS": "160", "OPENBLAS_NUM_THREADS": "1"}


def process(words: Iterable[str], tree: Path, folder: Path) -> tuple[dict[str, float], str]:
    """Run Python; return wall seconds, those of the processor with all children, the peak in GB, and the output."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=environment(tree), stdout=output, stderr=errors
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if child.returncode:
            raise Failed(f"exit {child.returncode}: {(errors.read().strip() or 'no message').splitlines()[-1]}")
        numbers = {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "GB": used.ru_maxrss / 1e6}
        return numbers, output.read()


def measured(case: Case, tree: Path, folder: Path) -> dict[str, Any]:
    """Return the numbers of one process, and the digest of what it found."""
    if case.is_inside:
        script = Path(__file__).resolve().with_name("bench_kernel_cases.py")
        numbers, output = process([str(script), *case.words.split()], tree, folder)
        return {**numbers, **json.loads(output)}
    numbers, output = process(["-m", "pipesched", *case.words.split()], tree, folder)
    text = SECONDS.sub("", output)
    return {**numbers, "same": sha256(text.encode()).hexdigest()}


def rounds_of(wall: float, most: int) -> int:
    """Return how often a case is measured whose process takes so long."""
    if wall <= SHORT:
        return 3 * most
    if wall <= LONG:
        return most
    return min(most, 3 if wall <= LONGER else 1)


def both(case: Case, old: Path, new: Path, folder: Path, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the medians of two versions, which take turns."""
    found: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    left = 1
    while left:
        number = len(found[0])
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            found[which].append(measured(case, (old, new)[which], folder))
        left = left - 1 if number else rounds_of(found[0][0]["wall"], rounds) - 1
    first, second = map(medians, found)
    return first, second


def medians(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each number, and any text of the first process."""
    return {
        key: value if isinstance(value, str) else median(one[key] for one in found) for key, value in found[0].items()
    }


def shown(value: float, unit: str) -> str:
    """Return a number with its unit."""
    if unit == "s":
        return f"{1000 * value:.2f} ms" if value < 0.1 else f"{value:.3f} s"
    return f"{value:,.2f} {unit}" if unit else f"{value:,.6g}"


def rows(name: str, case: Case, old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Yield whether each goal of a case is met, and the row of the table."""
    same = "" if "same" not in old else "yes" if old["same"] == new["same"] else "NO"
    for goal in case.goals:
        was, now = old[goal.metric], new[goal.metric]
        met = goal.is_met(was, now)
        label = name if goal is case.goals[0] and goal.unit == "s" else f"{name}: {goal.metric}"
        word = ("yes" if met else "NO") if goal.text else ""
        cells = (shown(was, goal.unit), shown(now, goal.unit), f"{was / now:.2f}" if now else "", goal.text, word)
        yield met and same != "NO", (label, *cells, same if goal is case.goals[0] else "")


def line(cells: Iterable[str]) -> str:
    """Return a line of the table."""
    texts = (
        cell.ljust(width) if not place else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )
    return "  ".join(texts).rstrip()


def exported(commit: str, folder: Path) -> Path:
    """Return a folder with the files of a commit."""
    archive, tree = folder / "before.zip", folder / "before"
    words = ["git", "-C", str(HERE), "archive", "--format=zip", "-o", str(archive), commit]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{commit} cannot be exported, which takes the history of git: {done.stderr.strip()}")
    with zipfile.ZipFile(archive) as content:
        content.extractall(tree)
    archive.unlink()
    return tree


def pure_copy(folder: Path) -> Path:
    """Return a folder with the package of this checkout as it stands now, without compiled files."""
    tree = folder / "pure"
    words = ["git", "-C", str(HERE), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "pipesched"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = HERE / name, tree / name
        if source.suffix not in COMPILED and source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return tree


def require_loaded(tree: Path, folder: Path) -> None:
    """Compile bytecode of a version, and make sure that it is what processes load."""
    process(["-m", "compileall", "-q", str(tree / "pipesched")], tree, folder)
    _, output = process(["-c", "import pipesched; print(pipesched.__file__)"], tree, folder)
    if tree.resolve() not in Path(output.strip()).resolve().parents:
        raise SystemExit(f"PYTHONPATH does not decide which version is loaded: {output.strip()}")


def compiled_files(tree: Path) -> int:
    """Return the number of compiled kernels of a version."""
    return sum(path.suffix in COMPILED - {".pyc"} for path in (tree / "pipesched").rglob("*"))


def table(given: argparse.Namespace, folder: Path) -> Iterator[bool]:
    """Print the table row by row; yield whether each goal is met."""
    old, pure, work = exported(given.before, folder), pure_copy(folder), folder / "work"
    work.mkdir()
    for tree in (old, pure, HERE):
        require_loaded(tree, work)
    kernels = f"{compiled_files(HERE)} compiled files in the new version"
    print(f"{machine()}, {kernels}\n")
    print(line(HEADINGS), flush=True)
    for group in given.groups or [group for group in GROUPS if group not in SLOW]:
        for name, case in GROUPS[group].items():
            try:
                found = both(case, old, pure if case.is_pure else HERE, work, given.rounds)
            except Failed as error:
                print(f"{name}: {error}", flush=True)
                yield False
                continue
            for met, cells in rows(name, case, *found):
                print(line(cells), flush=True)
                yield met


def main() -> int:
    """Print the table; 1 where a goal is missed, or something is not the same."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("groups", nargs="*", help="only these groups of cases; default: all that are quick")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"processes of each version; default {ROUNDS}")
    parser.add_argument("--before", default=BEFORE, help=f"the commit to compare with; default {BEFORE}")
    parser.add_argument("--list", action="store_true", help="print the groups and their cases, and measure nothing")
    given = parser.parse_args()
    unknown = [group for group in given.groups if group not in GROUPS]
    if unknown or given.rounds < 1:
        parser.error(f"no such group: {', '.join(unknown)}" if unknown else "--rounds takes at least 1")
    if given.list:
        for group, cases in GROUPS.items():
            for name, case in cases.items():
                goals = "; ".join(f"{goal.metric} {goal.text}".rstrip() for goal in case.goals)
                print(f"{group:<15} {'slow' if group in SLOW else '    '}  {name}: {goals}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return int(not all([*table(given, Path(folder))]))


if __name__ == "__main__":
    raise SystemExit(main())
