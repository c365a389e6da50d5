#!/usr/bin/env bash
# PyTorch: the range of a RECV in a pipeline's trace ends long before its message is sent.
#
# What most would guess: PP:1RECV_F0 in a trace of torch.profiler lasts until microbatch 0 is received, so that its
# length is the time of the message, or the wait for it.
# Version: torch 2.13.0 (CPU), two ranks by gloo, ScheduleInterleaved1F1B with two stages a rank.
# Seen: the sender's stage sleeps 0.4 s in its forward; the receiver's PP:1RECV_F0 lasts under 0.1 s. The range is of
# the call that posts the receive; the wait falls into no range of its own.
# Source: torch/distributed/pipelining/schedules.py (_PipelineScheduleRuntime: batched isend and irecv, waited for later).
# Fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.3.4
cat >"$work/ranges.py" <<'PYTHON'
import json
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

SLEEP = 0.4


class Slow(torch.nn.Linear):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        time.sleep(SLEEP)
        return super().forward(values)


def rank_main(rank: int, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    kinds = [Slow if rank == 0 else torch.nn.Linear, torch.nn.Linear]
    stages = [PipelineStage(kind(4, 4), rank + 2 * n, 4, torch.device("cpu")) for n, kind in enumerate(kinds)]
    schedule = ScheduleInterleaved1F1B(stages, 4, loss_fn=torch.nn.functional.mse_loss)
    batch = torch.ones(8, 4)
    given = ((batch,) if rank == 0 else ()), ({"target": batch} if rank else {})
    schedule.step(*given[0], **given[1])  # the first step exchanges shapes
    dist.barrier()
    with torch.profiler.profile() as profile:
        schedule.step(*given[0], **given[1])
    trace = Path(folder, f"{rank}.json")
    profile.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    found = {event["name"]: event["dur"] / 1e6 for event in events if str(event.get("name", "")).startswith("PP:")}
    Path(folder, f"found_{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = sys.argv[1]
    mp.spawn(rank_main, args=(port, folder), nprocs=2)
    sender, receiver = (json.loads(Path(folder, f"found_{rank}.json").read_text()) for rank in (0, 1))
    print(f"PP:0F0 {sender['PP:0F0']:.3f} s, PP:1RECV_F0 {receiver['PP:1RECV_F0']:.3f} s")
    assert sender["PP:0F0"] >= SLEEP
    assert receiver["PP:1RECV_F0"] < SLEEP / 4
PYTHON
"$work/venv/bin/python" "$work/ranges.py" "$work"
echo "as described"
