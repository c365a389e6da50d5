"""Published peaks of memory beside ours: the largest device, or of Megatron-LM's tests the last one.

Runs of hidden size 1024 and more count. What a peak of the allocator has is estimated without the context of the GPU
and without fragmentation. Where a source leaves open how numbers are stored, 18 bytes a parameter count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.estimation.result import DeviceMemory
from pipesched.estimation.trust.facts import RunFacts, facts_of
from published_runs import LeftOut, published_memory_run, records
from published_times import SUMMARY_HEAD, Compared, estimate_of, summaries, summary


class Goal(NamedTuple):
    """The largest median, and the largest 90th percentile, of errors without their signs."""

    median: float
    ninetieth: float


GB, GIB = 10**9, 2**30
GOLDEN = "megatron-golden"
LAST = "peak_allocated_last_rank"
NAMES = (LAST, "peak_memory", "peak_memory_max_rank", "peak_memory_rank0")
SMALLEST = 1024
GOAL = Goal(0.05, 0.12)
FAMILIES_LEFT_OUT = {
    "torchtitan": "shards weights as well: in the table of such runs, but for those in 8 bits",
    "primus-llama2-7b": "no sequence and no microbatch",
    "primus-qwen235b": "no sequence and no microbatch",
    "megatron-pr482": "no sequence",
    "pith-train": "no sequence and no microbatch",
}


class Peak(NamedTuple):
    """A published peak in bytes, and what ours is made of."""

    name: str
    family: str
    facts: RunFacts
    published: float
    states: float
    activations: float
    beside: float

    @property
    def compared(self) -> Compared:
        """Both sums."""
        return Compared(self.name, self.family, self.published, self.states + self.activations + self.beside)


def peaks() -> Iterator[Peak | LeftOut]:
    """Return each published peak beside ours, or why it is left out."""
    for record in records():
        published = next((item["value"] for item in record["measured"] if item["name"] in NAMES), None)
        if published is None:
            continue
        reason = _reason(record)
        yield LeftOut(record["id"], record["family"], reason) if reason else _peak(record, published)


def _reason(record: Mapping[str, Any]) -> str:
    """Return why a record is left out, or nothing."""
    given = record["model"].get("megatron_args", {})
    if record["family"] in FAMILIES_LEFT_OUT:
        return FAMILIES_LEFT_OUT[record["family"]]
    if record["model"]["hidden"] < SMALLEST:
        return f"hidden size below {SMALLEST}: logits and libraries outweigh layers"
    if "fp8-format" in given:
        return "in 8 bits"
    return "recomputes single modules, which a setup cannot say" if "recompute-modules" in given else ""


def _peak(record: Mapping[str, Any], published: float) -> Peak:
    """Return the peak of a record; the GB of Zero Bubble's tables are 2^30."""
    is_golden = record["family"] == GOLDEN
    setup, algorithm = published_memory_run(record)
    devices = estimate_of(setup, algorithm).devices
    device = devices[-1] if is_golden else max(devices, key=_allocated)
    states = device.weights + device.gradients + device.optimizer
    parts = (states, device.activations, _allocated(device) - states - device.activations)
    kind = "" if not is_golden else " with experts" if setup.model.experts else " dense"
    return Peak(
        record["id"],
        record["family"] + kind,
        facts_of(setup, algorithm),
        published * (1 if is_golden else GIB),
        *map(float, parts),
    )


def _allocated(device: DeviceMemory) -> Fraction:
    """Return what the allocator of a device has at its peak."""
    return device.total - device.fixed


def memory_table() -> bool:
    """Print each run, the errors of each family and of all, and what is left out; return whether the goal is missed."""
    found = list(peaks())
    rows = [row for row in found if isinstance(row, Peak)]
    print(f"    {'':<75} {'published':>9} {'states':>7} {'kept':>7} {'logits':>7} {'ours':>7} {'error':>7}")
    for row in rows:
        numbers = (row.published, row.states, row.activations, row.beside, row.compared.ours)
        sizes = "{:>9.2f} {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f}".format(*(number / GB for number in numbers))
        print(f"    {row.name:<75} {sizes} {row.compared.error:>+7.1%}")
    compared = [row.compared for row in rows]
    every = summary("all", [row.error for row in compared])
    print(SUMMARY_HEAD, *summaries(compared), every, sep="\n")
    reasons = Counter((row.family, row.reason) for row in found if isinstance(row, LeftOut))
    print(f"\nLeft out of memory: {reasons.total()}")
    for (family, reason), count in reasons.items():
        print(f"    {count:>3} of {family}: {reason}")
    return every.median > GOAL.median or every.ninetieth > GOAL.ninetieth
