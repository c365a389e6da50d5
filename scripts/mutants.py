"""Check that the tests notice when a heuristic or a bound gets worse: apply mutations, one at a time, to a copy.

    python scripts/mutants.py                       # all
    python scripts/mutants.py --sample 8            # so many, evenly spread over the list
    python scripts/mutants.py "equal shares" --jobs 1
    python scripts/mutants.py --list

A mutation is killed when one of the test files that cover it fails, or takes too long. Exit code 1 when one survives, 2
when the text of one does not occur exactly once in its file, or the tests fail without any.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]
COPIED = ("pipesched", "tests", "scripts", "configs", "pyproject.toml")
TIMEOUT = 240  # seconds of the processor for the tests of one mutation: those without one take up to 120
PATIENCE = 1200  # seconds on the clock: a process that waits for ever uses no processor
PLUGIN = """\
from pathlib import Path
from hypothesis import Phase, settings
import pipesched
assert Path(pipesched.__file__).parents[1] == Path(__file__).parent, pipesched.__file__
settings.register_profile("mutants", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
"""  # a failure is enough: no smaller example is sought


class Verdict(NamedTuple):
    """What became of a mutation, and the seconds that it took."""

    word: str  # killed, killed by timeout, SURVIVED
    seconds: float


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """Make copies of what the tests need, each with a plugin of pytest that refuses any other pipesched."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        queue: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(folder).resolve() / str(number)
            copy.mkdir()
            for name in COPIED:
                source = ROOT / name
                if source.is_dir():
                    shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, copy / name)
            (copy / "of_the_copy.py").write_text(PLUGIN)
            queue.put(copy)
        yield queue


def tested(copy: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """Run test files of a copy; return pytest's exit code (None: it took too long), and its output."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "mutants",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-p", "of_the_copy", "-p", "no:cacheprovider", *tests]
    try:
        run = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (TIMEOUT, TIMEOUT + 5)),
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return None if run.returncode == -signal.SIGXCPU else run.returncode, run.stdout + run.stderr


def unmutated(queue: SimpleQueue[Path], test: str) -> str:
    """Return the output of a test file that fails without a mutation, else an empty text."""
    copy = queue.get()
    try:
        code, output = tested(copy, [test])
        return "" if code == 0 else f"{test} fails without a mutation:\n{output}"
    finally:
        queue.put(copy)


def mutated(queue: SimpleQueue[Path], mutation: Mutation) -> Verdict:
    """Apply a mutation to a copy, run its tests there, and take it back."""
    copy, begin = queue.get(), monotonic()
    path = copy / mutation.path
    text = path.read_text()
    try:
        path.write_text(mutation.applied(text))
        code, _ = tested(copy, mutation.test_paths)
    finally:
        path.write_text(text)
        queue.put(copy)
    words = {None: "killed by timeout", 0: "SURVIVED"}
    return Verdict(words.get(code, "killed"), monotonic() - begin)


def survivors(mutations: Sequence[Mutation], jobs: int) -> int:
    """Print a line for each mutation, and return how many survive. Exits with 2 if the tests fail without any."""
    tests = sorted({path for mutation in mutations for path in mutation.test_paths})
    width = max(len(mutation.name) for mutation in mutations)
    survived = 0
    with copies(jobs) as queue, ThreadPoolExecutor(jobs) as pool:
        failures = [output for output in pool.map(lambda test: unmutated(queue, test), tests) if output]
        if failures:
            fail("\n".join(failures))
        waiting = {pool.submit(mutated, queue, mutation): mutation for mutation in mutations}
        for done in as_completed(waiting):
            verdict = done.result()
            survived += verdict.word == "SURVIVED"
            print(f"{waiting[done].name:{width}}  {verdict.word} in {verdict.seconds:.1f} s", flush=True)
    return survived


def fail(message: str) -> None:
    """Print a message, and exit with 2."""
    print(message, file=sys.stderr)
    raise SystemExit(2)


def chosen(names: Sequence[str], sample: int | None) -> list[Mutation]:
    """Return the mutations of these names, or so many of all, evenly spread."""
    if names:
        return [mutation for mutation in MUTATIONS if mutation.name in names]
    count = len(MUTATIONS) if sample is None else min(sample, len(MUTATIONS))
    return [MUTATIONS[number * len(MUTATIONS) // count] for number in range(count)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Apply the chosen mutations, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = [mutation.name for mutation in MUTATIONS]
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutations (default: all)")
    parser.add_argument("--sample", type=int, metavar="N", help="apply N mutations, evenly spread over the list")
    parser.add_argument("--list", action="store_true", help="print the names, and apply nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutations at a time (default: cores)")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no mutation is called {unknown[0]!r}; --list prints their names")
    mutations = chosen(given.names, given.sample)
    if given.list:
        print("\n".join(mutation.name for mutation in mutations))
        return 0
    begin = monotonic()
    try:
        for mutation in mutations:
            mutation.applied((ROOT / mutation.path).read_text())
    except ValueError as error:
        fail(str(error))
    survived = survivors(mutations, max(given.jobs, 1))
    seconds = monotonic() - begin
    print(f"{len(mutations) - survived} of {len(mutations)} mutations killed in {seconds:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    raise SystemExit(main())
