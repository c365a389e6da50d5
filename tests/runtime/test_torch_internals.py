"""Private names of PyTorch: one file has all, and a version that lacks one is refused with its name."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from pkgutil import resolve_name

import pytest

import pipesched.runtime
from pipesched import ConfigError
from tests.torch_ranks import needs_torch

FOLDER = Path(pipesched.runtime.__file__).parent
FILE = FOLDER / "torch_internals.py"
DOCUMENTED = {"_asdict", "_exit", "_make", "_replace"}


def private_names(path: Path) -> list[str]:
    """The private names that a file takes from elsewhere: of modules, and attributes of what is not its own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {"self", *(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in own):
            found.append(node.attr)
        elif isinstance(node, ast.Import):
            found += [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom):
            found += [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    private = [name for name in found if name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED]
    return private + [name for name in found if name.startswith("ProcessGroup")]


def test_one_file_has_all_private_names() -> None:
    """No other file of the runtime takes a private name, or makes a process group by its class."""
    assert {path.name: private_names(path) for path in FOLDER.glob("*.py") if private_names(path)} == {
        FILE.name: ["_version"]  # the others stand there as texts
    }


@needs_torch
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.distributed.pipelining._backward", "stage_backward"),
        ("torch.distributed.pipelining._backward", "stage_backward_input"),
        ("torch.distributed.pipelining._backward", "stage_backward_weight"),
        ("torch.distributed", "ProcessGroupGloo"),
        ("torch.distributed", "ProcessGroup"),
        ("torch._C._functions", "MulBackward0"),
    ],
)
def test_a_missing_name_is_told(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    """A PyTorch without one of the names is bad input, with its version and that name."""
    runpy.run_path(str(FILE))
    monkeypatch.delattr(resolve_name(module), name)
    with pytest.raises(
        ConfigError, match=rf"^PyTorch 2\S+ has no {module}\.{name}\S*, which training needs; pip install"
    ):
        runpy.run_path(str(FILE))


@needs_torch
def test_what_they_do() -> None:
    """Changes in place are counted, and a node of a graph tells what hooks packed of what it saved."""
    import torch

    from pipesched.runtime.torch_internals import packed_by, version_of

    tensor = torch.ones(2, requires_grad=True)
    before = version_of(tensor)
    with torch.no_grad():
        tensor.add_(1)
    assert version_of(tensor) == before + 1
    with torch.autograd.graph.saved_tensors_hooks(lambda _: "packed", lambda _: tensor):
        node = (tensor * tensor).grad_fn
    assert [*packed_by(node)] == ["packed", "packed"]
