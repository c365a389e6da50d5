"""Writes the program of the page without comments, and without spaces and ends of lines that mean nothing.

python scripts/compact.py            # exit code 1 when the file is out of date
python scripts/compact.py --write    # after an edit of pipesched/render/html/page/*.js
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "pipesched" / "render" / "html" / "page"
PROGRAM = PAGE / "program.json"
LITERAL = re.compile(
    r"""//[^\n]*  # a comment, which is no literal, and goes
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?<=[(,=:?&|!])\x20?/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/  # a regular expression
    | `""",
    re.VERBOSE,
)
SPACES = re.compile(r" *([{}()\[\];,=<>?:&|*/%!^~]) *|(?<![+-]) ([+-]) (?![+-])")

DECLARATION = re.compile(r"let(?: |(?=[{\[]))")
SIGNS = re.compile(r"(?<=[)\]])([+-]) (?![+-])| ([+-]=)")  # behind what took the space before them
CONST = re.compile(r"\bconst\b")  # which `let` is shorter than
# Ends of lines where a statement goes on, or ends anyway (as with a block); the 0 of 0.5, and a comma behind the last.
NEEDLESS = re.compile(r"(?<![\w.])0(?=\.\d)|,(?=\n?[)\]}])|(?<=[;{},(\[=>&|?:])\n|\n(?=[)\]}.?:&|])|;\n?(?=})")


def compact(script: str) -> str:
    """Return a script without comments, and without spaces and ends of lines that mean nothing.

    Names, texts and regular expressions stay as they are, and templates but for the expressions in them. It knows as
    much of the language as `page/` uses: a regular expression stands behind a bracket, a comma or an operator. A
    template has one line, and no texts with braces or backquotes in its expressions.
    """
    parts: list[str] = []
    code, at = "", 0
    while found := LITERAL.search(script, at):
        code += script[at : found.start()]
        at = found.end() if found[0] != "`" else _end_of_template(script, found.end())
        if not found[0].startswith("//"):
            literal = script[found.start() : at].lstrip()
            parts += _compact_code(code), _compact_template(literal) if found[0] == "`" else literal
            code = ""
    return _joined("".join((*parts, _compact_code(code + script[at:]))).lstrip())


def _joined(script: str) -> str:
    """Return a compact script with neighbouring declarations as one: `let a=1;let b=2` is `let a=1,b=2`."""
    parts: list[str] = []
    declares, at = [False], 0  # of each open bracket: whether the statement in it is a declaration
    begins = True
    while at < len(script):
        if begins:
            declares[-1] = DECLARATION.match(script, at) is not None
        literal = LITERAL.match(script, at)
        end = at + 1 if literal is None else literal.end()
        if literal is not None and literal[0] == "`":
            end = _end_of_template(script, end)
        sign = script[at] if literal is None else ""
        if sign and sign in "([{":
            declares.append(False)
        elif sign and sign in ")]}":
            declares.pop()
        begins = sign in (";", "{", "\n") or (sign == "}" and not declares[-1])
        further = DECLARATION.match(script, end) if sign == ";" and declares[-1] else None
        if further is not None:
            parts.append(",")
            end, begins = further.end(), False
        else:
            parts.append(script[at:end])
        at = end
    return "".join(parts)


def _compact_code(code: str) -> str:
    """Return what stands between literals without needless letters, spaces, ends of lines and semicolons."""
    short = NEEDLESS.sub("", re.sub(r"\s*\n\s*", "\n", SIGNS.sub(r"\1\2", SPACES.sub(r"\1\2", CONST.sub("let", code)))))
    return re.sub(r"\b(true|false)\b", lambda found: "!0" if found[0] == "true" else "!1", short)


def _compact_template(text: str) -> str:
    parts, at = [text[0]], 1
    while text[at] != "`":
        begin, at = at, at + 1 + (text[at] == "\\")
        if text.startswith("${", begin):
            at = _end_of_expression(text, begin + 2)
            parts.append(f"${{{compact(text[begin + 2 : at - 1])}}}")
        else:
            parts.append(text[begin:at])
    return "".join((*parts, text[at:]))


def _end_of_template(script: str, at: int) -> int:
    while script[at] != "`":
        is_expression = script.startswith("${", at)
        at = _end_of_expression(script, at + 2) if is_expression else at + 1 + (script[at] == "\\")
    return at + 1


def _end_of_expression(script: str, at: int) -> int:
    """Return where an expression of a template ends that begins at a position; it may hold further templates."""
    depth = 1  # of braces
    while depth:
        depth += (script[at] == "{") - (script[at] == "}")
        at = _end_of_template(script, at + 1) if script[at] == "`" else at + 1
    return at


def written() -> str:
    """Return the content of the file: each part of the program by its name."""
    parts = {path.stem: compact(path.read_text(encoding="utf-8")) for path in sorted(PAGE.glob("*.js"))}
    return json.dumps(parts, indent=0, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file, or say whether it is out of date."""
    if sys.argv[1:] == ["--write"]:
        PROGRAM.write_text(written(), encoding="utf-8")
    elif not PROGRAM.exists() or PROGRAM.read_text(encoding="utf-8") != written():
        print(f"{PROGRAM} is out of date: python scripts/compact.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
