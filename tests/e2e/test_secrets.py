# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No run leaves a join token anywhere, even at Ansible's highest verbosity, and no password in a node's files is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import BY_A_PERSON, NODES, Bare, Loud
from .fleet import DAEMON_JSON, Fleet, Node

HERE = Path(__file__).parent
PLANTED = "SWMTKN-1-0planted0by0a0test0000000000000000000000000000000-0000000planted0secret0000"
PLACES = {"output", "log", "fact cache", "temporary files", "node's files", "node's journal"}
# Runs on a node. Searches the node's disk and memory file systems, except swarm's own files.
SEARCH = """
import os, subprocess, sys
wanted, since = sys.argv[1].encode(), float(sys.argv[2])
places = {
    "/": ["/proc", "/sys", "/dev"],
    "/run": ["/run/log/journal", "/run/docker/netns", "/run/gpu-lab/proc"],
    "/tmp": [],
    "/var/lib/docker": ["/var/lib/docker/swarm"],
}
for top, apart in places.items():
    for folder, folders, names in os.walk(top):
        inside = {name: os.path.join(folder, name) for name in folders}
        folders[:] = [name for name, path in inside.items() if path not in [*apart, *places]]
        for path in (os.path.join(folder, name) for name in names):
            try:
                if os.path.isfile(path) and os.stat(path).st_ctime >= since and wanted in open(path, "rb").read():
                    print("node's files:", path)
            except FileNotFoundError:
                pass  # gone since it was listed
if wanted in subprocess.run(["journalctl", "--no-pager", "--output", "export"], stdout=subprocess.PIPE, check=True).stdout:
    print("node's journal")
"""


def secret(token: str) -> str:
    """Return the secret part of a token. The part before it is the digest of a public certificate."""
    return token.rsplit("-", 1)[1]


def on_node(node: Node, token: str, since: float) -> list[str]:
    return node.run("python3", "-c", SEARCH, secret(token), str(since)).splitlines()


def below(folder: Path, token: str) -> bool:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return any(secret(token).encode() in path.read_bytes() for path in files)


def search(fleet: Fleet, run: Loud, token: str) -> list[str]:
    """Return the kinds of places that contain a token."""
    found = {
        "output": secret(token) in run.run.output,
        "log": secret(token) in run.log.read_text(),
        "fact cache": below(run.cache, token),
        "temporary files": below(run.home, token),
    }
    return [place for place, hit in found.items() if hit] + [line for name in NODES for line in on_node(fleet[name], token, run.began)]


def test_the_search_finds_a_planted_token(fleet: Fleet, inventory: Path, first: Loud, tmp_path: Path) -> None:
    text = json.dumps({"planted": PLANTED})
    run = Loud.of(fleet, inventory, tmp_path, "--extra-vars", text, playbook=str(HERE / "plant.yml"))
    found = search(fleet, run, PLANTED)
    fleet["g1"].run("rm", "/root/planted", "/tmp/planted", "/var/lib/docker/planted")
    assert {place.partition(":")[0] for place in found} == PLACES
    assert {place for place in found if ":" in place} == {
        f"node's files: {path}" for path in ("/root/planted", "/tmp/planted", "/var/lib/docker/planted")
    }


@pytest.mark.parametrize("role", ["worker", "manager"])
def test_no_join_token_is_left_anywhere(fleet: Fleet, first: Loud, role: str) -> None:
    assert "TASK [fleet.gpu_swarm.swarm_member : Join the swarm]" in first.run.output
    assert first.log.read_text()
    token = fleet["m1"].docker("swarm", "join-token", "--quiet", role)
    assert token.startswith("SWMTKN-1-")
    assert search(fleet, first, token) == []


def test_the_password_of_a_proxy_is_shown_by_no_diff(fleet: Fleet, bare: Bare, first: Loud) -> None:
    """The password is beside the changed lines, in the diff of a changed node and of a check run."""
    password = b"S3cret-of-a-proxy"
    assert password in BY_A_PERSON
    assert password in (fleet["g1"].read(DAEMON_JSON) or b"")
    for output in (bare.run.output, first.run.output, first.log.read_text()):
        assert "http://svc:***@127.0.0.1:9" in output
        assert password.decode() not in output
    for folder in (first.cache, first.home):
        assert not any(password in path.read_bytes() for path in folder.rglob("*") if path.is_file())
