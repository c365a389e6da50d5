"""The documentation is executed: what a page says a command prints is what it prints."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import docs
import pipesched
import pipesched.hls
from pipesched.cli.app import COMMANDS
from pipesched.schedulers.registry import ALIASES, FAMILIES, family
from tests.examples import at_night_but

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_own_families")]

ROOT = Path(__file__).parent.parent


WITH_COMMANDS = [page for page in docs.PAGES if "\n$ " in page.read_text(encoding="utf-8")]
LONG_NAMES = {
    "best-layout.md", "from-a-config-json.md", "real-model.md", "packed-sequences.md", "estimate.md", "eight-ranks.md",
}  # fmt: skip
LONG = {page for page in WITH_COMMANDS if page.name in LONG_NAMES}
WITH_PYTHON = [page for page in docs.PAGES if "\n>>> " in page.read_text(encoding="utf-8")]


def name_of(page: Path) -> str:
    """The name of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", at_night_but({*WITH_COMMANDS} - LONG, WITH_COMMANDS), ids=name_of)
def test_every_example_prints_what_the_page_says(page: Path) -> None:
    """Running the commands of a page again gives the page."""
    assert docs.refreshed(page) == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_examples_give_what_the_page_says(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python examples of a page, run in the root of the repository."""
    monkeypatch.chdir(ROOT)
    results = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert results.attempted >= 5
    assert results.failed == 0


@pytest.mark.parametrize("page", docs.PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file of the repository, and a heading of it where it names one."""
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor[1:] in {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}, anchor


def run_script(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """What a script does in a process of its own."""
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, encoding="utf-8", check=False)


MADE_BY = ["scripts/cli_reference.py", "scripts/compact.py", "scripts/notebook.py", "scripts/stubs.py"]


@pytest.mark.parametrize("script", at_night_but({*MADE_BY} - {"scripts/notebook.py"}, MADE_BY))
def test_made_pages_are_up_to_date(script: str) -> None:
    """The commands' reference says what the commands say, and the notebook, executed again, shows what it shows."""
    done = run_script(script)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
def test_the_gallery_has_twelve_pictures_and_all_are_up_to_date() -> None:
    """Each command of the gallery draws the picture below it."""
    done = run_script("scripts/gallery.py")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(list((ROOT / "docs" / "gallery").glob("*.svg"))) == 12


def test_the_tour_runs(tmp_path: Path) -> None:
    """The script of the tutorial has 30 lines, uses public names only, and writes and reads back its files."""
    text = (ROOT / "docs" / "tutorial" / "tour.py").read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) <= 30
    assert set(re.findall(r"pipesched\.(\w+)", text)) <= set(pipesched.__all__)
    done = run_script("docs/tutorial/tour.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "best: zb-h1" in done.stdout
    assert "breaks no rule" in done.stdout
    assert "plan.csv holds Outcome" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["front.json", "plan.csv", "plan.json", "plan.svg"]


MOST_WORDS = 84_900  # of docs/: this number only falls
MOST_LONG = 0.04  # the share of sentences of more than 30 words
MARKUP = re.compile(r"^```.*?^```$|^(?:[|#!]|    )[^\n]*$|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
ENDS = re.compile(r"(?<=[.!?:])[)\"*`]*\s+|\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )")


def sentences(text: str) -> list[str]:
    """The sentences of a page; code, tables, headings and the ends of links are none."""
    return [one for one in ENDS.split(MARKUP.sub("", text)) if one.strip()]


def test_sentences() -> None:
    """A sentence ends with its mark, a colon, its paragraph or its entry of a list."""
    text = "# No\n\nOne, [two](a.md). (Three!)\nFour:\n\n* five\n* six\n\n| no |\n```sh\nno. no.\n```\nSeven"
    assert [one.split() for one in sentences(text)] == [
        ["One,", "[two."], ["(Three!"], ["Four:"], ["*", "five"], ["*", "six"], ["Seven"]]  # fmt: skip


def test_the_docs_grow_no_more() -> None:
    """What is added makes something else deletable; words are what blanks divide, in code and tables too."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    assert sum(len(text.split()) for text in texts) <= MOST_WORDS
    lengths = [len(sentence.split()) for text in texts for sentence in sentences(text)]
    assert sum(length > 30 for length in lengths) <= MOST_LONG * len(lengths)


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    """At most 170 lines with one picture, and the examples of the three main commands fit a terminal of 80 columns."""
    assert len(README.splitlines()) <= 170
    assert README.count("![") == 1
    examples = docs.BLOCK.findall(README)
    commands = [example.splitlines()[0].split()[:3] for example in examples]
    assert commands == [["$", "pipesched", name] for name in ("compare", "solve", "tune")]
    assert max(len(line) for example in examples for line in example.splitlines()[1:]) <= 80


def test_an_example_may_show_the_first_or_last_lines() -> None:
    """`| head -2` or `| tail -2` behind a command leaves two lines, and columns are those that are asked for."""
    whole = docs.output_of("pipesched list 1f1b", 60).splitlines()
    assert docs.output_of("pipesched list 1f1b | head -2", 60).splitlines() == whole[:2]
    assert docs.output_of("pipesched list 1f1b | tail -2", 60).splitlines() == whole[-2:]
    assert max(map(len, whole)) <= 60 < max(map(len, docs.output_of("pipesched list 1f1b").splitlines()))


def test_the_table_of_commands_names_every_command() -> None:
    """The hand-written table above the options of all commands has a row for each of them."""
    head = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert set(re.findall(r"^\| `pipesched (\w+)", head, re.MULTILINE)) == set(COMMANDS)


def test_the_start_page_leads_to_every_page() -> None:
    """Links lead from docs/index.md to every page of docs/, and the site lists each."""
    folder = ROOT / "docs"
    reached, pages = set[Path](), [folder / "index.md"]
    while pages:
        page = pages.pop()
        if page not in reached and page.suffix == ".md" and folder in page.parents:
            reached.add(page)
            links = re.findall(r"\]\(([^)#:\s]+)", page.read_text(encoding="utf-8"))
            pages += [(page.parent / link).resolve() for link in links]
    assert reached == set(folder.rglob("*.md"))
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- (?:\w+: )?([\w/-]+\.md)$", site, re.MULTILINE)
    assert sorted(listed) == sorted(["contributing.md", *(page.relative_to(folder).as_posix() for page in reached)])


def test_pages_of_research_say_so() -> None:
    """The pages that docs/reference/stability.md calls research are those that begin with the word."""
    folder, here = ROOT / "docs", ROOT / "docs" / "reference"
    research = (here / "stability.md").read_text(encoding="utf-8").partition("\n## Research\n")[2].partition("\n## ")[0]
    listed = {(here / link).resolve() for link in re.findall(r"\]\(([\w./-]+)\)", research)} - {ROOT / "CHANGELOG.md"}
    assert listed == {page for page in folder.rglob("*.md") if "\n\n*Research: [" in page.read_text(encoding="utf-8")}


def test_python_examples_of_the_package() -> None:
    """The Python examples of the packages' docstrings give what they say."""
    for package in (pipesched, pipesched.hls):
        results = doctest.testmod(package)
        assert results.attempted >= 4
        assert results.failed == 0


SCHEDULES = (ROOT / "docs" / "reference" / "algorithms.md").read_text(encoding="utf-8")


def _section(name: str) -> str:
    """The section of a family in docs/reference/algorithms.md, on one line."""
    _, _, rest = SCHEDULES.partition(f"\n## {name}\n")
    return " ".join(rest.partition("\n## ")[0].split())


def test_the_schedules_stand_in_the_order_of_the_list() -> None:
    """Every registered family has a section, and no other name has one."""
    headings = re.findall(r"^## ([a-z0-9-]+)$", SCHEDULES, re.MULTILINE)
    assert headings == list(FAMILIES)


def test_the_table_of_schedules_names_them_all() -> None:
    """The table at the top of the page has every family once, with its other names in brackets."""
    rows = SCHEDULES.partition("| --- | --- |\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`([^`]+)`", rows)) == sorted([*FAMILIES, *ALIASES])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_section_draws_its_family_and_says_where_it_comes_from(name: str) -> None:
    """The chart, with what the list says of needs, source and who else has it."""
    section, one = _section(name), family(name)
    assert re.search(rf"\$ pipesched compare {name} (--[a-z]+ \d+ )*--width 90", section)
    assert f"Needs: {one.needs}. Source: {one.paper}." in section
    assert one.elsewhere == "none" or f"Also in: {one.elsewhere}." in section
