"""The package as the rules of its house see it: rooms on levels, imports, classes, numbers and texts, by `ast` alone.

`House` holds the parsed files; each rule is a function that yields its faults as "file:line: what". Nothing of the
package is imported, so that a rule can judge a copy with one line changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
ROOT = Path(__file__).parent.parent
LEVELS = (  # from the top down: a room imports itself and rooms of lower levels, never another one of its own level
    ("__main__",),
    ("__init__", "cli"),
    ("comparing", "explore", "runtime", "testing"),
    ("file_formats",),
    ("render",),
    ("documents",),
    ("tuning",),
    ("config",),
    ("estimation", "solver", "analysis"),
    ("results",),
    ("schedulers", "text"),
    ("pipeline", "hls", "executors"),
    ("core",),
    ("checks",),
    ("errors", "display", "version"),
)
FLOOR = {room: -number for number, rooms in enumerate(LEVELS) for room in rooms}
MOST_ROOMS, MOST_AT_THE_TOP, MOST_LINES, MOST_STATEMENTS = 26, 7, 800, 60
NAMES_MODULES = {  # files that name modules as text, loaded when used, which may stand above them
    "__init__", "results/kinds", "schedulers/registry", "schedulers/own", "cli/app", "core/cpsat",
    "file_formats/files", "runtime/__init__", "runtime/model_source",
}  # fmt: skip
FACTS_OF_FRAMEWORKS = "results/handover/"  # may name families: what frameworks have
AHEAD, THREADS = "solver/ahead", "solver/neighbourhood"  # what may start work of a solve beside it
SHOWN = {"message", "reason", "source", "would_fit", "label", "title", "note", "advice", "change"}  # made for people
PARSERS = {
    "split", "rsplit", "splitlines", "partition", "rpartition", "startswith", "endswith", "removeprefix",
    "removesuffix", "find", "index",
}  # fmt: skip
POLICY = "solver/policy"
KERNELS = ("core/kernels", "core/list_kernels", "core/bin_kernels")  # long functions: a call costs as much as a step
CODES = re.compile(  # no sizes: codes, sentinels, and defaults of the parameters of other functions
    r"_?(VERSION|FORMAT|NONE|NOTHING|NOBODY|NO_HOP|NEVER|NEVER_FULL|UNLIMITED|IMPOSSIBLE|UNKNOWN|INFINITE|DEFAULTS|[A-Z]+_CODE)$"
)
WRITER = "text/writer"
SECTIONS = re.compile(r"^\s*(costs|memory|parallel|batch|training|hardware|model|cluster|tune):\s*(\n|$)", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """A file of the package; `name` is its path without the suffix, from the package: "solver/variant"."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text)

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def all_of(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of a kind, wherever they stand."""
        return self._by_type.get(kind, [])  # type: ignore[return-value]

    @property
    def room(self) -> str:
        """The folder or file at the top of the package that this file belongs to."""
        return self.name.partition("/")[0]

    @property
    def dotted(self) -> str:
        """The name under which others import it, below the package."""
        return self.name.removesuffix("/__init__").replace("/", ".")

    @cached_property
    def texts(self) -> list[ast.Constant]:
        """The constant texts that are no docstrings."""
        said = {id(node.value) for node in self.all_of(ast.Expr)}
        return [node for node in self.all_of(ast.Constant) if isinstance(node.value, str) and id(node) not in said]

    def at(self, line: int) -> str:
        """Return the place of a line, as faults name it."""
        return f"pipesched/{self.name}.py:{line}"


@dataclass(frozen=True)
class House:
    """All files of the package by their names, and the text of CONTRIBUTING.md."""

    modules: dict[str, Module]
    contributing: str

    @cached_property
    def by_dotted(self) -> dict[str, Module]:
        """The modules by the names under which they are imported."""
        return {module.dotted: module for module in self.modules.values()}

    @cached_property
    def imports(self) -> list[tuple[Module, int, Module]]:
        """Who imports whom, and in which line; imports in functions and under TYPE_CHECKING count."""
        found = []
        for module in self.modules.values():
            for node in module.all_of(ast.ImportFrom):
                if (node.module or "").partition(".")[0] == "pipesched":
                    below = (node.module or "").partition(".")[2]
                    for alias in node.names:
                        inner = f"{below}.{alias.name}".lstrip(".")
                        target = self.by_dotted.get(inner) or self.by_dotted.get(below or "__init__")
                        if target is not None and target is not module:
                            found.append((module, node.lineno, target))
        return found

    def changed(self, name: str, text: str) -> House:
        """Return a copy in which one file has another text."""
        return House({**self.modules, name: Module(name, text)}, self.contributing)


def read_house(root: Path = ROOT) -> House:
    """Read the package of a checkout."""
    package = root / "pipesched"
    files = sorted(package.rglob("*.py"))
    names = [file.relative_to(package).with_suffix("").as_posix() for file in files]
    modules = {name: Module(name, file.read_text("utf-8")) for name, file in zip(names, files, strict=True)}
    return House(modules, (root / "CONTRIBUTING.md").read_text("utf-8"))


def imports_point_down(house: House) -> Iterator[str]:
    """Yield imports of a room on the same level or a higher one, of the package itself, and rooms without a level."""
    for module in house.modules.values():
        if module.room not in FLOOR:
            yield f"{module.at(1)}: the room {module.room} has no level"
        for plain in module.all_of(ast.Import):
            if any(alias.name.startswith("pipesched") for alias in plain.names):
                yield f"{module.at(plain.lineno)}: imports the package; import names from their modules"
        for node in module.all_of(ast.ImportFrom):
            if node.level or node.module == "pipesched":
                yield f"{module.at(node.lineno)}: imports from the package itself"
    for module, line, target in house.imports:
        if module.room != target.room and FLOOR.get(target.room, 1) >= FLOOR.get(module.room, 1):
            yield f"{module.at(line)}: {module.room} imports {target.name}, which stands on its level or above"


def no_circle_of_files(house: House) -> Iterator[str]:
    """Yield a file of each circle of imports."""
    targets: dict[str, set[str]] = {name: set() for name in house.modules}
    for module, _, target in house.imports:
        if module.name != "__init__":
            targets[module.name].add(target.name)
    done: set[str] = set()
    path: list[str] = []

    def walk(name: str) -> Iterator[str]:
        if name in path:
            yield f"pipesched/{name}.py:1: imports itself through {' -> '.join(path[path.index(name) + 1 :])}"
        elif name not in done:
            path.append(name)
            for target in sorted(targets[name]):
                yield from walk(target)
            path.pop()
            done.add(name)

    for name in house.modules:
        yield from walk(name)


def modules_as_text_point_down(house: House) -> Iterator[str]:
    """Yield texts that name a module above their own room, and computed imports, where no table of names may stand."""
    for module in house.modules.values():
        if module.name in NAMES_MODULES:
            continue
        for text in module.texts:
            target = house.by_dotted.get(str(text.value).removeprefix("pipesched.").partition(":")[0])
            named = "." in str(text.value) and target is not None and target.room != module.room
            if named and target is not None and FLOOR.get(target.room, 1) >= FLOOR.get(module.room, 1):
                yield f"{module.at(text.lineno)}: names {text.value!r}, which stands above"
        for node in module.all_of(ast.Call):
            if _name_of(node.func) in ("import_module", "__import__"):
                yield f"{module.at(node.lineno)}: imports a module by a text"


def few_rooms(house: House) -> Iterator[str]:
    """Yield rooms and files at the top beyond what one person can hold in the head."""
    rooms = sorted({module.room for module in house.modules.values()})
    if len(rooms) > MOST_ROOMS:
        yield f"pipesched/: {len(rooms)} rooms, at most {MOST_ROOMS}: {', '.join(rooms)}"
    top = [name for name in house.modules if "/" not in name]
    if len(top) > MOST_AT_THE_TOP:
        yield f"pipesched/: {len(top)} files at the top, at most {MOST_AT_THE_TOP}: {', '.join(top)}"


def tree_of(house: House) -> str:
    """Return the tree of rooms, highest first, with the level and the first sentence of the docstring of each."""
    lines = ["pipesched/"]
    for number, rooms in enumerate(LEVELS):
        for room in rooms:
            module = house.modules.get(room) or house.modules[f"{room}/__init__"]
            shown = f"{room}.py" if module.name == room else f"{room}/"
            sentence = (ast.get_docstring(module.tree) or "").partition("\n\n")[0].replace("\n", " ")
            lines.append(f"  {len(LEVELS) - number:>2}  {shown:<15}{sentence}")
    return "\n".join(lines) + "\n"


def tree_is_written_down(house: House) -> Iterator[str]:
    """Yield the tree of rooms where CONTRIBUTING.md has another one."""
    if tree_of(house) not in house.contributing:
        yield f"CONTRIBUTING.md:1: the tree of rooms must read:\n{tree_of(house)}"


def one_class_a_name(house: House) -> Iterator[str]:
    """Yield classes whose name stands elsewhere too, private ones included."""
    first: dict[str, str] = {}
    for module in house.modules.values():
        for node in module.all_of(ast.ClassDef):
            place = first.setdefault(node.name, module.at(node.lineno))
            if place != module.at(node.lineno):
                yield f"{module.at(node.lineno)}: class {node.name} stands at {place} too"


def small_pieces(house: House) -> Iterator[str]:
    """Yield files that are too long, and functions that are too long without docstring (of a command, signature)."""
    for module in house.modules.values():
        if (lines := module.text.count("\n")) > MOST_LINES:
            yield f"{module.at(1)}: {lines} lines, at most {MOST_LINES}"
        if module.name in KERNELS:
            continue
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*module.all_of(ast.FunctionDef)]
        for node in [*functions, *module.all_of(ast.AsyncFunctionDef)]:
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            head = 0 if module.room == "cli" and node.name == "command" else node.body[0].lineno - node.lineno
            if (lines := (node.end_lineno or 0) - first.lineno + 1 + head) > MOST_STATEMENTS:
                yield f"{module.at(node.lineno)}: {node.name} has {lines} lines, at most {MOST_STATEMENTS}"


def policy_has_the_numbers(house: House) -> Iterator[str]:
    """Yield module-level numbers of the solver that say how much time, how many tries or how large, out of place."""
    for module in house.modules.values():
        if module.room != "solver" or module.name == POLICY:
            continue
        for node in module.tree.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
                if _has_number(node.value) and not all(CODES.match(name) for name in names):
                    yield f"{module.at(node.lineno)}: {', '.join(names)} is a number; it belongs in {POLICY}.py"
    if POLICY in house.modules:
        yield from _fields_without_a_sentence(house.modules[POLICY])


def _fields_without_a_sentence(policy: Module) -> Iterator[str]:
    """Yield what a policy has that no sentence explains, and classes that can be changed."""
    lines = policy.text.splitlines()
    for node in policy.all_of(ast.ClassDef):
        if not any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield f"{policy.at(node.lineno)}: {node.name} is no frozen dataclass"
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                own, before = lines[(field.end_lineno or 0) - 1], lines[field.lineno - 2].strip()
                if "#" not in own and not before.startswith("#"):
                    yield f"{policy.at(field.lineno)}: no sentence says what the field is"


def families_are_named_by_schedulers(house: House, families: Collection[str]) -> Iterator[str]:
    """Yield lists of family names outside the schedulers; a constant DEFAULT or DEFAULTS may name some."""
    for module in house.modules.values():
        if module.room == "schedulers" or module.name.startswith(FACTS_OF_FRAMEWORKS):
            continue
        defaults = {
            id(inner)
            for node in module.tree.body
            if isinstance(node, ast.Assign) and _name_of(node.targets[0]) in ("DEFAULT", "DEFAULTS")
            for inner in ast.walk(node)
        }
        lists = [*module.all_of(ast.Tuple), *module.all_of(ast.List), *module.all_of(ast.Set)]
        for node in [*lists, *module.all_of(ast.Dict)]:
            if id(node) not in defaults:
                entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
                named = [str(e.value) for e in entries if isinstance(e, ast.Constant) and e.value in families]
                if len(named) > 1:
                    yield f"{module.at(node.lineno)}: lists families: {', '.join(named)}"


def shown_texts_are_not_parsed(house: House) -> Iterator[str]:
    """Yield calls that take a text apart which was made for people."""
    for module in house.modules.values():
        for node in module.all_of(ast.Call):
            if isinstance(node.func, ast.Attribute):
                taken = [node.func.value] if node.func.attr in PARSERS else []
                if _name_of(node.func.value) == "re":
                    taken = node.args[1:]
                for subject in taken:
                    if isinstance(subject, ast.Attribute) and subject.attr in SHOWN:
                        yield f"{module.at(node.lineno)}: takes the text `{ast.unparse(subject)}` apart"
        for test in module.all_of(ast.Compare):
            where, is_within = test.comparators[0], isinstance(test.ops[0], (ast.In, ast.NotIn))
            if is_within and isinstance(test.left, ast.Constant) and _name_of(where) in SHOWN - {"would_fit", "advice"}:
                yield f"{module.at(test.lineno)}: looks for a word in `{ast.unparse(where)}`"


def one_writer_of_configs(house: House) -> Iterator[str]:
    """Yield what writes keys of a config, or YAML, outside the writer."""
    for module in house.modules.values():
        if module.name == WRITER:
            continue
        for node in module.all_of(ast.Attribute):
            if node.attr in ("safe_dump", "dump") and _name_of(node.value) == "yaml":
                yield f"{module.at(node.lineno)}: writes YAML; {WRITER}.py does that"
        for text in module.texts:
            if SECTIONS.search(str(text.value)):
                yield f"{module.at(text.lineno)}: writes a section of a config; {WRITER}.py does that"


def one_look_ahead(house: House) -> Iterator[str]:
    """Yield files of the solver beside one that send work to run beside them."""
    for module in house.modules.values():
        if module.room != "solver" or module.name in (AHEAD, THREADS):
            continue
        for node in module.all_of(ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "submit":
                yield f"{module.at(node.lineno)}: sends work ahead; {AHEAD}.py does that"


def _name_of(node: ast.AST) -> str:
    """Return the name that an expression is, or ends with."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _has_number(value: ast.AST) -> bool:
    """Return whether an expression is made of numbers: one, a sum or product, a tuple of them, or a mapping to them."""
    if isinstance(value, ast.Dict):
        return any(_has_number(entry) for entry in value.values)
    if isinstance(value, (ast.Tuple, ast.List)):
        return any(_has_number(entry) for entry in value.elts)
    if isinstance(value, ast.UnaryOp):
        return _has_number(value.operand)
    if isinstance(value, ast.BinOp):
        return _has_number(value.left) or _has_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)
