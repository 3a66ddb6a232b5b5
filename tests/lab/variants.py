# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes node images with more or fewer packages than the plain images, when a fleet first needs such an image."""

from __future__ import annotations

from pathlib import Path

import docker

from . import families, images, rootfs, rpms, ssh
from .archive import Files, archive
from .fleet import Node
from .lab import Lab, LabError
from .packages import debs, key


def tag(node: Node) -> str:
    """Return the name of the node's image. Equal nodes have the same image."""
    family = [node.family, families.key(node.image, node.family), rpms.key()] if node.family else []
    family += [f"ssh{ssh.key(node.image)}"] if node.ssh else []
    packages = ([f"toolkit{node.toolkit}"] if node.toolkit else []) + list(node.retired)
    return "-".join([images.tag(node.image), *family, *packages, *([key()] if packages else []), *([] if node.docker_sdk else ["nosdk"])])


def provide(lab: Lab, engine: docker.DockerClient, node: Node) -> None:
    if engine.images.list(name=tag(node)):
        return
    files, commands = _of_family(lab, node)
    if node.ssh:
        files.update(ssh.image_files())
        files.update({f"root/ssh/{path.name}": (path.read_bytes(), 0o644) for path in ssh.debs(node.image)})
        commands += ssh.image_commands("/root/ssh")
    packages = rpms.chosen(lab, node.toolkit, node.retired) if node.family else debs(lab, node.toolkit, node.retired)
    if packages:
        files.update(_in_root(packages))
        install = "rpm --install" if node.family else "dpkg --install"
        commands.append(f"{install} {' '.join(f'/root/{path.name}' for path in packages)}")
    commands.append("rm --force /root/*.deb /root/*.rpm")
    if not node.docker_sdk:
        commands.append("dpkg --purge python3-docker")
    builder = engine.containers.create(images.tag(node.image), ["sh", "-ec", "\n".join(commands)], network_mode="none")
    try:
        builder.put_archive("/", archive(files))
        builder.start()
        if builder.wait()["StatusCode"] != 0:
            raise LabError(f"making the image {tag(node)} failed:\n{builder.logs().decode()}{_hint_if_moving(node)}")
        builder.commit(*tag(node).split(":"), changes="\n".join(images.CHANGES))
    finally:
        builder.remove(force=True, v=True)


def _of_family(lab: Lab, node: Node) -> tuple[Files, list[str]]:
    if not node.family:
        return {}, []
    manager, base = families.debs(node.image, node.family), rpms.base(lab, node.image, node.family)
    return {**families.files(node.family), **_in_root([*manager, base])}, families.commands(node.family, base.name)


def _hint_if_moving(node: Node) -> str:
    """Return a hint for a moving suite: the node's additional packages may be too new for its older file system."""
    if rootfs.replacement(node.image) is None:
        return ""
    return f"\n{node.image} moves. Its cached file system may be too old for today's packages: remove {rootfs.cached(node.image)} to build it anew"


def _in_root(paths: list[Path]) -> Files:
    return {f"root/{path.name}": (path.read_bytes(), 0o644) for path in paths}
