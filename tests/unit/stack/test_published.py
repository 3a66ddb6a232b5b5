# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker's pages show several forms of requests for GPUs. Each form is deployed, or causes the error from the table in docs/run/compose.md.

https://docs.docker.com/compose/how-tos/gpu-support/, and the pages deploy and services of https://docs.docker.com/reference/compose-file/.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack.translate import Stack, translate

TABLE = (Path(__file__).parents[3] / "docs" / "run" / "compose.md").read_text().partition("\n## GPUs\n")[2].partition("\n## ")[0]
NVIDIA = {"driver": "nvidia", "capabilities": ["gpu"]}


def devices(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**more, "deploy": {"resources": {"reservations": {"devices": list(entries)}}}}


def of(service: dict[str, Any]) -> Stack:
    return translate(yaml.safe_dump({"services": {"test": {"image": "i", **service}}}), "compose.yml", {}.get, {})


# (the keys of the service, its GPUs, NVIDIA_DRIVER_CAPABILITIES, number of notes)
DEPLOYED = {
    "gpu-support: count": (devices({**NVIDIA, "count": 1}), 1, None, 0),
    "gpu-support: count as text": (devices({**NVIDIA, "count": "2"}), 2, None, 0),
    "gpu-support, formerly: gpu and utility": (devices({**NVIDIA, "capabilities": ["gpu", "utility"], "count": 1}), 1, "compute,utility", 0),
    "gpu-support: options": (devices({**NVIDIA, "count": 1, "options": {"virtualization": "false"}}), 1, None, 1),
    "deploy: capabilities alone, with a count": (devices({"capabilities": ["gpu"], "count": 2}), 2, None, 0),
    "services: gpus": ({"gpus": [{"count": 2}]}, 2, None, 0),
    "services: gpus of a driver": ({"gpus": [{"driver": "nvidia", "count": 1}]}, 1, None, 0),
    "the driver by its CDI kind": (devices({**NVIDIA, "driver": "nvidia.com/gpu", "count": 1}), 1, None, 0),
    "services: gpus by CDI": ({"gpus": [{"driver": "nvidia.cdi", "count": 2}]}, 2, None, 0),
    "gpu-support: by the hook": (devices({**NVIDIA, "driver": "nvidia.runtime-hook", "count": 1}), 1, None, 0),
    "several devices": (devices({**NVIDIA, "count": 1}, {**NVIDIA, "capabilities": ["gpu", "video"], "count": 1}), 2, "compute,utility,video", 0),
}
BY_NUMBER, BY_SWARM = "Swarm allocates GPUs by number", "Swarm chooses the cards"
NO_OTHER = "another `driver` than `nvidia`, and CDI names of other makers"
OTHERS = "other capabilities, such as `tpu` or `nvidia-compute`"
BY_CDI = "`driver: cdi` with names such as `nvidia.com/gpu=all`"


def cdi(*names: str) -> dict[str, Any]:
    return devices({"driver": "cdi", "device_ids": list(names), "capabilities": ["gpu"]})


# (the keys of the service, the error, the row of the table)
REFUSED = {
    "gpu-support: all": (devices({**NVIDIA, "count": "all"}), "its count is all. Swarm allocates GPUs by number", BY_NUMBER),
    "gpu-support: neither count nor ids": (devices(NVIDIA), "has no count, which would mean all GPUs of the machine", BY_NUMBER),
    "gpu-support: ids": (devices({**NVIDIA, "device_ids": ["0", "3"]}), "sets device_ids, but swarm chooses the cards", BY_SWARM),
    "gpu-support: ids and count": (
        devices({**NVIDIA, "device_ids": ["0"], "count": 1}),
        "sets device_ids",
        "`device_ids`, even together with a `count`",
    ),
    "gpu-support: no capabilities": (devices({"driver": "nvidia", "count": 1}), "Write capabilities: [gpu]", "a device without `capabilities`"),
    "gpu-support, formerly: runtime": ({"runtime": "nvidia"}, "runtime is not supported on Swarm", "`runtime: nvidia`"),
    "deploy: a UUID": (devices({"capabilities": ["gpu"], "device_ids": ["GPU-1"]}), "sets device_ids", BY_SWARM),
    "deploy: nvidia-compute": (devices({"capabilities": ["nvidia-compute"]}), "capabilities have 'nvidia-compute'", OTHERS),
    "deploy: nvidia-compute of nvidia": (devices({"capabilities": ["nvidia-compute"], "driver": "nvidia"}), "add only compute", OTHERS),
    "deploy: tpu": (devices({"capabilities": ["tpu"], "count": 2}), "capabilities have 'tpu'", OTHERS),
    "deploy: another driver": (devices({"capabilities": ["gpu"], "driver": "gpuvendor"}), "its driver is 'gpuvendor'", NO_OTHER),
    "cdi: all": (cdi("nvidia.com/gpu=all"), "such as nvidia.com/gpu=all. Swarm allocates GPUs by number", BY_CDI),
    "cdi: one": (cdi("nvidia.com/gpu=0"), "Write {driver: nvidia, count: 1, capabilities: [gpu]} instead", BY_CDI),
    "cdi: two": (cdi("nvidia.com/gpu=0", "nvidia.com/gpu=1"), "Write {driver: nvidia, count: 2, capabilities: [gpu]} instead", BY_CDI),
    "cdi: no names": (devices({"driver": "cdi", "capabilities": ["gpu"]}), "its driver is cdi, which finds devices only by their names", BY_CDI),
    "cdi: no names, but a count": (devices({"driver": "cdi", "count": 1}), "Write {driver: nvidia, count: 1, capabilities: [gpu]} instead", BY_CDI),
    "cdi: of another maker": (cdi("amd.com/gpu=0"), "its driver is 'cdi' for amd.com/gpu=0. Only NVIDIA GPUs can be allocated", NO_OTHER),
    "cdi: all of NVIDIA's driver": (devices({**NVIDIA, "driver": "nvidia.com/gpu", "count": "all"}), "its count is all", BY_NUMBER),
    "services: all": ({"gpus": "all"}, "gpus is all. Swarm allocates GPUs by number", BY_NUMBER),
    "services: gpus of another driver": ({"gpus": [{"driver": "3dfx", "count": 2}]}, "its driver is '3dfx'", NO_OTHER),
    "both": (devices({**NVIDIA, "count": 1}, gpus=[{"count": 1}]), "in both gpus and", "`gpus` and `devices` in one service"),
}


@pytest.mark.parametrize(("service", "number", "capabilities", "named"), DEPLOYED.values(), ids=DEPLOYED)
def test_a_published_form_is_deployed(service: dict[str, Any], number: int, capabilities: str | None, named: int) -> None:
    stack = of(service)
    made = stack.document["services"]["test"]
    assert made["deploy"]["resources"]["reservations"] == {
        "generic_resources": [{"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": number}}]
    }
    assert made.get("environment") == ({"NVIDIA_DRIVER_CAPABILITIES": capabilities} if capabilities else None)
    assert len(stack.notes) == named


@pytest.mark.parametrize(("service", "message", "row"), REFUSED.values(), ids=REFUSED)
def test_a_published_form_gives_the_documented_error(service: dict[str, Any], message: str, row: str) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of(service)
    assert message in raised.value.message
    assert raised.value.message.startswith("compose.yml: services.test")
    (line,) = [line for line in TABLE.splitlines() if row in line]
    assert "an error" in line
