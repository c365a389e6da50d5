"""The best layouts of large models beside those that are published or commonly used, all estimated the same way.

    python scripts/validate_tune.py            # searches of some minutes
    python scripts/validate_tune.py --write    # also bring docs/results/tune.md up to date

Each space has every size, micro and recompute on auto, and every algorithm that needs no options; `solve` is left out,
so that only the seconds differ from run to run. Exit code 1 where a layout that fits is faster than the best of its
space: a search that is exact cannot miss it.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pipesched
from pipesched.estimation.items import GB
from pipesched.estimation.result import Estimate
from pipesched.tuning.result import Tuning

PAGE = Path(__file__).parent.parent / "docs" / "results" / "tune.md"
BLOCK = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)
BRIDGE = "Megatron-Bridge's recipe"  # NVIDIA-NeMo/Megatron-Bridge, performance recipes of Llama 3 70B on 64 H100
USUAL = "commonly used"
MEASURED = (1, 2)  # ranks of context parallelism that published runs with short sequences have


class Known(NamedTuple):
    """A layout that somebody uses, and where that stands. `algorithm` None: 1f1b, or interleaved for several chunks."""

    parallel: Mapping[str, int]
    source: str
    recompute: str = "none"
    algorithm: str | None = None

    def __str__(self) -> str:
        ways = [f"{way} {size}" for way, size in self.parallel.items()]
        return ", ".join([*ways, *[f"recompute {self.recompute}"] * (self.recompute != "none")])


@dataclass(frozen=True)
class Case:
    """A model on GPUs, and what others run it with."""

    title: str
    model: str
    gpus: int
    batch: int
    known: Sequence[Known]
    hardware: str = "h100-sxm"
    tokens: int = 8192

    def tuned(self, context: Sequence[int] | str = "auto") -> Tuning:
        """Return the best of all points with such sizes of context parallelism, by a process on each core."""
        return pipesched.tune(
            None,
            [one.name for one in pipesched.algorithms() if not one.required],
            executor="local",
            model=self.model,
            hardware=self.hardware,
            parallel={"gpus": self.gpus, "context": context},
            batch={"sequence": self.tokens, "global": self.batch, "micro": "auto"},
            training={"recompute": "auto"},
            beyond=True,
        )

    def estimated(self, known: Known) -> Estimate:
        """Return the estimate of a layout."""
        return pipesched.estimate(
            None,
            known.algorithm,
            model=self.model,
            hardware=self.hardware,
            parallel={"gpus": self.gpus, **known.parallel},
            batch={"sequence": self.tokens, "global": self.batch, "micro": 1},
            training={"recompute": known.recompute},
        )


CASES = (
    Case(
        "Llama-3-70B on 64 H100",
        "llama-3-70b",
        64,
        128,
        (
            Known({"tensor": 4, "pipeline": 4, "chunks": 5, "context": 2}, f"{BRIDGE}, bf16"),
            Known({"tensor": 4, "pipeline": 8, "chunks": 5}, f"{BRIDGE}, fp8; here in bf16"),
            Known({"tensor": 8, "pipeline": 1}, "torchtitan on 256 H100, whose weights are sharded", "full"),
            Known({"tensor": 8, "pipeline": 4, "chunks": 5}, USUAL),
            Known({"tensor": 8, "pipeline": 4}, USUAL),
            Known({"tensor": 8, "pipeline": 8}, USUAL),
            Known({"tensor": 8, "pipeline": 2}, USUAL, "full"),
            Known({"tensor": 4, "pipeline": 8}, USUAL),
            Known({"tensor": 4, "pipeline": 8}, USUAL, "none", "zb-v"),
        ),
    ),
    Case(
        "Llama-3.1-405B on 16,384 H100",
        "llama-3.1-405b",
        16_384,
        2048,
        (
            Known({"tensor": 8, "pipeline": 16, "chunks": 8}, "The Llama 3 Herd of Models, Table 4"),
            Known({"tensor": 8, "pipeline": 8, "chunks": 8, "context": 2}, "Megatron-Bridge's recipe for 1,024, fp8"),
        ),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where a layout beats the best of its space."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="also write the tables into the page of the docs")
    given = parser.parse_args(arguments)
    lines: list[str] = []
    missed = False
    for case in CASES:
        begin = time.perf_counter()
        tuning = case.tuned()
        seconds = time.perf_counter() - begin
        found = [(known, case.estimated(known)) for known in case.known]
        lines += [*["" for _ in lines[:1]], *head_lines(case, tuning, seconds), *best_lines(tuning, best_rate(tuning))]
        lines += best_lines(case.tuned(MEASURED), best_rate(tuning), f", context at most {max(MEASURED)}")
        lines += [known_line(known, estimate, best_rate(tuning)) for known, estimate in found]
        missed |= any(one.fits and one.step.tokens_per_second_per_gpu > best_rate(tuning) for _, one in found)
    print("\n".join(lines))
    if given.write:
        PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), "\n".join(lines)), encoding="utf-8")
    return int(missed)


def refreshed(page: str, printed: str) -> str:
    """Return the page with what the script prints in its only block of text."""
    return BLOCK.sub(lambda _: f"```text\n{printed}\n```", page)


def best_rate(tuning: Tuning) -> float:
    """Return the tokens/s/GPU of the best."""
    return tuning.best.rate if tuning.best else 0.0


def head_lines(case: Case, tuning: Tuning, seconds: float) -> Iterator[str]:
    """Yield what was searched, and the head of the table."""
    pruned = tuning.pruned
    yield f"{case.title}: sequences of {case.tokens}, {case.batch} a step"
    yield f"  {tuning.space:>9,} points"
    yield f"  {pruned['divisibility']:>9,} do not divide"
    yield f"  {pruned['memory']:>9,} do not fit, before any simulation"
    yield f"  {pruned['dominance']:>9,} do as another does"
    yield f"  {pruned['bound']:>9,} cannot be faster"
    yield f"  {tuning.simulated:>9,} simulated"
    yield f"  {seconds:>9,.0f} s, a process on each of {os.cpu_count()} cores"
    yield ""
    yield f"  {'layout':<44} {'algorithm':<14} {'tokens/s/GPU':>12} {'vs best':>8} {'MFU':>6} {'GB':>6}  source"


def best_lines(tuning: Tuning, most: float, among: str = "") -> Iterator[str]:
    """Yield the best row of a tuning beside the best rate of all; `among` says what was searched."""
    best = tuning.best
    if best is not None and best.step is not None:
        apart = _apart(best.rate, most) if among else "best"
        layout, algorithm = best.point
        yield _line(str(layout), algorithm, best.rate, apart, best.step.mfu, best.memory, f"tune{among}")


def known_line(known: Known, estimate: Estimate, best: float) -> str:
    """Return the row of a layout beside the best."""
    step, held = estimate.step, max(float(device.total) / GB for device in estimate.devices)
    rate = step.tokens_per_second_per_gpu
    source = known.source if estimate.fits else f"does not fit; {known.source}"
    return _line(str(known), estimate.outcome.algorithm, rate, _apart(rate, best), step.mfu, held, source)


def _apart(rate: float, best: float) -> str:
    return f"{rate / best - 1:+.1%}"


def _line(layout: str, algorithm: str, rate: float, apart: str, mfu: float, held: float, source: str) -> str:
    return f"  {layout:<44} {algorithm:<14} {rate:>12,.1f} {apart:>8} {mfu:>6.1%} {held:>6.1f}  {source}"


if __name__ == "__main__":
    raise SystemExit(main())
