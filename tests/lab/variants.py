# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node images with something more, or less, than the plain ones: made when a fleet first needs them."""

from __future__ import annotations

import docker

from . import images
from .archive import archive
from .fleet import Node
from .lab import Lab, LabError
from .packages import debs, key


def tag(node: Node) -> str:
    """Of nodes that are alike, the same."""
    packages = ([f"toolkit{node.toolkit}"] if node.toolkit else []) + list(node.retired)
    return "-".join([images.tag(node.image), *packages, *([key()] if packages else []), *([] if node.docker_sdk else ["nosdk"])])


def provide(lab: Lab, engine: docker.DockerClient, node: Node) -> None:
    if engine.images.list(name=tag(node)):
        return
    commands = []
    files = {}
    packages = debs(lab, node.toolkit, node.retired)
    if packages:
        files = {f"root/{path.name}": (path.read_bytes(), 0o644) for path in packages}
        commands += ["dpkg --install " + " ".join(f"/root/{path.name}" for path in packages), "rm /root/*.deb"]
    if not node.docker_sdk:
        commands.append("dpkg --purge python3-docker")
    builder = engine.containers.create(images.tag(node.image), ["sh", "-ec", "\n".join(commands)], network_mode="none")
    try:
        builder.put_archive("/", archive(files))
        builder.start()
        if builder.wait()["StatusCode"] != 0:
            raise LabError(f"making the image {tag(node)} failed:\n{builder.logs().decode()}")
        builder.commit(*tag(node).split(":"), changes="\n".join(images.CHANGES))
    finally:
        builder.remove(force=True, v=True)
