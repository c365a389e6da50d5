"""Published training runs as setups: what was measured beside what ours would be, or why a run is left out.

The records are facts as they were published. What a source of tests/data/measured.json does not say and its scripts or
its text do is added here, field by field, with where it comes from; those of measured_runs.json are complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.estimation.hardware import Efficiency
from pipesched.estimation.parameters import training_flops
from pipesched.estimation.setup import Setup
from pipesched.estimation.setup_reader import setup_of
from published_setups import hardware_of, published_setup

DATA = Path(__file__).parent.parent / "tests" / "data"
FILES = BY_FIELD, WHOLE = ("measured.json", "measured_runs.json")  # the latter's configurations are complete
DENSE, OPEN, MOE, RATIOS, PARTS = KINDS = ("dense", "open", "MoE", "ratios", "parts")


class Run(NamedTuple):
    """A published run: its setup, the algorithm, and the time of its step in ms, or those of parts of it.

    `parts` are times of a forward and so on, of `layers` layers. `kind` says what it is judged as; the configuration of
    an open one is not complete. `assumed` says what the source leaves open.
    """

    name: str
    family: str
    kind: str
    setup: Setup
    algorithm: str
    step: float | None
    parts: Mapping[str, float]
    layers: int
    assumed: str


class LeftOut(NamedTuple):
    """A published run that is not compared, and why."""

    name: str
    family: str
    reason: str


def records() -> list[dict[str, Any]]:
    """Return the records whose setups are read field by field."""
    return records_of(BY_FIELD)


def records_of(name: str) -> list[dict[str, Any]]:
    """Return the records of a file of measurements."""
    content: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))["records"]
    return content


def published_runs(efficiency: Mapping[str, Efficiency] | None = None) -> list[Run]:
    """Return the runs that are compared; `efficiency` of a GPU by the name of its preset replaces the preset's."""
    return [run for run in _read(efficiency or {}) if isinstance(run, Run)]


def left_out() -> list[LeftOut]:
    """Return the runs that are not, each with its reason."""
    return [run for run in _read({}) if isinstance(run, LeftOut)]


def _read(efficiency: Mapping[str, Efficiency]) -> Iterator[Run | LeftOut]:
    for record in records():
        reason = _reason(record)
        if reason:
            yield LeftOut(record["id"], record["family"], reason)
        else:
            yield _run(record, efficiency)
    yield from (whole_run(record, efficiency) for record in records_of(WHOLE))


def whole_run(record: Mapping[str, Any], efficiency: Mapping[str, Efficiency]) -> Run:
    """Return the run of a record whose configuration is a config of ours; sizes of one layout are one family."""
    setup = setup_of(name=record["id"], **record["config"]).setup
    own = efficiency.get(setup.hardware.name)
    if own is not None:
        setup = replace(setup, hardware=replace(setup.hardware, efficiency=own))
    return Run(
        name=record["id"],
        family=record["family"],
        kind=MOE if setup.model.experts else DENSE,
        setup=setup,
        algorithm=record["algorithm"],
        step=record["step_ms"],
        parts={},
        layers=1,
        assumed="",
    )


FAMILIES_LEFT_OUT = {
    "mtnlg": "an outlier: 20 % slower than its twin in Table 2 of Narayanan et al.",
    "korthikanti-fig1": "memory by a formula, no time",
    "vsched-t3": "its layout is the best of a grid that is not given",
    "vsched-t4": "its sequence is assumed",
    "primus-llama2-7b": "no sequence and no microbatch",
    "primus-qwen235b": "no sequence and no microbatch",
    "megatron-pr482": "memory only, no sequence",
    "pith-train": "memory only, no sequence",
}
GPUS_LEFT_OUT = ("GB300", "B300")


def published_memory_run(record: Mapping[str, Any]) -> tuple[Setup, str]:
    """Return the setup of a record, whose times do not count, and its algorithm."""
    setup, _ = published_setup(record, hardware_of(record["hardware"]["gpu"], {}))
    return setup, _algorithm(record["layout"], setup.parallel.chunks)


def _reason(record: Mapping[str, Any]) -> str:
    """Return why a record is left out, or nothing."""
    family, layout = record["family"], record["layout"]
    given = record["model"].get("megatron_args", {})
    if record["model"].get("hf") == "openai/gpt-oss-120b":
        return "no such model type: half of its layers see 128 words only, and its attention has sinks"
    if family in FAMILIES_LEFT_OUT:
        return FAMILIES_LEFT_OUT[family]
    if record["hardware"]["gpu"] in GPUS_LEFT_OUT:
        return f"in the table of few bits: of a {record['hardware']['gpu']}"
    if "8" in str(layout.get("precision", "")).replace("16", "") or given.get("fp8-format"):
        return "in 8 bits"
    if family == "megatron-golden":
        return _reason_of_golden(record, given)
    return ""


def _reason_of_golden(record: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    if _measured(record, "iteration_time_median") is None:
        return "memory only"
    if given["hidden-size"] <= 1024:
        return "too small for a GPU: it waits for its host"
    return "" if record["layout"]["global_batch"] else "no batch size"


def _run(record: Mapping[str, Any], efficiency: Mapping[str, Efficiency]) -> Run:
    layout = record["layout"]
    hardware = hardware_of(record["hardware"]["gpu"], efficiency)
    setup, assumed = published_setup(record, hardware)
    stage = record["family"] == "zb-profile"
    parts = {item["name"]: item["value"] for item in record["measured"] if item["unit"] == "ms"}
    return Run(
        name=record["id"],
        family=record["family"],
        kind=_kind(record, setup, parts),
        setup=setup,
        algorithm=_algorithm(layout, setup.parallel.chunks),
        step=_step(record, setup),
        parts=parts,
        layers=-(-(setup.model.layers + 2) // setup.parallel.pipeline) if stage else 1,
        assumed=assumed,
    )


def _kind(record: Mapping[str, Any], setup: Setup, parts: Mapping[str, float]) -> str:
    if parts:
        return PARTS
    if record["family"] in ("zb-t4", "zb-t6"):
        return RATIOS
    if record["family"] in ("megatron-readme-h100", "moe-zoo-qwen235b-long"):
        return OPEN
    return MOE if setup.model.experts else DENSE


def _algorithm(layout: Mapping[str, Any], chunks: int) -> str:
    """Return our name of a schedule; Zero Bubble searched ZB-1p and ZB-2p, at 1 and 2 times the memory of 1F1B."""
    names = {"zb-1p": "zb-auto 1", "zb-2p": "zb-auto 2", "1f1b-i": "interleaved", "1f1b": "1f1b", "zb-v": "zb-v"}
    return names.get(layout.get("schedule", ""), "1f1b" if chunks == 1 else "interleaved")


def _measured(record: Mapping[str, Any], name: str) -> float | None:
    values = [item["value"] for item in record["measured"] if item["name"].startswith(name)]
    return values[0] if values else None


def _step(record: Mapping[str, Any], setup: Setup) -> float | None:
    """Return the published time of a step in ms, from whichever way it is given."""
    size, gpus = setup.batch.size, setup.parallel.gpus
    seconds = _measured(record, "iteration_time")
    if seconds is not None:
        return seconds * 1e3
    samples, words = _measured(record, "throughput"), _measured(record, "tokens_per_s_per_gpu")
    if samples is not None:
        return size / gpus / samples * 1e3
    if words is not None:
        return setup.tokens_of_step / gpus / words * 1e3
    hardware_rate = _measured(record, "hw_tflops_per_gpu")
    if hardware_rate is not None:
        return _operations_of_narayanan(setup) / gpus / hardware_rate * 1e-9
    rate = _measured(record, "model_tflops_per_gpu") or _measured(record, "tflops_per_gpu")
    whole = record["family"] == "megatron-readme-h100"  # Megatron-Core 0.8 counted all scores
    operations = training_flops(setup.model, setup.batch.sequence, setup.tokens_of_step, whole=whole)
    return operations / gpus / rate * 1e-9 if rate else None


def _operations_of_narayanan(setup: Setup) -> float:
    """Return the operations of a step with recompute, as arXiv 2104.04473 counts them."""
    h, layers, s, words = setup.model.hidden, setup.model.layers, setup.batch.sequence, setup.model.vocabulary
    return 96 * setup.batch.size * s * layers * h**2 * (1 + s / (6 * h) + words / (16 * layers * h))
