# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares our reading of config.toml with the parser of NVIDIA's tools: pelletier/go-toml 1.9 (their go.mod).

The parser's command tomljson prints the parsed file. If the parser read one of our edits differently, every task could get every GPU, or NVIDIA's
runtime could not start containers.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from typing import Any

import pytest

from plugins.module_utils._config import runtime_toml
from plugins.module_utils._guard import toolkit_config

from .conftest import Loud
from .fleet import CONFIG_TOML, Fleet

SHIPPED = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig"
load-kmods = true

[nvidia-container-runtime]
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
"""
LINE = 'swarm-resource = "DOCKER_RESOURCE_GPU"\n'
LAYOUTS = {
    "as it ships": SHIPPED,
    "active already": SHIPPED.replace("#" + LINE, LINE),
    "the line put in front twice": LINE + LINE + SHIPPED,
    "the line at the end, in a table": SHIPPED + LINE,
    "empty": "",
    "no newline at the end": SHIPPED.rstrip("\n"),
    "CRLF": SHIPPED.replace("\n", "\r\n"),
    "comments and blanks": SHIPPED.replace(' = "auto"', '="auto"   # mine: "no"').replace("disable", "\tdisable"),
    "a dotted key": 'nvidia-container-runtime.mode = "auto"\nnvidia-container-runtime.log-level = "info"\n',
    "an inline table": 'disable-require = false\nnvidia-ctk = {path = "nvidia-ctk"}\n',
    "literal and long strings": "disable-require = false\nx = 'C:\\y'\ny = '''\nswarm-resource = \"no\"\n[no]\n'''\n",
    "not only ASCII": '"ü" = "größer"\n' + SHIPPED,
    "a list over several lines before it": "x = [\n  1, # ]\n  2,\n]\n" + LINE + SHIPPED,
    "a string over several lines before it": 'x = """\n[no]\n""\\"\n"""\n' + LINE + SHIPPED,
    "an escape": SHIPPED.replace("#" + LINE, LINE.replace("OCKER", "\\u004FCKER")),
    "a long string": SHIPPED.replace("#" + LINE, LINE.replace('"', '"""')),
    "a long string that begins on the next line": SHIPPED.replace("#" + LINE, LINE.replace('= "', '= """\n').replace('"\n', '"""\n')),
    "a long literal string": SHIPPED.replace("#" + LINE, LINE.replace('"', "'''")),
    "a quoted name": SHIPPED.replace("#swarm-resource", '"swarm\\u002dresource"'),
    "a list and blanks": SHIPPED.replace("#" + LINE, 'swarm-resource = "A ,\\tB,,A"\n'),
}
WANTS = {
    "one kind": runtime_toml.Want("DOCKER_RESOURCE_NVIDIA-GPU"),
    "several kinds and a mode": runtime_toml.Want("DOCKER_RESOURCE_MIG-1G.10GB,DOCKER_RESOURCE_NVIDIA-GPU", "legacy"),
    "no kind of GPUs": runtime_toml.Want("", "auto"),
}


def as_nvidia_reads_it(content: bytes) -> dict[str, Any]:
    done = subprocess.run(["tomljson"], input=content, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, f"{done.stderr.decode()}\n{content.decode()}"
    return json.loads(done.stdout)


@pytest.mark.parametrize("want", WANTS.values(), ids=WANTS)
@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_is_read_the_same_way(text: str, want: runtime_toml.Want) -> None:
    edited = runtime_toml.edit(text.encode(), CONFIG_TOML, want).content
    read = as_nvidia_reads_it(edited)
    assert read == tomllib.loads(edited.decode())
    assert read.get("swarm-resource", "") == want.swarm_resource
    if want.mode:
        assert read["nvidia-container-runtime"]["mode"] == want.mode


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_the_guard_reads_every_layout_the_same_way(text: str) -> None:
    """The guard has no TOML parser. It runs before each container that requests a GPU. If it missed a name, a task could bypass the guard."""
    if text.count(LINE) > 1:
        text = text.replace(LINE, "", 1)  # NVIDIA's tools refuse a duplicate key
    read = as_nvidia_reads_it(text.encode()).get("swarm-resource", "")
    assert list(toolkit_config.listed_variables(text)) == list(dict.fromkeys(name.strip() for name in read.split(",") if name.strip()))


def test_the_files_of_a_fleet_are_read_the_same_way(fleet: Fleet, first: Loud) -> None:
    for name in ("g1", "g2"):
        content = fleet[name].read(CONFIG_TOML)
        assert content is not None
        read = as_nvidia_reads_it(content)
        assert read == tomllib.loads(content.decode())
        assert read["swarm-resource"] == "DOCKER_RESOURCE_NVIDIA-GPU"
