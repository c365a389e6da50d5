"""Hold our plans against a GPU: time and memory of a step, and whether transfers run beside the computation.

    python scripts/validate_gpu.py [--width 16384] [--tokens 4096] [--microbatches 6]

One device runs one transformer block in bfloat16. Its costs are those that `pipesched.runtime.profile` measures there.
Each plan is trained a few steps, and a step is held against it: its time by the clock of the GPU, the bytes of
activations, the most that PyTorch's allocator gave above what it had before, and how much of the time of transfers
kernels ran too. Exit code 1 when a step takes 10 % longer than planned, or holds more activations, or when less than
nine tenths of what the plan saves was saved, or of what it has beside the computation ran beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

import pipesched
from pipesched.runtime import Runtime, profile
from pipesched.runtime.profiling import config_text

STEPS = 4
LONGER, BESIDE = 1.10, 0.9


class Block(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Causal attention and a perceptron, as in a transformer."""

    def __init__(self, width: int, head: int = 128) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.mix, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down, self.head = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width), head

    def forward(self, data: Any) -> Any:
        heads = self.mix(self.norms[0](data)).unflatten(-1, (3, -1, self.head)).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        data = data + self.out(mixed.transpose(1, 2).flatten(-2))
        return data + self.down(torch.nn.functional.gelu(self.up(self.norms[1](data))))


class Measured(NamedTuple):
    """A step: milliseconds, bytes of activations and of all, and the part of the transfers that ran beside kernels."""

    milliseconds: float
    activations: int
    allocated: int
    beside: float


def measure(schedule: pipesched.Schedule, module: Any, data: Any) -> Measured:
    """Train a few steps by a schedule, and measure the last ones."""
    run, times = Runtime(schedule, {0: module}, torch.nn.functional.mse_loss), list[float]()
    for step in range(STEPS):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run.step(data, data)
        if step:  # the first one makes gradients, and buffers of the host
            times.append(max(one["end"] for one in run.report()["operations"]))
    allocated = torch.cuda.max_memory_allocated() - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with torch.profiler.profile() as profiler:
            run.step(data, data)
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    run.close()
    return Measured(sorted(times)[len(times) // 2], run.report()["peak_bytes"], allocated, beside_kernels(events))


def beside_kernels(events: Iterable[dict[str, Any]]) -> float:
    """Return the part of the time of copies between host and device in which a kernel ran."""
    spans: dict[str, list[tuple[float, float]]] = {"kernel": [], "gpu_memcpy": []}
    for event in events:
        is_copy = event.get("cat") == "gpu_memcpy" and "DtoD" not in event["name"]
        if event.get("cat") == "kernel" or is_copy:
            spans[event["cat"]].append((event["ts"], event["ts"] + event["dur"]))
    return shared(spans["gpu_memcpy"], spans["kernel"])


def shared(these: Iterable[tuple[float, float]], others: Iterable[tuple[float, float]]) -> float:
    """Return the part of the time of some spans in which one of the others was there; 0 for no time."""
    whole, both, level, last, lanes = 0.0, 0.0, 0, 0.0, 0
    marks = [(at, change, 0) for span in these for at, change in zip(span, (1, -1), strict=True)]
    marks += [(at, 0, change) for span in others for at, change in zip(span, (1, -1), strict=True)]
    for at, lane, other in sorted(marks):
        whole += lanes * (at - last)
        both += lanes * (at - last) * (level > 0)
        lanes, level, last = lanes + lane, level + other, at
    return both / whole if whole else 0.0


def planned_beside(schedule: pipesched.Schedule) -> float:
    """Return the part of the transfers' time in which the plan has the device compute."""
    timeline = [
        [(schedule.start_ticks[number], schedule.end_ticks[number]) for number in row]
        for row in (schedule.plan.orders[0], [*schedule.plan.lanes[0].offloads, *schedule.plan.lanes[0].reloads])
    ]
    return shared(timeline[1], timeline[0])


def main() -> int:
    """Print the table; 1 where a step is not as planned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("width", 16384), ("tokens", 4096), ("microbatches", 6)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    device = torch.device("cuda")
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, NCCL {nccl}")
    with device:
        module = Block(given.width).to(torch.bfloat16)
    data = torch.randn(given.microbatches, 1, given.tokens, given.width, dtype=torch.bfloat16, device=device)
    found = profile([module], data=lambda *_: (data[:1], data[:1]), microbatches=given.microbatches, repeats=8)
    problem = pipesched.load(str(config_text(found, split_backward=False)))
    times, size = found.stages[0].times, found.stages[0].activation
    shown = ("forward", "backward", "recompute", "offload", "reload")
    spent = ", ".join(f"{key} {times[key].median:.1f}" for key in shown)
    print(f"a block of width {given.width:,}, {given.tokens:,} tokens, {size / 1e9:.2f} GB an activation: {spent} ms")
    print(f"{'plan':<24}{'ms':>8}{'planned':>9}{'GB':>8}{'planned':>9}{'allocated':>11}{'beside':>8}{'planned':>9}")
    wrong, rest = False, None
    for algorithm, offload, recompute in (
        ("naive", None, None),
        ("naive", "full", None),
        ("naive", None, "full"),
        ("1f1b", "full", None),
    ):
        schedule = pipesched.run(problem, algorithm, offload=offload, recompute=recompute).schedule
        real, held = measure(schedule, module, data), schedule.peak_memory[0]
        beside = planned_beside(schedule) if offload else 0.0
        name = algorithm + ", offload full" * bool(offload) + ", recompute full" * bool(recompute)
        print(
            f"{name:<24}{real.milliseconds:>8.1f}{schedule.makespan:>9.1f}{real.activations / 1e9:>8.2f}"
            f"{held / 1e3:>9.2f}{real.allocated / 1e9:>11.2f}{real.beside:>8.0%}{beside:>9.0%}"
        )
        rest = real.allocated - BESIDE * held * 1e6 if rest is None else rest  # the first plan saves nothing
        wrong |= real.milliseconds > LONGER * schedule.makespan or real.activations > 1.001 * held * 1e6
        wrong |= real.beside < BESIDE * beside or real.allocated > rest + BESIDE * held * 1e6
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
