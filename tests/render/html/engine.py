"""The page's engine in node, asked about schedules."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipesched import Outcome
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document
from pipesched.render.html.data import schedule_data
from pipesched.render.html.page import ENGINE, program

NODE = shutil.which("node")
DRIVER = Path(__file__).parent / "engine_driver.js"


def document_of(outcome: Outcome) -> Any:
    """Python's document of an outcome, as it is read back."""
    return json.loads(dump(document(outcome)))


def case(outcome: Outcome, orders: Sequence[Sequence[int]] | None = None, *, explain: bool = False) -> dict[str, Any]:
    """A question: the times of the schedule, or of other orders of its devices; and, if asked, why."""
    return {"data": schedule_data(outcome, "x"), "orders": orders, "explain": explain}


def answers(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the engine says to each question."""
    assert NODE is not None
    with tempfile.NamedTemporaryFile("w", suffix=".js", encoding="utf-8") as engine:
        engine.write(program(ENGINE))
        engine.flush()
        lines = "\n".join(map(json.dumps, cases))
        done = subprocess.run([NODE, DRIVER, engine.name], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
