#!/usr/bin/env bash
# PyTorch: a pipeline that only evaluates returns more rows than its batch has, where microbatches are uneven.
#
# What most would guess: ScheduleGPipe.eval of a batch of 10 rows in 4 microbatches returns 10 rows, those of the
# model without a pipeline; or it raises an error, as training with a loss does.
# Version: torch 2.13.0 (CPU), two ranks by gloo, one Linear(4, 4) each.
# Seen: 12 rows. The batch is cut into 3, 3, 2 and 2 rows, but the second stage receives each microbatch into a buffer
# of the first one's shape. Rows 8 and 11 of the answer are the layer's output for a row that nobody sent.
# Source: torch/distributed/pipelining/stage.py (one shape of received tensors a stage) and microbatch.py (tensor_split).
# Fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.3.4
cat >"$work/uneven.py" <<'PYTHON'
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

ROWS, MICROBATCHES = 10, 4


def rank_main(rank: int, port: int, answers) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]
    batch = torch.arange(4.0 * ROWS).reshape(ROWS, 4)
    schedule = ScheduleGPipe(PipelineStage(layers[rank], rank, 2, torch.device("cpu")), MICROBATCHES)
    if rank == 0:
        schedule.eval(batch)
    else:
        with torch.no_grad():
            right = layers[1](layers[0](batch))
        answers.put((schedule.eval().detach().tolist(), right.tolist()))
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers = mp.get_context("spawn").SimpleQueue()
    mp.spawn(rank_main, (port, answers), 2)
    got, right = answers.get()
    known = [any(all(abs(a - b) < 1e-4 for a, b in zip(row, other)) for other in right) for row in got]
    print(f"batch of {ROWS} rows, {MICROBATCHES} microbatches: {len(got)} rows come back")
    print("rows that belong to no row of the batch:", [number for number, is_known in enumerate(known) if not is_known])
    assert len(got) == 12 and sum(known) == ROWS, "torch 2.13.0 returned 12 rows, two of them of no input"
PYTHON
"$work/venv/bin/python" "$work/uneven.py"
echo "as described"
