# Sourced by demo and test: a virtual environment with pipesched in it, made if there is none (PIPESCHED_VENV, or .venv).
venv=${PIPESCHED_VENV:-.venv}
bin=$venv/bin
if [ ! -x "$bin/pipesched" ] || [ ! -x "$bin/pytest" ]; then
    ${PYTHON:-python3} -m venv "$venv"
    "$bin/python" -m pip install --quiet --disable-pip-version-check -e ".[dev]"
fi
