"""What an explanation costs, beside `run --json` of the same schedule: CPU seconds, and their ratio.

    python scripts/bench_explain.py

Both are whole commands in processes of their own. 131,072 operations should be explained in at most 12 times the time
in which they are scheduled and written.
"""

from __future__ import annotations

import resource
import subprocess
import sys

CASES = {
    "1f1b, 64 stages x 1,024": ["1f1b", "--devices", "64", "--stages", "64", "--microbatches", "1024"],
    "interleaved, 32 stages x 2,048": ["interleaved", "--devices", "16", "--stages", "32", "--microbatches", "2048"],
    "zb-h1, 64 stages x 682, p2p": [
        "zb-h1",
        "--devices",
        "64",
        "--stages",
        "64",
        "--microbatches",
        "682",
        "--p2p",
        "1",
    ],
}
REPEATS = 3
MOST_RATIO = 12


def cpu_seconds(*arguments: str) -> float:
    """Return the least CPU time of a few runs of a command."""
    seconds = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "pipesched", *arguments, "--json"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def main() -> int:
    """Print a line for each case; return 1 if one takes too long."""
    worst = 0.0
    print(f"{'case':<34} {'run --json':>10} {'explain':>8} {'ratio':>6}")
    for name, arguments in CASES.items():
        plain, explained = cpu_seconds("run", *arguments), cpu_seconds("explain", *arguments)
        worst = max(worst, explained / plain)
        print(f"{name:<34} {plain:>9.2f}s {explained:>7.2f}s {explained / plain:>6.1f}")
    return int(worst > MOST_RATIO)


if __name__ == "__main__":
    raise SystemExit(main())
