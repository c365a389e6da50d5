"""What is handed over to each framework is in the grammar of that framework, with the numbers of the schedule."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

import pipesched
from pipesched.errors import ConfigError, Inexpressible
from pipesched.estimation.layout import read_megatron_text
from pipesched.results.outcome import Outcome
from tests.torch_ranks import needs_torch

P, M = 4, 8


def made(algorithm: str, devices: int = P, chunks: int = 1, microbatches: int = M, **options: Any) -> Outcome:
    """The schedule of a family."""
    problem = pipesched.make_problem(
        devices=devices,
        chunks=chunks,
        microbatches=microbatches,
        forward=5,
        backward_input=5,
        backward_weight=5,
        offload=1,
    )
    return pipesched.run(problem, algorithm, **options)


def pasted(text: str) -> str:
    """The text without its remarks."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("# "))


def parser(*, fork: bool = False) -> argparse.ArgumentParser:
    """The flags of Megatron-LM that are about pipelines, and those of Zero Bubble's fork."""
    made_parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    add = made_parser.add_argument
    add("--pipeline-model-parallel-size", type=int, default=1)
    stages = made_parser.add_mutually_exclusive_group()
    stages.add_argument("--num-virtual-stages-per-pipeline-rank", type=int)
    stages.add_argument("--num-layers-per-virtual-pipeline-stage", type=int)
    stages.add_argument("--pipeline-model-parallel-layout", type=str)
    add("--microbatch-group-size-per-virtual-pipeline-stage", type=int)
    if fork:
        add("--enable-zb-runtime", action="store_true")
        add("--interleave-group-size", type=int, default=0)
        add("--enable-zero-bubble", action="store_true")
        add("--zero-bubble-max-pending-backward", type=str)
        add("--zero-bubble-v-schedule", action="store_true")
        add("--zero-bubble-v-schedule-mem-setup", choices=("zb", "half", "min"), default="zb")
        add("--enable-1f1b-v", action="store_true")
    return made_parser


def flags(text: str, *, fork: bool = False) -> dict[str, Any]:
    """The values that a text gives, without those that keep their default."""
    known = parser(fork=fork)
    read = vars(known.parse_args(shlex.split(pasted(text))))
    return {key: value for key, value in read.items() if value != known.get_default(key)}


SIZE = {"pipeline_model_parallel_size": P}
VIRTUAL = {**SIZE, "num_virtual_stages_per_pipeline_rank": 2}
MEGATRON = [
    (made("1f1b"), SIZE),
    (made("interleaved", chunks=2), VIRTUAL),
    (
        made("interleaved", chunks=2, microbatches=16, group_size=8),
        {**VIRTUAL, "microbatch_group_size_per_virtual_pipeline_stage": 8},
    ),
]


@pytest.mark.parametrize(("outcome", "expected"), MEGATRON)
def test_megatron(outcome: Outcome, expected: dict[str, Any]) -> None:
    """1F1B needs the number of ranks, the interleaved schedule its chunks too, and its groups where they are not P."""
    assert flags(pipesched.hand_over(outcome, "megatron")) == expected


FORK = [
    (made("1f1b"), {**SIZE, "enable_zb_runtime": True}),
    (made("interleaved", chunks=2), {**VIRTUAL, "interleave_group_size": P}),
    (made("zb-h1"), {**SIZE, "enable_zero_bubble": True, "zero_bubble_max_pending_backward": f"{P}"}),
    (made("zb-h2"), {**SIZE, "enable_zero_bubble": True, "zero_bubble_max_pending_backward": f"{2 * P}"}),
    (made("zb-auto"), {**SIZE, "enable_zero_bubble": True, "zero_bubble_max_pending_backward": "auto"}),
    (made("zb-v", chunks=2), {**SIZE, "zero_bubble_v_schedule": True}),
    (made("v-half", chunks=2), {**SIZE, "zero_bubble_v_schedule": True, "zero_bubble_v_schedule_mem_setup": "half"}),
    (made("v-min", chunks=2), {**SIZE, "zero_bubble_v_schedule": True, "zero_bubble_v_schedule_mem_setup": "min"}),
    (made("1f1b-v", chunks=2), {**SIZE, "enable_1f1b_v": True}),
]


@pytest.mark.parametrize(("outcome", "expected"), FORK)
def test_zero_bubble(outcome: Outcome, expected: dict[str, Any]) -> None:
    """Each schedule of the fork by its own flags."""
    assert flags(pipesched.hand_over(outcome, "zero-bubble"), fork=True) == expected


TORCHTITAN = [
    (made("1f1b"), "1F1B", False),
    (made("1f1b", microbatches=3), "1F1B", True),
    (made("interleaved", chunks=2), "Interleaved1F1B", False),
    (made("interleaved", chunks=2, group_size=8), "Interleaved1F1B", True),
    (made("interleaved", chunks=2, microbatches=9), "Interleaved1F1B", True),
    (made("zb-h1"), "1F1B", True),
    (made("zb-h2"), "1F1B", True),
    (made("zb-auto"), "1F1B", True),
    (made("zb-v", chunks=2), "ZBVZeroBubble", False),
    (made("v-half", chunks=2), "ZBVZeroBubble", True),
    (made("v-min", chunks=2), "ZBVZeroBubble", True),
    (made("1f1b-v", chunks=2), "ZBVZeroBubble", True),
    (made("naive"), "GPipe", False),
    (made("looped-bfs", chunks=2), "LoopedBFS", False),
    (made("interleaved-zb", chunks=2), "InterleavedZeroBubble", False),
    (made("dualpipe-v", chunks=2), "DualPipeV", False),
    (made("eager-1f1b"), "1F1B", True),
    (made("gis-h", chunks=2), "Interleaved1F1B", True),
]


def options(text: str) -> dict[str, str]:
    """The options of torchtitan in a text."""
    found = {}
    for word in shlex.split(pasted(text)):
        match = re.fullmatch(r"--parallelism\.(\w+)=(.*)", word, re.DOTALL)
        assert match, word
        found[match[1]] = match[2]
    return found


@pytest.mark.parametrize(("outcome", "name", "csv"), TORCHTITAN)
def test_torchtitan(outcome: Outcome, name: str, csv: bool) -> None:
    """A class by its name, or a CSV beside the class of its stage map, with a remark that says how to write it."""
    text = pipesched.hand_over(outcome, "torchtitan")
    expected = {
        "pipeline_parallel_degree": f"{P}",
        "num_pp_microbatches": f"{outcome.problem.microbatches}",
        "pipeline_parallel_schedule": name,
        **({"pipeline_parallel_schedule_csv": "schedule.csv"} if csv else {}),
    }
    assert options(text) == expected
    assert ("--to pytorch-csv -o schedule.csv" in text) == csv


@needs_torch
@pytest.mark.parametrize("name", sorted({name for _, name, _ in TORCHTITAN}))
def test_torchtitan_names_are_pytorchs(name: str) -> None:
    """PyTorch's own loader knows each name."""
    from torch.distributed.pipelining.schedules import get_schedule_class

    assert get_schedule_class(name).__name__ == f"Schedule{name}"


PRIMUS = [
    ("1f1b", 1, "1f1b"),
    ("interleaved", 2, "1f1b-interleaved"),
    ("zb-h1", 1, "zero-bubble"),
    ("zb-auto", 1, "zero-bubble-heuristic"),
    ("zb-v", 2, "zbv-formatted"),
    ("v-half", 2, "v-half"),
    ("v-min", 2, "v-min"),
]


@pytest.mark.parametrize(("algorithm", "chunks", "name"), PRIMUS)
def test_primus(algorithm: str, chunks: int, name: str) -> None:
    """YAML with the name of the algorithm and the sizes."""
    content = yaml.safe_load(pipesched.hand_over(made(algorithm, chunks=chunks), "primus"))
    assert content["pp_algorithm"] == name
    assert content["pipeline_model_parallel_size"] == P


def test_deepspeed() -> None:
    """A call in Python, of the number of stages."""
    call = ast.parse(pipesched.hand_over(made("1f1b"), "deepspeed")).body[0].value  # type: ignore[attr-defined]
    assert call.func.id == "PipelineModule"
    assert {one.arg: ast.literal_eval(one.value) for one in call.keywords} == {
        "num_stages": P,
        "partition_method": "uniform",
    }


REFUSED = [
    ("megatron", ["zb-h1", "zb-h2", "zb-auto", "naive", "eager-1f1b"], 1, "1f1b"),
    ("megatron", ["zb-v", "v-half", "1f1b-v", "looped-bfs", "interleaved-zb", "dualpipe-v", "gis-h"], 2, "interleaved"),
    ("deepspeed", ["naive", "zb-h1"], 1, "1f1b"),
    ("deepspeed", ["interleaved", "zb-v"], 2, "1f1b"),
    ("primus", ["zb-h2", "naive"], 1, "1f1b"),
    ("primus", ["1f1b-v", "dualpipe-v"], 2, "zb-v"),
    ("primus", ["looped-bfs", "gis-h"], 2, "interleaved"),
    ("zero-bubble", ["naive", "eager-1f1b"], 1, "1f1b"),
    ("zero-bubble", ["dualpipe-v"], 2, "zb-v"),
    ("zero-bubble", ["looped-bfs", "interleaved-zb"], 2, "interleaved"),
    ("torchtitan", ["dualpipe", "chimera"], 1, "dualpipe-v"),
]


@pytest.mark.parametrize(("framework", "names", "chunks", "nearest"), REFUSED)
def test_what_cannot_be_expressed(framework: str, names: list[str], chunks: int, nearest: str) -> None:
    """Schedules that a framework lacks: why, and the nearest that it has."""
    for name in names:
        with pytest.raises(Inexpressible, match=f"the nearest that it has is {nearest}$") as caught:
            pipesched.hand_over(made(name, chunks=chunks), framework)
        assert caught.value.nearest == nearest


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed", "primus", "zero-bubble"])
@pytest.mark.parametrize("saving", ["recompute", "offload"])
def test_recompute_and_offload(framework: str, saving: str) -> None:
    """No framework has them as operations of a schedule; the refusal says how it has them."""
    with pytest.raises(Inexpressible, match=r"has no operations (R|O, L) in its schedules; it has \w"):
        pipesched.hand_over(made("1f1b", **{saving: "full"}), framework)  # type: ignore[arg-type]


def test_the_order_counts() -> None:
    """A schedule of any name whose order is 1F1B's is 1F1B; one of that name with another order is not."""
    known = made("1f1b")
    assert pipesched.hand_over(Outcome("mine", known.schedule), "deepspeed").startswith("PipelineModule")
    with pytest.raises(Inexpressible, match="the order of '1f1b'"):
        pipesched.hand_over(Outcome("1f1b", made("eager-1f1b").schedule), "deepspeed")


def megatrons(text: str) -> list[str]:
    """A layout as Megatron-LM reads it: `(..)*n` and `x*n` written out, groups do not nest, `|` between stages."""
    flat = re.sub(r"\(([^()]*)\)\*(\d+)", lambda found: found[1] * int(found[2]), text)
    assert not set(flat) & set("()")
    return re.sub(r"([a-zA-Z])\*(\d+)", lambda found: found[1] * int(found[2]), flat).split("|")


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8))
def test_layouts_round_trip(layers: list[int]) -> None:
    """The layout text has the layers that were given, the embedding first and the loss last, and no flag of chunks."""
    problem = pipesched.make_problem(devices=len(layers), microbatches=len(layers))
    text = pipesched.hand_over(pipesched.run(problem, "1f1b"), "megatron", layers=layers)
    layout = flags(text)["pipeline_model_parallel_layout"]
    stages = megatrons(layout)
    assert [stage.count("t") for stage in stages] == layers
    assert "".join(stages) == "E" + "t" * sum(layers) + "L"
    assert [stage.layers for stage in read_megatron_text(layout)] == layers


def test_layouts() -> None:
    """The layers of each stage in the words of each framework; a problem by layers knows them."""
    assert "'Et*5|t*6|t*6|t*3L'" in pipesched.hand_over(made("1f1b"), "megatron", layers=[5, 6, 6, 3])
    modules = json.loads(
        options(pipesched.hand_over(made("1f1b", devices=2), "torchtitan", layers=[1, 2]))["module_fqns_per_model_part"]
    )
    assert modules == [["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "norm", "output"]]
    problem = pipesched.make_problem(devices=4, microbatches=8, layers=10, layer={"forward": 1}, last={"forward": 2})
    outcome = pipesched.run(problem, "1f1b")
    assert outcome.problem.layers is not None
    found = read_megatron_text(flags(pipesched.hand_over(outcome, "megatron"))["pipeline_model_parallel_layout"])
    assert tuple(stage.layers for stage in found) == outcome.problem.layers.layout
    assert yaml.safe_load(pipesched.hand_over(outcome, "primus"))["pipeline_model_parallel_layout"].startswith("Et")


@pytest.mark.parametrize("framework", ["deepspeed", "zero-bubble"])
def test_uneven_stages_that_cannot_be(framework: str) -> None:
    """Frameworks that cut evenly refuse other numbers."""
    with pytest.raises(Inexpressible, match="layers"):
        pipesched.hand_over(made("1f1b"), framework, layers=[5, 6, 6, 3])
    assert pipesched.hand_over(made("1f1b"), framework, layers=[5, 5, 5, 5])


def test_megatron_refuses_some_groups() -> None:
    """Groups of fewer than P microbatches, and a last one of fewer."""
    with pytest.raises(Inexpressible, match="the last has 1, fewer than P"):
        pipesched.hand_over(made("interleaved", chunks=2, microbatches=9), "megatron")


def test_fewer_microbatches_than_ranks() -> None:
    """Nothing interleaves them there, so 1F1B is the nearest."""
    with pytest.raises(Inexpressible, match="at least P microbatches, 4; this has 2; the nearest that it has is 1f1b"):
        pipesched.hand_over(made("interleaved", chunks=2, microbatches=2), "megatron")


@pytest.mark.parametrize("layers", [[1, 2, 3], [1, 0, 1, 1], [1, 1, 1, -1], "1234", [1, 1, 1, 1.5]])
def test_bad_layers(layers: Any) -> None:
    """One whole number a stage, none of them empty."""
    with pytest.raises(ConfigError, match="layers"):
        pipesched.hand_over(made("1f1b"), "megatron", layers=layers)


def test_an_unknown_framework() -> None:
    """The nearest name is suggested."""
    with pytest.raises(ConfigError, match="megatron"):
        pipesched.hand_over(made("1f1b"), "megatorn")
