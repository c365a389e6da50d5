#!/usr/bin/env bash
# PyTorch: a profiler's trace of Schedule1F1B names no forward and no backward; of ScheduleInterleaved1F1B it does.
#
# What most would guess: all schedules of torch.distributed.pipelining label their operations alike in a trace of
# torch.profiler, so that one parser reads them all (PP:2F0 is the forward of microbatch 0 on stage 2).
# Version: torch 2.13.0 (CPU), two ranks by gloo.
# Seen: Schedule1F1B has no range at all; ScheduleGPipe has "Forward 0" and "Backward 0" without the stage;
# ScheduleInterleaved1F1B has PP:0F0 and the like. Only classes that run on the multi-stage runtime use these names.
# Source: torch/distributed/pipelining/schedules.py (record_function in _PipelineScheduleRuntime and in ScheduleGPipe).
# Fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.3.4
cat >"$work/ranges.py" <<'PYTHON'
import json
import os
import re
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

NAMES = re.compile(r"(PP:\d+[FB]\d+|Forward \d+|Backward \d+)$")


def ranges(rank: int, name: str, folder: Path) -> list[str]:
    """The names of forwards and backwards in a rank's trace of one step."""
    chunks = 2 if name == "ScheduleInterleaved1F1B" else 1
    stages = [
        PipelineStage(torch.nn.Linear(4, 4), rank + 2 * chunk, 2 * chunks, torch.device("cpu")) for chunk in range(chunks)
    ]
    classes = {one.__name__: one for one in (Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B)}
    schedule = classes[name](stages if chunks > 1 else stages[0], 4, loss_fn=torch.nn.functional.mse_loss)
    batch = torch.ones(8, 4)
    with torch.profiler.profile() as profile:
        schedule.step(*((batch,) if rank == 0 else ()), **({"target": batch} if rank else {}))
    trace = folder / f"{name}_{rank}.json"
    profile.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    return sorted({event["name"] for event in events if NAMES.match(str(event.get("name", "")))})


def rank_main(rank: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    found = {name: ranges(rank, name, Path(folder)) for name in sys.argv[2:]}
    Path(folder, f"found_{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(rank_main, (port, sys.argv[1]), 2)
    found = json.loads(Path(sys.argv[1], "found_0.json").read_text())
    for name, names in found.items():
        print(f"{name}: {', '.join(names) or 'none'}")
    assert found["Schedule1F1B"] == [], "Schedule1F1B names its operations now"
    assert found["ScheduleGPipe"] and not any(name.startswith("PP:") for name in found["ScheduleGPipe"])
    assert "PP:0F0" in found["ScheduleInterleaved1F1B"]
PYTHON
"$work/venv/bin/python" "$work/ranges.py" "$work" Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B
echo "as described"
