"""Every line that is handed over, held against the sources of the trainer at the version that the line is for."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import pytest
import yaml

import pipesched
from pipesched.pipeline.layers.layout_text import megatron_text, read_megatron_text
from pipesched.schedulers.bidirectional import dualpipe_v
from tests.results.handover.outcomes import HYBRID, PATTERN, of_model, texts as every_text
from tests.results.handover.packages import classes, fields_of, literals, unpacked

pytestmark = pytest.mark.nightly
Source = Callable[[str], Path]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """What returns the unpacked package of a trainer; each is downloaded once."""
    return cache(lambda name: unpacked(name, tmp_path_factory.mktemp(name)))


def texts(framework: str) -> list[str]:
    """Texts of a trainer for many schedules and models."""
    found = [text for text in every_text(framework).values() if not text.startswith("refused: ")]
    assert len(found) > 1
    return found


def pasted(text: str) -> str:
    """The text without its remarks."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("# "))


def test_torchtitan(source: Source) -> None:
    """Each option is a field of its configs, with a value of its type; modules are those that it generates itself."""
    root = source("torchtitan")
    known = {node.name: fields_of(node) for node in classes(root, "torchtitan/config/configs.py")}
    sections = {"parallelism": known["ParallelismConfig"], "training": known["TrainingConfig"]}
    for text in texts("torchtitan"):
        for word in shlex.split(pasted(text)):
            match = re.fullmatch(r"--(\w+)\.(no-)?([\w-]+?)(?:=(.*))?", word, re.DOTALL)
            assert match, word
            kind = sections[match[1]][match[3].replace("-", "_")]
            if match[2]:
                assert kind == "bool"
            elif kind == "int":
                int(match[4])
            elif kind.startswith("list"):
                json.loads(match[4])
            elif allowed := literals(kind):
                assert match[4] in allowed
    pipeline = (root / "torchtitan/distributed/pipeline_parallel.py").read_text("utf-8")
    names = {"tok_embeddings", "norm", "lm_head"}
    listed = json.loads(
        next(word for text in texts("torchtitan") for word in shlex.split(text) if "module_fqns" in word).split("=")[1]
    )
    assert {name for stage in listed for name in stage if not name.startswith("layers.")} == names
    assert all(f'"{name}"' in pipeline for name in names)
    dims = (root / "torchtitan/distributed/parallel_dims.py").read_text("utf-8")
    assert "dp_shard * cp * tp" in (root / "torchtitan/config/configs.py").read_text("utf-8") + dims
    fsdp = (root / "torchtitan/distributed/fsdp.py").read_text("utf-8")
    assert "return not pp_enabled" in fsdp  # the default beside a pipeline is "never"


def megatron_options(root: Path) -> dict[str, list[Any]]:
    """The options of Megatron-LM, each with the values that it allows, if it lists any."""
    found: dict[str, list[Any]] = {}
    patterns = ("megatron/core/transformer/transformer_config.py", "megatron/core/model_parallel_config.py",
                "megatron/training/config/*.py", "megatron/core/optimizer/optimizer_config.py",
                "megatron/core/distributed/distributed_data_parallel_config.py")  # fmt: skip
    for node in classes(root, *patterns):
        for name, annotation in fields_of(node).items():
            found[f"--{name.replace('_', '-')}"] = literals(annotation)
    for path in (path for pattern in patterns for path in root.glob(pattern)):  # names that a field has beside its own
        found |= {name: [] for name in re.findall(r'"(--[a-z0-9-]+)"', path.read_text("utf-8"))}
    for call in ast.walk(ast.parse((root / "megatron/training/arguments.py").read_text("utf-8"))):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("add_argument"):
            choices = [one.value for one in call.keywords if one.arg == "choices"]
            names = [one.value for one in call.args if isinstance(one, ast.Constant)]
            allowed = list(ast.literal_eval(choices[0])) if choices and isinstance(choices[0], ast.List) else []
            found |= {name: allowed for name in names if isinstance(name, str)}
    return found


def test_megatron(source: Source) -> None:
    """Each flag, those of remarks too, is an option of its parser, and each word a value that it allows."""
    known = megatron_options(source("megatron"))
    assert len(known) > 500
    for text in texts("megatron"):
        words = shlex.split(pasted(text))
        for flag, value in zip(words, [*words[1:], ""], strict=True):
            if flag.startswith("--"):
                assert flag in known, flag
                assert not known[flag] or value in map(str, known[flag]), (flag, value)
        assert {*re.findall(r"--[a-z][a-z0-9-]+", text)} <= {*known, "--layers"}


def test_megatrons_layouts(source: Source) -> None:
    """Its own reader makes of each text the stages that ours does, empty ones included."""
    path = source("megatron") / "megatron/core/transformer/pipeline_parallel_layer_layout.py"
    tree = ast.parse(path.read_text("utf-8"))
    (layout,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    (reader,) = (node for node in layout.body if isinstance(node, ast.FunctionDef) and node.name == "parse_str_to_list")
    reader.decorator_list = []
    kinds = type("LayerType", (), {"embedding": "E", "loss": "L", "decoder": "t", "mtp": "m"})
    space: dict[str, Any] = {"re": re, "LayerType": kinds}
    exec(compile(ast.Module([reader], []), str(path), "exec"), space)
    for text in (
        "Et*3|(tt|)*29,m|L",
        "Et*3|(tt|)*14|(tt|)*15mL",
        "E|(t|)*10m|m|m|LL|LL",
        "Et*8|t*8|t*8|t*8L",
        "Et||tL",
    ):
        stages = read_megatron_text(text)
        for one in (text, megatron_text(stages)):
            theirs = ["".join(stage) for stage in space["parse_str_to_list"](one)]
            assert theirs == ["E" * e + "t" * t + "m" * m + "L" * losses for e, t, m, losses in stages]


def test_megatrons_patterns(source: Source) -> None:
    """Its own reader finds the stages and the layers of the pattern of a hybrid model."""
    path = source("megatron") / "megatron/core/models/hybrid/hybrid_layer_allocation.py"
    names = ("Symbols", "ParsedHybridPattern", "_validate_pattern", "parse_hybrid_pattern",
             "get_hybrid_total_layer_count", "get_hybrid_total_pipeline_segment_count")  # fmt: skip
    body = [node for node in ast.parse(path.read_text("utf-8")).body if getattr(node, "name", "") in names]
    space: dict[str, Any] = {"Optional": Optional, "dataclass": dataclass}
    exec(compile(ast.Module(body, []), str(path), "exec"), space)
    text = pipesched.hand_over(of_model(**HYBRID), "megatron")
    (pattern,) = re.findall(r"--hybrid-layer-pattern '(.*?)'", text)
    assert space["get_hybrid_total_pipeline_segment_count"](pattern) == 4
    assert space["get_hybrid_total_layer_count"](pattern) == 52
    assert space["parse_hybrid_pattern"](pattern).main_pattern == PATTERN


def test_bridge(source: Source) -> None:
    """Each name is a field of its configs or of those of megatron-core that they extend."""
    roots = source("bridge"), source("megatron")
    known: dict[str, dict[str, str]] = {}
    patterns = ("megatron/bridge/training/*.py", "megatron/bridge/models/gpt_provider.py",
                "megatron/bridge/models/hybrid/hybrid_provider.py",
                "megatron/training/config/*.py", "megatron/bridge/data/**/*.py",
                "megatron/core/**/*config*.py")  # fmt: skip
    for root in roots:
        for node in classes(root, *patterns):
            known.setdefault(node.name, {}).update(fields_of(node))
    parts = {
        "model": {
            **known["TransformerConfig"],
            **known["ModelParallelConfig"],
            **known["GPTModelProvider"],
            **known["HybridModelProvider"],
        },
        "train": known["TrainingConfig"],
        "ddp": known["DistributedDataParallelConfig"],
        "optimizer": known["OptimizerConfig"],
        "comm_overlap": known["CommOverlapConfig"],
        "mixed_precision": known["MixedPrecisionConfig"],
        "dataset": {name: kind for one in known.values() for name, kind in one.items() if name == "seq_length"},
    }
    recipes = (roots[0] / "megatron/bridge/training/mixed_precision.py").read_text("utf-8")
    for text in texts("megatron-bridge"):
        for line in pasted(text).splitlines():
            if line.startswith("from "):
                assert line.startswith("from megatron.bridge.training.mixed_precision import ")
                assert f"def {line.rpartition(' ')[2]}(" in recipes
                continue
            name, _, value = line.partition(" = ")
            _, part, *field = name.split(".")
            if not field:
                assert f"def {value.removeprefix('get_mixed_precision_config(').strip(')')[1:-1]}(" in recipes
                continue
            allowed = literals(parts[part][field[0]])
            assert not allowed or ast.literal_eval(value) in (*allowed, None), line


def test_maxtext(source: Source) -> None:
    """Each option is a key of its base.yml; words are values of its types."""
    root = source("maxtext")
    known = yaml.safe_load((root / "maxtext/configs/base.yml").read_text("utf-8"))
    for text in texts("maxtext"):
        found = dict(word.split("=") for word in shlex.split(pasted(text)))
        assert {*found} <= {*known}
        assert all(isinstance(known[key], bool) == (value in ("true", "false")) for key, value in found.items())


def deepspeed_schedules(root: Path) -> ModuleType:
    """The module of DeepSpeed's schedules, which needs nothing but how instructions are written."""
    path = root / "deepspeed/runtime/pipe/schedule.py"
    code = path.read_text("utf-8").replace("from ..utils import call_to_str", "call_to_str = str")
    module = ModuleType("schedule")
    exec(compile(code, str(path), "exec"), vars(module))
    return module


def passes(steps: Any, stages: int, rank: int, count: int) -> list[str]:
    """The passes of instructions as texts: of phase 0 those of stage `rank`, of phase 1 of its mirror."""
    found: list[str] = []
    done: dict[tuple[str, int], int] = {}
    for one in (instruction for step in steps for instruction in step):
        letter = {"ForwardPass": "F", "BackwardPass": "B"}.get(type(one).__name__)
        if letter:
            phase = one.kwargs.get("phase", 0)
            number = done[letter, phase] = done.get((letter, phase), -1) + 1
            assert "phase" not in one.kwargs or one.buffer_id == phase * count + number
            found.append(f"{2 * stages - 1 - rank if phase else rank}{letter}{number}")
    return found


@pytest.mark.parametrize(("devices", "microbatches"), [(2, 4), (3, 7), (4, 8), (4, 12)])
def test_deepspeed(source: Source, devices: int, microbatches: int) -> None:
    """Our 1f1b and dualpipe-v-whole are its instructions, operation by operation; its modules take what is written."""
    root = source("deepspeed")
    theirs = deepspeed_schedules(root)
    one_a_rank = pipesched.make_problem(devices=devices, microbatches=microbatches)
    two_a_rank = pipesched.make_problem(devices=devices, stages=2 * devices, microbatches=microbatches, placement="v")
    plans = {
        "TrainSchedule": pipesched.run(one_a_rank, "1f1b").schedule.plan,
        "DualPipeVSchedule": dualpipe_v(two_a_rank, whole=True),
    }
    for name, plan in plans.items():
        for rank in range(devices):
            schedule = getattr(theirs, name)(micro_batches=microbatches, stages=devices, stage_id=rank)
            assert passes(schedule.steps(), devices, rank, microbatches) == [*map(str, plan.slots(rank))]
    files = [root / f"deepspeed/runtime/pipe/{one}.py" for one in ("module", "dualpipev", "topology")]
    sources = "".join(path.read_text("utf-8") for path in files)
    assert "method.startswith('type:')" in sources
    for text in texts("deepspeed"):
        call = ast.parse(pasted(text).splitlines()[0]).body[0].value  # type: ignore[attr-defined]
        assert f"class {call.func.id}(" in sources
        assert all(re.search(rf"\b{one.arg}=", sources) for one in call.keywords)
