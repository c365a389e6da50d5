"""Execute the notebook of the tutorial, and compare, or write, what its cells show.

    python scripts/notebook.py            # exit code 1 and a diff when an output is out of date
    python scripts/notebook.py --write

It needs the extra `docs`. Outputs are compared as text; pictures are only looked at for being there.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "docs" / "tutorial" / "tour.ipynb"


def executed(notebook: Any) -> Any:
    """Return the notebook with the outputs of this pipesched, and nothing that differs from run to run."""
    from copy import deepcopy

    from nbclient import NotebookClient

    fresh = deepcopy(notebook)
    resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(fresh, timeout=120, kernel_name="python3", resources=resources).execute()
    for cell in fresh.cells:
        cell.metadata = {}
    fresh.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return fresh


def shown(notebook: Any) -> list[str]:
    """Return every output of a notebook as lines of text, with the kinds of its contents."""
    lines = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            lines.append(f"cell {number}: {output.output_type} {' '.join(sorted(data))}")
            lines += "".join(data.get("text/plain", output.get("text", ""))).splitlines()
    return lines


def main() -> int:
    """Compare the outputs, or write them."""
    import nbformat

    old = nbformat.read(NOTEBOOK, as_version=4)
    new = executed(old)
    if "--write" in sys.argv[1:]:
        nbformat.write(new, NOTEBOOK)
        return 0
    diff = list(difflib.unified_diff(shown(old), shown(new), str(NOTEBOOK), "what it shows now", lineterm=""))
    print("\n".join(diff) or f"{NOTEBOOK} is up to date")
    return int(bool(diff))


if __name__ == "__main__":
    raise SystemExit(main())
