"""Print where the quality tables differ from what is reached now, and with --write put that into the tests.

    python scripts/quality.py                                 # every table
    python scripts/quality.py tests/solver/test_quality_solver.py --write
    ruff format tests                                         # afterwards

A new table may begin with `golden={}`. A value that became worse is a regression: write only improvements.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def golden_nodes(text: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of the tables of a test file, each with the expression of its golden values."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            function, target = statement.value.func, statement.targets[0]
            if isinstance(function, ast.Name) and function.id == "Table" and isinstance(target, ast.Name):
                yield target.id, next(word.value for word in statement.value.keywords if word.arg == "golden")


def renewed(path: Path) -> str:
    """Return the text of a test file with the values that its tables reach now."""
    text = path.read_text()
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    lines = text.splitlines(keepends=True)
    for name, node in reversed(list(golden_nodes(text))):
        table = getattr(module, name)
        rows = {variant: tuple(table.reach(variant, case) for case in table.cases) for variant in table.variants}
        if rows != table.golden:
            print(f"{path.relative_to(ROOT)}: {name}")
            for variant in rows | table.golden:
                if rows.get(variant) != table.golden.get(variant):
                    print(f"    {variant!r}: {table.golden.get(variant)} -> {rows.get(variant)}")
            dictionary = "".join(f"{variant!r}: {row},\n" for variant, row in rows.items())
            assert node.end_lineno is not None
            after = lines[node.end_lineno - 1][node.end_col_offset :]
            before = lines[node.lineno - 1][: node.col_offset]
            lines[node.lineno - 1 : node.end_lineno] = [f"{before}{{\n{dictionary}}}{after}"]
    return "".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare all tables, or those of some test files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="test files; default: all with tables")
    parser.add_argument("--write", action="store_true", help="put the values into the files")
    given = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    importlib.import_module("tests.quality_table").Table.takes_gaps = True
    for path in given.files or sorted(ROOT.glob("tests/*/test_quality_*.py")):
        text = renewed(path.resolve())
        if given.write:
            path.write_text(text)


if __name__ == "__main__":
    main()
