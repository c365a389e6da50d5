"""The build of the kernels: `core/kernels.py` compiled by Cython as `core/_kernels`, where there is a C compiler.

Without Cython or a compiler the package installs all the same, and `core/kernels.py` runs as it stands. The compiled
module knows the hash of its source, so that a stale one is noticed.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup


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
    source = (core / "kernels.py").read_bytes()
    mark = f'\nSOURCE = "{sha256(source).hexdigest()}"\n'
    (folder / "_kernels.py").write_bytes(source + mark.encode())
    (folder / "_kernels.pxd").write_bytes((core / "kernels.pxd").read_bytes())
    made = cythonize([Extension("pipesched.core._kernels", [str(folder / "_kernels.py")])], quiet=True)
    for extension in made:
        extension.optional = True  # cythonize makes new ones
    return made


setup(ext_modules=extensions())
