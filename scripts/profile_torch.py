"""Measure the stages of a PyTorch model, and write the config that pipesched needs to schedule them.

    python scripts/profile_torch.py package.module:function --shape 8,64 --devices 4 -o config.yaml
    pipesched compare --all -c config.yaml

`function` returns the stages in forward order; `--shape` is that of a microbatch. Measured are the forward, the two
halves of the backward by the functions that PyTorch's pipeline runtime calls, the time to send each activation from
one process to another, and the bytes that a microbatch keeps. With a GPU by CUDA events and memory statistics.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

MEGABYTE = 10**6


class Times(NamedTuple):
    """Milliseconds of F, I, W and B."""

    forward: float
    backward_input: float
    backward_weight: float
    backward: float


class Measured(NamedTuple):
    """A stage: its times, what it keeps in bytes, and the shape of what it sends on."""

    times: Times
    activation: int
    static: int
    sends: tuple[int, ...]


def timed(work: Callable[[], Any], device: Any) -> tuple[float, Any]:
    """Return the milliseconds of one call, and its result."""
    import torch

    if device.type != "cuda":
        begin = time.perf_counter()
        result = work()
        return (time.perf_counter() - begin) * 1000, result
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    result = work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end), result


def measure(stage: Any, given: Any, device: Any, repeats: int, *, is_first: bool) -> tuple[Measured, Any]:
    """One stage with the input `given`, and its output."""
    given = given.detach().requires_grad_(not is_first)
    rounds = [_times(stage, given, device, is_first=is_first) for _ in range(repeats + 2)]  # the first two warm up
    times = Times(*map(median, zip(*rounds[2:], strict=True)))
    weights = sum(weight.numel() * weight.element_size() for weight in stage.parameters())
    kept, output = activation_bytes(stage, given, device)
    return Measured(times, kept, 2 * weights, tuple(output.shape)), output.detach()


def _times(stage: Any, given: Any, device: Any, *, is_first: bool) -> Times:
    """F, I, W and B of a stage. On the first one the runtime does nothing at I, and the whole backward at W."""
    from torch.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight

    stage.zero_grad()
    forward, output = timed(lambda: stage(given), device)
    gradient = [output.detach().clone()]
    whole, _ = timed(lambda: stage_backward([output], gradient, [given]), device)
    if is_first:
        return Times(forward, 0.0, whole, whole)
    again = stage(given)
    half, (_, groups) = timed(lambda: stage_backward_input([again], gradient, [given], stage.parameters()), device)
    rest, _ = timed(lambda: stage_backward_weight(stage.parameters(), groups), device)
    return Times(forward, half, rest, whole)


def activation_bytes(stage: Any, given: Any, device: Any) -> tuple[int, Any]:
    """Return what a forward leaves behind for its backward, its input and output included, and the output."""
    import torch

    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        output = stage(given)
        return torch.cuda.memory_allocated(device) - before + given.numel() * given.element_size(), output
    storages: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = stage(given)
    for tensor in (given, output):
        keep(tensor)
    for weight in [*stage.parameters(), *stage.buffers()]:
        storages.pop(weight.untyped_storage().data_ptr(), None)
    return sum(storages.values()), output


def transfer_times(shapes: Sequence[tuple[int, ...]], dtype: str, repeats: int, *, on_gpus: bool) -> list[float]:
    """Return the milliseconds that a tensor of each shape takes from one process to another: half a round trip."""
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        method = "spawn" if on_gpus else "fork"  # a fork has no use of the GPUs, and starts at once
        mp.start_processes(_play, (folder, list(shapes), dtype, repeats, on_gpus), nprocs=2, start_method=method)
        return [float(line) for line in (Path(folder) / "times").read_text().split()]


def _play(rank: int, folder: str, shapes: Sequence[tuple[int, ...]], dtype: str, repeats: int, on_gpus: bool) -> None:
    """One of the two processes that play ball with tensors; the first one takes the times."""
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "nccl" if on_gpus else "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    lines = []
    for shape in shapes:
        ball = torch.zeros(shape, dtype=getattr(torch, dtype), device=device)

        def round_trip(ball: Any = ball) -> None:
            for sender in (0, 1):
                (dist.send if rank == sender else dist.recv)(ball, 1 - rank)

        lines.append(f"{median([timed(round_trip, device)[0] for _ in range(repeats + 2)][2:]) / 2}\n")
    if rank == 0:
        (Path(folder) / "times").write_text("".join(lines))
    dist.destroy_process_group()


def config_text(title: str, stages: Sequence[Measured], p2p: Sequence[float], devices: int, microbatches: int) -> str:
    """Return the config of what was measured."""

    def numbers(values: Sequence[float]) -> str:
        return f"[{', '.join(f'{value:.4g}' if value < 1e4 else f'{value:.0f}' for value in values)}]"

    columns = dict(zip(Times._fields, zip(*(stage.times for stage in stages), strict=True), strict=True))
    return f"""\
# Measured by profile_torch.py: {title}
# Stage 0 needs no gradient of its input, so PyTorch does its whole backward at W.
devices: {devices}
stages: {len(stages)}
microbatches: {microbatches}
time_unit: ms

costs:
  forward: {numbers(columns["forward"])}
  backward_input: {numbers(columns["backward_input"])}
  backward_weight: {numbers(columns["backward_weight"])}
  # instead of both halves, for schedules that do not split the backward:
  # backward: {numbers(columns["backward"])}
  p2p: {numbers(p2p)}

memory:
  unit: MB
  activation: {numbers([stage.activation / MEGABYTE for stage in stages])}
  # weights and their gradients, without the state of an optimizer:
  static: {numbers([stage.static / MEGABYTE for stage in stages])}
"""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="package.module:function, which returns the list of stages")
    parser.add_argument("--shape", required=True, help="of a microbatch, for instance 8,64")
    parser.add_argument("--dtype", default="float32", help="of the input; default float32")
    parser.add_argument("--devices", type=int, help="pipeline ranks; default: one for each stage")
    parser.add_argument("--microbatches", type=int, help="default: twice the devices")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("-o", "--output", help="where to write the config; default: standard output")
    return parser.parse_args()


def main() -> None:
    """Measure every stage, then the transfers, and write the config."""
    options = arguments()
    import torch

    sys.path.insert(0, os.getcwd())  # noqa: PTH109  as `python -m` has it
    module, _, function = options.model.partition(":")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu":
        torch.set_num_threads(1)  # as torchrun starts the ranks
    stages = [stage.to(device) for stage in getattr(import_module(module), function)()]
    shape = tuple(map(int, options.shape.split(",")))
    data, measured = torch.rand(shape).to(device, getattr(torch, options.dtype)), []
    for number, stage in enumerate(stages):
        result, data = measure(stage, data, device, options.repeats, is_first=number == 0)
        measured.append(result)
    sent = [stage.sends for stage in measured[:-1]]
    on_gpus = torch.cuda.device_count() > 1
    p2p = transfer_times(sent, options.dtype, options.repeats, on_gpus=on_gpus) if sent else []
    devices = options.devices or len(stages)
    title = f"{options.model}, microbatch {options.shape} {options.dtype}, {device.type}, torch {torch.__version__}"
    text = config_text(title, measured, p2p, devices, options.microbatches or 2 * devices)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
