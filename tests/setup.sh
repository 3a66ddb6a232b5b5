#!/bin/sh
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Sets up what the Makefile's targets need, and does nothing if it exists already.
#   tests/setup.sh venv      build/venv and build/collections
#   tests/setup.sh lock      tests/requirements.lock from tests/requirements.txt (ARGS=--upgrade: with newer versions)
#   tests/setup.sh packages  the lab's Debian packages (tests/lab/apt-packages.txt)
#   tests/setup.sh promtool  build/promtool, build/prometheus and build/prometheus-node-exporter, which test the alerts and dashboards
#   tests/setup.sh browser   Chromium, build/nginx and build/caddy, which test the page of the fleet
#   tests/setup.sh recorder  build/recorder, which records a terminal and draws it
set -eu
cd "$(dirname "$0")/.."
# dockerd, debootstrap and iptables are in sbin, which is not in every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

say() { printf '%s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Prints the packages without their "?", except those that this release lacks.
known() {
    for name in "$@"; do
        case $name in
            *'?') apt-cache show "${name%?}" >/dev/null 2>&1 || continue
                printf '%s ' "${name%?}" ;;
            *) printf '%s ' "$name" ;;
        esac
    done
}

# Installs Debian packages, or prints the command if that is not possible.
install_packages() {
    command -v apt-get >/dev/null || die "these are missing, and there is no apt-get to install them with: $*"
    [ "$(id -u)" = 0 ] || die "these packages are missing, please run: sudo apt-get install --no-install-recommends $(known "$@")"
    say "Installing packages: $*"
    mkdir -p build
    apt "$@" >build/apt.log 2>&1 </dev/null || { tail -n 20 build/apt.log >&2; die "apt-get failed, see build/apt.log"; }
}

apt() {
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get update -q -o Acquire::Retries=3 || return
    # shellcheck disable=SC2046 # a list
    apt-get install -q -y --no-install-recommends -o Acquire::Retries=3 $(known "$@")
}

is_installed() { # $1: package, $2: how it is recognised
    case $2 in
        dpkg) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
        /*) [ -e "$2" ] ;;
        *) command -v "$2" >/dev/null ;;
    esac
}

packages() {
    missing=
    while read -r package probe _; do
        case $package in '' | '#'*) continue ;; esac
        is_installed "${package%"?"}" "$probe" || missing="$missing $package"
    done <tests/lab/apt-packages.txt
    # shellcheck disable=SC2086 # a list
    [ -z "$missing" ] || install_packages $missing
}

# Unpacks one program of a Debian package into build/, because the installed package would start a server.
unpack_program() { # $1: package, $2: the program's path in the package
    name=${2##*/}
    if [ -x "build/$name" ]; then return; fi
    mkdir -p build/deb
    if command -v "$name" >/dev/null; then
        ln -sf "$(command -v "$name")" "build/$name"
        return
    fi
    command -v apt-get >/dev/null || die "$name is missing, and there is no apt-get to fetch it with: put $name on your PATH"
    (cd build/deb && { fetch "$1" || { apt-get update -q && fetch "$1"; }; }) >build/apt.log 2>&1 </dev/null ||
        { tail -n 20 build/apt.log >&2; die "Debian's package $1 could not be fetched, see build/apt.log"; }
    dpkg-deb --fsys-tarfile "build/deb/$1"_*.deb | tar -xO ".$2" >"build/$name.new"
    chmod 0755 "build/$name.new"
    mv "build/$name.new" "build/$name"
    rm -r build/deb
}

fetch() {
    apt-get download -q -o Acquire::Retries=3 "$1"
}

browser() {
    command -v chromium >/dev/null || install_packages chromium fonts-inter
    unpack_program nginx /usr/sbin/nginx
    unpack_program caddy /usr/bin/caddy
}

recorder() {
    if [ -x build/recorder/bin/asciinema ] && [ -x build/recorder/node_modules/.bin/svg-term ]; then return; fi
    command -v npm >/dev/null || install_packages npm
    python=$(find_python) || die "no Python 3.11 or newer was found; name one with: make PYTHON=/path/to/python3 recorder"
    mkdir -p build
    "$python" -m venv build/recorder
    {
        build/recorder/bin/python -m pip install --quiet asciinema==2.4.0
        npm install --silent --no-fund --no-audit --prefix build/recorder svg-term-cli@2.1.1
    } >build/recorder.log 2>&1 || :
    [ -x build/recorder/bin/asciinema ] && [ -x build/recorder/node_modules/.bin/svg-term ] ||
        { tail -n 20 build/recorder.log >&2; die "asciinema and svg-term could not be installed, see build/recorder.log"; }
}

# Finds a Python that can run the `ansible` package in tests/requirements.txt and make an environment. The distribution's comes first, because
# a self-built one, such as pyenv's, lacks some optimizations by default and is slower.
find_python() {
    for python in ${PYTHON:-/usr/bin/python3 python3 python3.13 python3.12 python3.11}; do
        if command -v "$python" >/dev/null &&
            "$python" -c 'import sys, venv, ensurepip; sys.exit(not sys.version_info >= (3, 11))' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    return 1
}

venv() {
    python=$(find_python) || { install_packages python3 python3-venv; python=$(find_python); } ||
        die "no Python 3.11 or newer was found; name one with: make PYTHON=/path/to/python3 venv"
    wanted=$("$python" -VV | cat - tests/requirements.lock | sha256sum)
    if [ "$wanted" != "$(cat build/venv/.ready 2>/dev/null)" ]; then
        say "Making build/venv with $("$python" -V) (a few minutes the first time)"
        mkdir -p build
        [ "$(build/venv/bin/python -VV 2>/dev/null)" = "$("$python" -VV)" ] || "$python" -m venv --clear build/venv
        build/venv/bin/python -m pip install --quiet --require-hashes --no-compile -r tests/requirements.lock >build/pip.log 2>&1 ||
            { tail -n 20 build/pip.log >&2; die "pip failed, see build/pip.log"; }
        # Uses all cores, while pip would use one. Files for another Python do not compile.
        build/venv/bin/python -m compileall -q -q -j 0 build/venv/lib || :
        printf '%s\n' "$wanted" >build/venv/.ready
    fi
    # Development runs find this checkout as an installed collection.
    mkdir -p build/collections/ansible_collections/fleet
    [ build/collections/ansible_collections/fleet/gpu_swarm -ef . ] ||
        ln -sfn ../../../.. build/collections/ansible_collections/fleet/gpu_swarm
}

# Writes every version with its hashes, for all Python versions and platforms in one run. pip-compile could do only one at a time.
lock() {
    python=$(find_python) || die "no Python 3.11 or newer was found; name one with: make PYTHON=/path/to/python3 lock"
    [ -x build/lock/bin/uv ] || { "$python" -m venv --clear build/lock && build/lock/bin/python -m pip install --quiet 'uv>=0.8,<1'; }
    # shellcheck disable=SC2086 # options
    build/lock/bin/uv pip compile --quiet ${ARGS:-} --universal --python-version 3.11 --generate-hashes --no-annotate \
        --custom-compile-command 'make lock' --output-file tests/requirements.lock tests/requirements.txt
}

for part in "$@"; do
    case $part in
        venv | lock | packages | recorder | browser) "$part" ;;
        promtool)
            unpack_program prometheus /usr/bin/promtool
            unpack_program prometheus /usr/bin/prometheus
            unpack_program prometheus-node-exporter /usr/bin/prometheus-node-exporter
            ;;
        *) die "unknown part: $part (venv, lock, packages, promtool, recorder, browser)" ;;
    esac
done
