"""What scripts/release does before it builds: the notes of a version, and files that agree about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipesched import __version__
from release_notes import release_notes

ROOT = Path(__file__).parents[2]
CHANGELOG = (
    "# Changelog\n\n## 1.1.0 (2027-02-01)\n\n### New\n\n* [One](docs/one.md).\n\n## 1.0.0 (2026-12-01)\n\n* Two.\n"
)


def test_the_notes_are_the_section_of_the_version() -> None:
    notes = release_notes("1.1.0", CHANGELOG, "version: 1.1.0\n")
    link = "https://github.com/pipesched/pipesched/blob/v1.1.0/docs/one.md"
    assert notes == f"# pipesched 1.1.0\n\n## New\n\n* [One]({link}).\n"


@pytest.mark.parametrize(
    ("version", "changelog", "citation", "said"),
    [
        ("1.2.0", CHANGELOG, "version: 1.2.0\n", "CHANGELOG.md is about 1.1.0, the package about 1.2.0"),
        ("1.1.0", CHANGELOG, "version: 1.0.0\n", "CITATION.cff is about 1.0.0, the package about 1.1.0"),
        ("1.1.0", CHANGELOG, "title: x\n", "CITATION.cff is about no version, the package about 1.1.0"),
        ("1.1.0", "## 1.1.0 (unreleased)\n\n## 1.0.0 (x)\n\n* Two.\n", "version: 1.1.0\n", "says nothing of 1.1.0"),
    ],
)
def test_a_file_about_another_version_stops_the_release(version: str, changelog: str, citation: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        release_notes(version, changelog, citation)


def test_the_files_of_the_repository_agree() -> None:
    """The package, the changelog and the citation are about one version, 1.0.0 or later."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    assert release_notes(__version__, *texts).startswith(f"# pipesched {__version__}\n\n")
    assert int(__version__.partition(".")[0]) >= 1
