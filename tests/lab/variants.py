# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node images with something more, or less, than the plain ones: made when a fleet first asks for them."""

from __future__ import annotations

import docker

from . import images
from .archive import archive
from .lab import Lab, LabError
from .packages import key, toolkit_debs


def tag(image: str, toolkit: str | None, docker_sdk: bool) -> str:
    parts = [images.tag(image), *([f"toolkit{toolkit}-{key()}"] if toolkit else []), *([] if docker_sdk else ["nosdk"])]
    return "-".join(parts)


def provide(lab: Lab, engine: docker.DockerClient, image: str, toolkit: str | None, docker_sdk: bool) -> str:
    name = tag(image, toolkit, docker_sdk)
    if engine.images.list(name=name):
        return name
    commands = []
    files = {}
    if toolkit:
        debs = toolkit_debs(lab, toolkit)
        files = {f"root/{path.name}": (path.read_bytes(), 0o644) for path in debs}
        commands += ["dpkg --install " + " ".join(f"/root/{path.name}" for path in debs), "rm /root/*.deb"]
    if not docker_sdk:
        commands.append("dpkg --purge python3-docker")
    builder = engine.containers.create(images.tag(image), ["sh", "-ec", "\n".join(commands)], network_mode="none")
    try:
        builder.put_archive("/", archive(files))
        builder.start()
        if builder.wait()["StatusCode"] != 0:
            raise LabError(f"making the image {name} failed:\n{builder.logs().decode()}")
        builder.commit(*name.split(":"), changes="\n".join(images.CHANGES))
    finally:
        builder.remove(force=True, v=True)
    return name
