"""Compare what this build answers with the corpus (tests/data/corpus.json.gz), and say where it differs.

With --write the corpus gets the answers of this build, for the problems that it has, the commands of today, and
families that it lacks; with --draw it gets new problems too, which others than those of today may be, with another
version of hypothesis.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def written(problems: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the corpus of this build, of problems as the corpus has them."""
    from pipesched.schedulers.registry import FAMILIES
    from tests.corpus import KINDS, answered, answers_of

    runs = [[answer["run"] for answer in entry.get("runs", ())] for entry in problems]
    added = [[name, {}] for name in FAMILIES if all(name != run[0] for row in runs for run in row)]
    entries = [
        {**entry, **answers_of(entry["config"], [*row, *added])} for entry, row in zip(problems, runs, strict=True)
    ]
    return {"problems": entries, **answered(KINDS)}


def compare() -> int:
    """Print all differences; return how many there are."""
    from tests.corpus import KINDS, document_differences, in_words, problem_differences, read_corpus

    corpus = read_corpus()
    found = [one for number in range(len(corpus["problems"])) for one in problem_differences(number)]
    for kind in KINDS:
        found += [one for commands in corpus[kind] for one in document_differences(kind, commands)]
    print(in_words(found, most=len(found)) or "the same")
    return len(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the answers of this build into the corpus")
    parser.add_argument("--draw", action="store_true", help="with --write: draw new problems")
    given = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    if not given.write:
        sys.exit(bool(compare()))
    from tests.corpus import read_corpus, write_corpus

    if given.draw:
        from tests.corpus import drawn_entries

        problems = drawn_entries()
    else:
        problems = read_corpus()["problems"]
    write_corpus(written(problems))


if __name__ == "__main__":
    main()
