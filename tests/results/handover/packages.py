"""Sources of trainers at pinned versions, from the package index: what parsers and classes know, without PyTorch."""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PINNED = {
    "torchtitan": "torchtitan==0.3.0",
    "megatron": "megatron-core==0.19.2",
    "bridge": "megatron-bridge==0.6.2",
    "maxtext": "maxtext==0.2.5",
    "deepspeed": "deepspeed==0.19.8",
}


def unpacked(name: str, folder: Path) -> Path:
    """Download the package of a trainer, its wheel for Python 3.12 or else its source, and return where it lies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PINNED[name]]
    wheel = ["--python-version", "3.12", "--only-binary=:all:"]
    subprocess.run([*command, *([] if name == "deepspeed" else wheel)], check=True, capture_output=True, timeout=540)
    (found,) = (path for path in folder.iterdir() if path.is_file())
    if found.suffix == ".whl":
        zipfile.ZipFile(found).extractall(folder / "src")
        return folder / "src"
    with tarfile.open(found) as archive:
        archive.extractall(folder / "src", filter="data")
    (inner,) = (folder / "src").iterdir()
    return inner


def classes(root: Path, *patterns: str) -> Iterator[ast.ClassDef]:
    """Yield the classes at the top of files."""
    for path in [path for pattern in patterns for path in sorted(root.glob(pattern))]:
        yield from (node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef))


def fields_of(node: ast.ClassDef) -> dict[str, str]:
    """The annotated names of a class, each with its annotation."""
    lines = (line for line in node.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name))
    return {ast.unparse(line.target): ast.unparse(line.annotation) for line in lines}


def literals(annotation: str) -> list[Any]:
    """The values that an annotation allows, where it lists any."""
    nodes = (node for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Subscript))
    one = next((node for node in nodes if ast.unparse(node.value) == "Literal"), None)
    found = None if one is None else ast.literal_eval(ast.unparse(one.slice))
    return [] if found is None else list(found) if isinstance(found, tuple) else [found]
