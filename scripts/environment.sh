#!/bin/sh
# environment.sh LOCK...: .venv with what requirements/LOCK.txt lists, every file checked against its hash.
#
# The environment keeps a copy of each lock installed in it. One that equals its copy costs a comparison and no
# network; one without a copy is installed; one that differs from its copy has the environment made anew.
set -eu

venv=.venv
python=${PYTHON:-python3}

fail() {
    echo "environment: $1" >&2
    exit 1
}

version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

is_installed() {
    cmp -s "requirements/$1.txt" "$venv/locks/$1.txt"
}

is_stale() {
    version "$venv/bin/python" >/dev/null 2>&1 || return 0
    ls "$venv"/locks/*.txt >/dev/null 2>&1 || return 0 # an earlier installation was interrupted
    for copy in "$venv"/locks/*.txt; do
        is_installed "$(basename "$copy" .txt)" || return 0
    done
    [ -z "${PYTHON_ASKED:-}" ] || [ "$(version "$python")" = "$(version "$venv/bin/python")" ] || return 0
    return 1
}

check_python() {
    version "$python" >/dev/null 2>&1 ||
        fail "'$python' does not run; name a Python 3.11 or newer: make study PYTHON=python3.11"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "'$python' is Python $(version "$python"); name a Python 3.11 or newer: make study PYTHON=python3.11"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "'$python' has no venv module; install it (Debian, Ubuntu: apt-get install python3-venv) or name another"
}

install() {
    echo "environment: installing requirements/$1.txt into $venv"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check \
        --require-hashes -r "requirements/$1.txt" ||
        fail "requirements/$1.txt could not be installed; pip's message above says why"
    mkdir -p "$venv/locks"
    cp "requirements/$1.txt" "$venv/locks/$1.txt"
}

for lock in "$@"; do
    [ -f "requirements/$lock.txt" ] ||
        fail "there is no lock '$lock'; there are: $(cd requirements && echo *.txt | sed 's/\.txt//g')"
done
if is_stale; then
    check_python
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "'$python' could not make $venv; its message above says why"
fi
for lock in "$@"; do
    is_installed "$lock" || install "$lock"
done
