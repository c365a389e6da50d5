"""The build of the kernels: `core/kernels.py` compiled by Cython as `core/_kernels`, where there is a C compiler.

So with `core/list_kernels.py` and `core/bin_kernels.py`. Without Cython or a compiler the package installs all the
same, and they run as they stand. A compiled module knows the hash of its source, so that a stale one is noticed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup

NAMES = ("kernels", "list_kernels", "bin_kernels")


def extensions() -> list[Extension]:
    """Return the kernels as an optional extension; none without Cython."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    core = Path("pipesched/core")
    folder = Path("build/kernels") / core
    folder.mkdir(parents=True, exist_ok=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()  # Cython finds the types of a module in its package
    for name in NAMES:
        source = (core / f"{name}.py").read_bytes()
        mark = f"\nSOURCE = {crc32(source)}\n"
        (folder / f"_{name}.py").write_bytes(source + mark.encode())
        (folder / f"_{name}.pxd").write_bytes((core / f"{name}.pxd").read_bytes())
    is_unix = sys.platform != "win32"
    without_debug = ["-g0"] * is_unix  # a quarter of the time and four fifths of the size
    options = {"extra_compile_args": without_debug, "libraries": ["m"] * is_unix}
    made = cythonize(
        [
            Extension(f"pipesched.core._{name}", [str(folder / f"_{name}.py")], **options)  # type: ignore[arg-type]
            for name in NAMES
        ],
        quiet=True,
    )
    for extension in made:
        extension.optional = True  # cythonize makes new ones
    return made


setup(ext_modules=extensions(), options={"build_ext": {"parallel": len(NAMES)}})
