"""The best layouts of large models beside those that are published or commonly used, all estimated the same way.

    python scripts/validate_tune.py            # searches of some minutes
    python scripts/validate_tune.py --write    # also bring docs/results/tune.md up to date

Each space has every size, micro and recompute on auto, and every algorithm that needs no options; `solve` is left out,
so that only the seconds differ from run to run. Exit code 1 where the first row is unlike all that was measured, or a
layout that fits and is like something measured is faster than it: a search that is exact cannot miss it.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import pipesched
from measuring import with_block
from pipesched.estimation.items import GB
from pipesched.estimation.result import Estimate
from pipesched.estimation.trust.evidence import Trust
from pipesched.render.tuning import tuning_view
from pipesched.tuning.result import Tuning

PAGE = Path(__file__).parent.parent / "docs" / "results" / "tune.md"
WIDTH = 100  # of what `pipesched tune` prints
BRIDGE = "Megatron-Bridge's recipe"  # NVIDIA-NeMo/Megatron-Bridge, performance recipes of Llama 3 70B on 64 H100
ZOO = "Megatron-MoE-ModelZoo"  # yanring/Megatron-MoE-ModelZoo, best_practice/qwen3
USUAL = "commonly used"


class Known(NamedTuple):
    """A layout that somebody uses, and where that stands. `algorithm` None: 1f1b, or interleaved for several chunks."""

    parallel: Mapping[str, int]
    source: str
    recompute: str = "none"
    algorithm: str | None = None
    micro: int = 1

    def __str__(self) -> str:
        ways = [f"{way} {size}" for way, size in self.parallel.items()]
        ways += [f"micro {self.micro}"] * (self.micro > 1)
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

    def tuned(self) -> Tuning:
        """Return the best of all points that are like something measured, by a process on each core."""
        return pipesched.tune(
            None,
            [one.name for one in pipesched.algorithms() if not one.required],
            executor="local",
            model=self.model,
            hardware=self.hardware,
            parallel={"gpus": self.gpus},
            batch={"sequence": self.tokens, "global": self.batch, "micro": "auto"},
            training={"recompute": "auto"},
        )

    def estimated(self, known: Known) -> Estimate:
        """Return the estimate of a layout."""
        return pipesched.estimate(
            None,
            known.algorithm,
            model=self.model,
            hardware=self.hardware,
            parallel={"gpus": self.gpus, **known.parallel},
            batch={"sequence": self.tokens, "global": self.batch, "micro": known.micro},
            training={"recompute": known.recompute},
            trust=True,
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
    Case(
        "Qwen3-235B-A22B on 256 H100",
        "qwen3-235b-a22b",
        256,
        2048,
        (
            Known(
                {"tensor": 2, "pipeline": 8, "chunks": 4, "expert": 32},
                f"{ZOO}, which recomputes norms, 1,663 measured",
            ),
            Known(
                {"tensor": 2, "pipeline": 1, "expert": 8}, f"{ZOO}, weights sharded, 1,862 measured", "full", micro=4
            ),
            Known({"tensor": 4, "pipeline": 8, "chunks": 4, "expert": 8}, f"{ZOO}, 1,130 measured"),
        ),
        tokens=4096,
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
        known = [(one, case.estimated(one)) for one in case.known]
        lines += [*["", ""][: 2 * bool(lines)], *case_lines(case, tuning, seconds, known)]
        missed |= is_missed(tuning, [estimate for _, estimate in known])
    print("\n".join(lines))
    if given.write:
        PAGE.write_text(with_block(PAGE.read_text(encoding="utf-8"), summed("\n".join(lines))), encoding="utf-8")
    return int(missed)


def summed(printed: str) -> str:
    """Return the paragraphs for the page: titles, counts of points, what is faster but unmeasured, layouts in use."""
    parts = re.sub(r"^    .*\n", "", printed, flags=re.MULTILINE).split("\n\n")
    heads = (*(f"{case.title}: " for case in CASES), "Faster in the estimate", "beside layouts in use")
    kept = [part.strip("\n") for part in parts]
    return "\n\n".join(part for part in kept if part.startswith(heads) or "\nbest of " in part)


def is_missed(tuning: Tuning, known: Sequence[Estimate]) -> bool:
    """Return whether the first row is unlike all that was measured, or slower than a known layout that is not."""
    best = tuning.best
    if best is None or best.trust is None or not best.trust.evidence.inside:
        return True
    rate = max(row.rate for row in tuning if row.sure == best.sure)
    return any(trust_of(one).sure and trust_of(one).evidence.inside and rate_of(one) > rate for one in known)


def trust_of(estimate: Estimate) -> Trust:
    """Return how sure an estimate of a case is."""
    assert estimate.trust is not None  # it was asked for
    return estimate.trust


def rate_of(estimate: Estimate) -> float:
    """Return the tokens/s/GPU of an estimate."""
    return estimate.step.tokens_per_second_per_gpu


def case_lines(case: Case, tuning: Tuning, seconds: float, known: Sequence[tuple[Known, Estimate]]) -> Iterator[str]:
    """Yield what `pipesched tune` prints of a case, and its best layout beside those in use."""
    cores = f"a process on each of {os.cpu_count()} cores"
    yield f"{case.title}: sequences of {case.tokens}, {case.batch} a step; {seconds:.0f} s, {cores}"
    yield ""
    printed = io.StringIO()
    Console(file=printed, width=WIDTH).print(tuning_view(tuning))
    yield from (line.rstrip() for line in printed.getvalue().rstrip().split("\n"))
    best = tuning.best
    if best is None or best.trust is None:
        return
    yield ""
    yield f"{'beside layouts in use':<56} {'algorithm':<14} {'rate':>7} {'vs best':>8}  step, 80 % slower    GB  source"
    layout, algorithm = best.point
    yield _line(str(layout), algorithm, best.rate, "best", "", "", best.memory, "tune")
    yield from (known_line(one, estimate, best.trust) for one, estimate in known)


def known_line(known: Known, estimate: Estimate, best: Trust) -> str:
    """Return the row of a layout: its step over that of the best between two ends, and how likely it is slower."""
    trust = trust_of(estimate)
    source = known.source if trust.evidence.inside else f"unlike what was measured; {known.source}"
    if not estimate.fits:
        source = f"does not fit; {known.source}"
    ratio, apart = trust.against(best), f"{best.standing.time / trust.standing.time - 1:+.1%}"
    ends, slower = f"{ratio.low:.2f}-{ratio.high:.2f}", f"{1 - ratio.faster:.0%}"
    held = max(float(device.total) / GB for device in estimate.devices)
    return _line(str(known), estimate.outcome.algorithm, rate_of(estimate), apart, ends, slower, held, source)


def _line(
    layout: str, algorithm: str, rate: float, apart: str, ends: str, slower: str, held: float, source: str
) -> str:
    return f"{layout:<56} {algorithm:<14} {rate:>7,.1f} {apart:>8}  {ends:<10} {slower:>6} {held:>5.1f}  {source}"


if __name__ == "__main__":
    raise SystemExit(main())
