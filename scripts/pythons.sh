# Sourced by the gate: `pythons` prints, one a line, each version from 3.10 to 3.13 with a Python of it on this machine.
pythons() {
    local version candidate
    for version in 3.10 3.11 3.12 3.13; do
        for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python "${pythonLocation:-}"/bin/python; do
            if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]; then
                echo "$version $candidate"
                break
            fi
        done
    done
}
