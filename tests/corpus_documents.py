"""What commands answer, for the corpus: documents, texts and refusals, with a clock that stands still.

So no limit of a search is ever reached, and what is listed here must end by itself: by a proof, or once all is tried.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from pipesched.cli.app import app
from pipesched.core.cpsat import Limits, SearchAnswer, TaskModel
from tests.corpus import Difference, differences, digest, read_corpus

ROOT = Path(__file__).parents[1]
SETTINGS = ("LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "PYTHONIOENCODING", "PYTHONUTF8")
MOST_TEXT = 6_000  # letters of an answer that stands in full
TAKEN = re.compile(r'"seconds": [0-9.e-]+')
LONG = re.compile(r"\d+\.\d{8,}(?:e[+-]?\d+)?")  # a float whose last digits depend on Python: its sums, from 3.12 on
HEAD = "devices: 2\nmicrobatches: 4\n"
LAYER = "{forward: 2, backward: 4, activation: 1, static: 1}"
LAYERS = f"{HEAD}layers: 6\nlayer: {LAYER}\nlast: {{forward: 3, backward: 3}}\n"
FILES = {
    "model.yaml": f"{HEAD}time_unit: ms\ncosts: {{forward: 1, backward_input: 1, backward_weight: 1}}\n",
    "lengths.txt": "9 7 6, 5\n4 4 3 2\n",
    "layers.yaml": LAYERS,
    "given.yaml": f"{LAYERS}layout: [4, 2]\n",
    "gpus.yaml": "model: llama-3-8b\nhardware: h100-sxm\n"
    "parallel: {gpus: 8, tensor: [1, 2], pipeline: [1, 2, 4], chunks: 1, context: 1}\n"
    "batch: {sequence: 4096, global: 32, micro: [1, 2]}\n",
    "block.yaml": "period: 3\nforward: [0, 1]\nbackward_input: [4, 2]\n",
    "dot.txt": "x = a * b + c * d\ny = x * e + f\n",
}

SMALL = "--stages 4 --forward 1 --backward 2 --placement linear"
TINY = "--devices 2 --stages 2 --microbatches 2"
CONFIGS = (
    "autopipe", "building-block", "long-by-work", "long-sequences", "memory-gb", "offload", "one-device", "packed",
    "sharded", "slow-network", "uneven-llm", "vision-encoder", "whole-step",
)  # fmt: skip
COMPARED = ("one-device", "autopipe", "long-sequences", "packed", "whole-step")
GRAPHS = ("arf", "dct8", "dot6", "ewf", "fft", "fir16-symmetric", "hal", "seed")
BOTH = ("autopipe", "memory-gb", "offload", "packed", "sharded", "vision-encoder", "whole-step", "uneven-llm")
DOCUMENTS = (
    "run --json",
    *(f"run configs/{name}.yaml --json" for name in CONFIGS),
    "run configs/megatron-interleaved.yaml --algo interleaved --group-size 8 --json",
    *(f"run {name} configs/autopipe.yaml --json" for name in ("zb-h1", "zb-auto", "v-half", "dualpipe-v", "hanayo")),
    "run 1f1b configs/offload.yaml --offload full --json",
    "run 1f1b configs/offload.yaml --recompute 2 --json",
    "run 1f1b configs/packed.yaml --order best --json",
    "run 1f1b configs/packed.yaml --order verl --json",
    "run 1f1b configs/vision-encoder.yaml --side-rule first --json",
    "run list configs/uneven-llm.yaml --priority descendants --tie random --seed 3 --json",
    "run 1f1b given.yaml --json",
    f"run dualpipe {TINY} --json",
    f"run zb-v {TINY} --placement linear --json",
    *(f"compare configs/{name}.yaml --json" for name in COMPARED),
    "compare 1f1b zb-h1 naive configs/memory-gb.yaml --json",
    "compare 1f1b interleaved configs/offload.yaml --recompute full --json",
    "compare 1f1b zb-h1 given.yaml --json",
    "compare 1f1b naive zb-h1 model.yaml --sweep microbatches=2,4,8 --json",
    "compare 1f1b zb-h1 configs/slow-network.yaml --sweep p2p=0,1,2 --json",
    "compare model.yaml --pareto --json",
    "compare configs/building-block.yaml --pareto --json",
    f"solve {SMALL} --mem-budget 2 --json --workers 1 --quiet",
    "solve --mem-budget 4 --json --workers 1 --quiet",
    f"solve {TINY} --frontier --json --workers 1 --quiet",
    f"solve {SMALL} --frontier --json --workers 1 --quiet",
    "solve configs/one-device.yaml --json --workers 1 --quiet",
    "solve configs/autopipe.yaml --json --workers 1 --quiet",
    "solve given.yaml --json --workers 1 --quiet",
    f"solve {TINY} --mem-budget 0.1 --workers 1 --quiet",
    *(f"explain configs/{name}.yaml --json" for name in (*BOTH, "long-by-work")),
    "explain 1f1b given.yaml --json",
    "explain 1f1b model.yaml --why 1F1 --json",
    "robust 1f1b,zb-h1 model.yaml --samples 20 --seed 1 --json",
    "robust 1f1b wave=block.yaml model.yaml --samples 10 --noise 0.1 --json",
    "robust 1f1b interleaved configs/whole-step.yaml --samples 10 --straggler 1.5 --json",
    "pack lengths.txt --ranks 2 --cap 12 --microbatches 2 -c model.yaml --json --quiet",
    "pack lengths.txt --ranks 2 --cap 12 --microbatches auto -c model.yaml --attention 0.3 --algo zb-h1 --json --quiet",
    "pack lengths.txt --ranks 2 --cap 12 --microbatches 2 -c model.yaml --quiet -o rank.yaml; run rank.yaml --json",
    *(f"hls configs/hls/{name}.txt --json" for name in GRAPHS),
    "hls configs/hls/article.yaml --json",
    "hls dot.txt --solve --json",
    "hls configs/hls/hal.txt --solve --json",
    "hls configs/hls/hal.txt --compare --json",
    "hls configs/hls/hal.txt --explain --json",
    "hls configs/hls/ewf.txt --mul 2 --add 2 --latency mul=2 --pipelined mul --priority descendants --json",
    "hls configs/hls/hal-loop.txt --pipeline --json",
    "hls configs/hls/fir-loop.txt --pipeline --json",
    "hls configs/hls/seed.txt --solve --json",
    *(f"export configs/{name}.yaml --to {form}" for name in BOTH for form in ("json", "pytorch-csv", "chrome-trace")),
    "export configs/whole-step.yaml --to pytorch-csv-comms",
    "export configs/sharded.yaml --to pytorch-csv-comms",
    "export -a interleaved --devices 2 --chunks 2 --microbatches 2 --to pytorch-csv-comms",
    "export -a zb-h1 given.yaml --to pytorch-csv",
    *(
        f"run configs/{name}.yaml --quiet -o out.json; check out.json; show out.json --json; show out.json --width 100"
        " --ascii --no-color; explain out.json --json"
        for name in ("autopipe", "offload", "packed", "whole-step")
    ),
    "export -a zb-h1 model.yaml -o out.csv; check out.csv -c model.yaml --json; show out.csv -c model.yaml --json;"
    " compare 1f1b mine=out.csv model.yaml --json",
    "export -a 1f1b model.yaml -o out.csv; check out.csv -c configs/memory-gb.yaml",
    "init",
    "init --schema",
    "init --from-model llama-3-8b --hardware h100-sxm --gpus 8",
    "list -c configs/autopipe.yaml --json",
    "list -c configs/packed.yaml --json",
    "list --json",
    "list --models --json",
    "list --hardware --json",
    "list zb-h1 interleaved --json",
)  # fmt: skip
OPEN_CUTS = (
    "run 1f1b layers.yaml --json",
    "run interleaved layers.yaml --json",
    "run 1f1b layers.yaml --recompute 1 --json",
    "run zb-h1 configs/real-model.yaml --microbatches 8 --json",
    "run 1f1b configs/measured-layers.yaml --microbatches 8 --json",
    "compare layers.yaml --json",
    "compare 1f1b interleaved looped-bfs configs/real-model.yaml --microbatches 8 --json",
    "compare 1f1b interleaved layers.yaml --sweep chunks=1,2 --json",
    "explain 1f1b layers.yaml --json",
    "solve layers.yaml --json --workers 1 --quiet",
    "export -a 1f1b layers.yaml --to json",
    "robust 1f1b interleaved layers.yaml --samples 10 --json",
    "estimate configs/llama-3-70b.yaml --no-trust --json",
    "estimate configs/mixtral-8x7b.yaml --no-trust --json",
    "estimate configs/qwen3-30b-a3b.yaml --no-trust --json",
    "estimate configs/mixture-pairs.yaml --no-trust --json",
    "estimate configs/llama-3-70b.yaml --no-trust --microbatches 16 --algo interleaved --chunks 2 --json",
    "run configs/qwen3-30b-a3b.yaml --microbatches 4 --json",
    "tune gpus.yaml 1f1b zb-h1 --top 2 --jobs 1 --time-limit 100000 --quiet --json",
)
KINDS: Mapping[str, Sequence[str]] = {"documents": DOCUMENTS, "open_cuts": OPEN_CUTS}


def answer(commands: str) -> list[dict[str, Any]]:
    """Return what each of the commands answers in one folder, which has the configs of the repository."""
    with _folder():
        return [_answer(shlex.split(command)) for command in commands.split("; ")]


def _answer(command: Sequence[str]) -> dict[str, Any]:
    settings = {**dict.fromkeys(SETTINGS), "COLUMNS": "100"}
    result = CliRunner().invoke(app, [*command], env=settings, prog_name="pipesched")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    printed = LONG.sub(lambda found: f"{float(found[0]):.10g}", TAKEN.sub('"seconds": 0', result.stdout))
    found = {"code": int(result.exit_code), "error": result.stderr, "digest": digest(printed)}
    return {**found, "printed": _document(printed)} if len(printed) <= MOST_TEXT else found


def _document(printed: str) -> Any:
    try:
        return json.loads(printed)
    except ValueError:
        return printed


@contextmanager
def _folder() -> Iterator[None]:
    """Work in a folder of its own, in which time does not go by, and CP-SAT has one thread."""
    before, solve = Path.cwd(), TaskModel.solve

    def alone(model: TaskModel, limits: Limits, *told: Any) -> SearchAnswer:
        return solve(model, limits._replace(workers=1, seconds=inf), *told)

    with (
        TemporaryDirectory() as folder,
        patch("pipesched.core.clock.monotonic", lambda: 0.0),
        patch.object(TaskModel, "solve", alone),
        patch("pipesched.cli.progress.AFTER", 3600.0),
    ):
        copytree(ROOT / "configs", Path(folder) / "configs")
        for name, text in FILES.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def document_differences(kind: str, commands: str) -> list[Difference]:
    """Return where this build answers some commands otherwise."""
    now = json.loads(json.dumps(answer(commands)))
    return [*differences(read_corpus()[kind][commands], now, commands)]


def answered(kinds: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Return what this build answers to the commands of each kind."""
    return {kind: {one: answer(one) for one in commands} for kind, commands in kinds.items()}
