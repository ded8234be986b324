# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tools beside it: a virtual environment in the checkout with this package installed.
#
#   setup EXTRA...     sets $venv; installs again only when pyproject.toml changed or one of these extras is new
#   torch_cpu          installs torch's CPU build, where it is within reach
#   packages NAME...   installs Debian packages, where that is possible; elsewhere only says that they are missing
#
# MRC_PYTHON names the Python that a new environment is made with, in place of the first one on PATH that is new enough.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
# Looked for, not imported: each tool begins with this.
has_compiler='import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ("Cython", "setuptools"))))'

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

python() {
    local candidate
    local candidates=(python3 python3.11 python3.12 python3.13 python3.14)
    [ -z "${MRC_PYTHON-}" ] || candidates=("$MRC_PYTHON")
    for candidate in "${candidates[@]}"; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    [ -z "${MRC_PYTHON-}" ] || fail "MRC_PYTHON is $MRC_PYTHON, which is no Python 3.11 or newer"
    fail "Python 3.11 or newer is needed: apt install python3"
}

packages() {
    [ $# -gt 0 ] || return 0
    local lock=(-o DPkg::Lock::Timeout=600) # another of these may be at it
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $*" >&2
        { DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${lock[@]}" "$@" ||
            { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${lock[@]}" "$@"; }; } >/dev/null ||
            fail "could not install $*"
    else
        echo "not all of this can run without $*: apt install $*" >&2
    fi
}

# What a tool does as soon as what the package depends on is there, beside the compilation: it defines this anew.
meanwhile() { :; }

setup() {
    local jobs=1
    if installed "$@"; then
        meanwhile
    else
        install_package "$@"
        # One for each processor. Where all is compiled already, starting them takes longer than looking through it.
        jobs=0
    fi
    # The datapath again where its sources changed; without a compiler it runs interpreted, as with MRC_CORE=python.
    if [ "${MRC_CORE:-}" != python ] && "$venv/bin/python" -c "$has_compiler" 2>/dev/null; then
        "$venv/bin/python" "$root/hatch_build.py" --if-needed || echo "the datapath is not compiled: it runs interpreted" >&2
    fi
    # Where PYTHONDONTWRITEBYTECODE is set, as in many containers, every start would compile every module: half a second.
    # Elsewhere all are compiled once, after an installation; what changes later is compiled when it is imported.
    if [ "$jobs" = 0 ] || [ -n "${PYTHONDONTWRITEBYTECODE:-}" ]; then
        "$venv/bin/python" -m compileall -qq -j "$jobs" "$root/mrc" || true
    fi
}

# torch_cpu: torch without CUDA and what torch's own cases want, for the tests of mrc.torch. Pinned to a build that has none, so that pip can never take
# PyPI's, which brings gigabytes of it along. Fails where that build is not within reach. Of its 2,000 modules and those of sympy few are ever
# imported: these are compiled then, and not all when they are installed.
torch_cpu() {
    "$venv/bin/python" -c 'import torch, ml_dtypes, expecttest, accelerate' 2>/dev/null && return
    local wanted=("torch==2.13.0+cpu" "ml-dtypes>=0.5" "expecttest>=0.2" "accelerate>=1.0")
    echo "installing ${wanted[0]}" >&2
    "$venv/bin/python" -m pip install --no-compile --quiet --quiet --disable-pip-version-check "${wanted[@]}" >&2 ||
        "$venv/bin/python" -m pip install --no-compile --quiet --quiet --disable-pip-version-check --retries 1 \
            --extra-index-url https://download.pytorch.org/whl/cpu "${wanted[@]}" >&2
}

version() {
    sha256sum "$root/pyproject.toml" | cut -c1-16
}

installed() {
    local version have wanted
    version=$(version)
    for have in "$venv"/.installed-*-"$version"; do
        [ -e "$have" ] || continue
        have=${have##*/.installed-}
        have=,${have%-"$version"},
        for wanted in "$@"; do
            [[ $have = *,"$wanted",* ]] || continue 2
        done
        return 0
    done
    return 1
}

# dependencies EXTRA...: what the package and these extras ask for, a line each.
dependencies() {
    "$venv/bin/python" - "$root/pyproject.toml" "$@" <<'END'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
print(*project["dependencies"], *(each for extra in sys.argv[2:] for each in project["optional-dependencies"][extra]), sep="\n")
END
}

install_package() {
    local extras interpreter
    extras=$(IFS=,; echo "$*")
    if [ ! -x "$venv/bin/python" ]; then
        interpreter=$(python)
        "$interpreter" -c 'import venv, ensurepip' 2>/dev/null ||
            fail "the venv module is missing: apt install python3-venv"
        echo "making a virtual environment in $venv" >&2
        "$interpreter" -m venv "$venv" || fail "could not make $venv: apt install python3-venv"
        # That of Debian 12 takes twice as long for what this package depends on.
        "$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --upgrade pip >&2 || true
    fi
    # Optional: without a compiler the datapath runs interpreted.
    command -v cc >/dev/null || (packages gcc libc6-dev python3-dev) || true
    local compiling=
    command -v cc >/dev/null && compiling=", and compiling it: two to five minutes"
    echo "installing mrc${extras:+ [$extras]} and what it depends on$compiling" >&2
    # The one computes, the other waits for an index. Ctrl-C is for both: bash has what is in the background ignore it.
    local pip=("$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check) package wanted failed
    (
        trap - INT
        exec "${pip[@]}" --no-deps --editable "$root" >&2
    ) &
    package=$!
    failed="installing failed: is a Python package index within reach? See the lines above"
    mapfile -t wanted < <(dependencies "$@")
    "${pip[@]}" "${wanted[@]}" >&2 || {
        kill "$package" 2>/dev/null || true
        fail "$failed"
    }
    meanwhile
    wait "$package" || fail "$failed"
    # A wheel has them; an installation that leaves the sources where they are has not.
    "$venv/bin/python" -m mrc.cli.man_pages "$venv/share/man/man1" || echo "no manual pages were written" >&2
    touch "$venv/.installed-${extras:-plain}-$(version)"
}
