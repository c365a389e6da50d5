"""Train a model in PyTorch's pipeline runtime, by a schedule of pipesched: one process for each row of the file.

    pipesched solve --devices 4 --stages 8 --mem-budget 5 -o schedule.csv
    torchrun --nproc-per-node 4 scripts/train_with_pipesched.py schedule.csv

The model is a function that returns its pieces in forward order, `package.module:function`; where the schedule has
fewer stages, several pieces in a row make one. Needs torch 2.13: the names of the runtime are private to PyTorch.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pipesched.file_formats.pytorch_csv import parse

ROWS, WIDTH = 8, 64  # of a microbatch of the small model


def small_model() -> list[Any]:
    """Eight pieces of a perceptron."""
    import torch

    torch.manual_seed(0)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(8)]


def stage_modules(name: str, stages: int) -> list[Any]:
    """Return the model's pieces in `stages` equal groups."""
    import torch

    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  as `python -m` has it
    pieces = getattr(import_module(module), function)() if module else small_model()
    size, rest = divmod(len(pieces), stages)
    if rest or not size:
        raise SystemExit(f"the model has {len(pieces)} pieces, which do not make {stages} equal stages")
    return [torch.nn.Sequential(*pieces[stage * size : (stage + 1) * size]) for stage in range(stages)]


def main() -> None:
    """Run a few steps on random data, which is to be reproduced, and print the loss on the rank that has it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedule", help="a CSV of pipesched, or of PyTorch")
    parser.add_argument("--model", default="", help="package.module:function; default: a small perceptron")
    parser.add_argument("--shape", default=f"{ROWS},{WIDTH}", help="of a microbatch, for instance 8,64")
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()

    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    text = Path(options.schedule).read_text(encoding="utf-8")
    plan, placement = parse(text, options.schedule)
    rank, stages, microbatches = int(os.environ["RANK"]), plan.index.stages, plan.index.microbatches
    if int(os.environ["WORLD_SIZE"]) != len(plan.orders):
        raise SystemExit(f"{options.schedule} is for {len(plan.orders)} ranks; start as many processes")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    modules = stage_modules(options.model, stages)
    mine = [stage for stage, device in enumerate(placement.devices) if device == rank]
    parts = [PipelineStage(modules[stage].to(device), stage, stages, device) for stage in mine]
    schedule = _PipelineScheduleRuntime(parts, microbatches, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(options.schedule, format="compute_comms" if "SEND" in text else "compute_only")
    optimizer = torch.optim.Adam([weight for stage in mine for weight in modules[stage].parameters()], lr=1e-3)

    rows, *rest = map(int, options.shape.split(","))
    data = torch.rand(rows * microbatches, *rest, generator=torch.Generator().manual_seed(1)).to(device)
    for step in range(options.steps):
        losses: list[Any] = []
        optimizer.zero_grad()
        schedule.step(*([data] if 0 in mine else []), target=data, losses=losses)
        optimizer.step()
        if losses:
            print(f"step {step}: loss {torch.stack(losses).mean().item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
