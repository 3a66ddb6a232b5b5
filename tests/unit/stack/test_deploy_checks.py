# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table lists errors that Docker reports only during a deployment. The checks report each error before it, with the service and the key."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.module_utils._errors import GpuSwarmError
from plugins.plugin_utils._stack.deploy_checks import CHECKS
from plugins.plugin_utils._stack.specification import specifications
from plugins.plugin_utils._stack.translate import Stack, translate
from tests.refused_stacks import CASES, FILES, SECTIONS, Case


def of_file(text: str, **variables: str) -> Stack:
    return translate(text, "compose.yml", FILES.get, variables)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}: {case.text[:40]}")
def test_each_row_is_refused_beforehand(case: Case) -> None:
    with pytest.raises(GpuSwarmError) as raised:
        specifications(of_file(case.file).document, "s")
    assert case.words in raised.value.message
    assert raised.value.message.endswith(".")
    assert "\n" not in raised.value.message


def test_each_row_about_a_file_has_a_case() -> None:
    of_the_swarm = {"external", "network-taken", "service-taken", "service-name", "carried-name", "config-large", "secret-large"}
    elsewhere = of_the_swarm | {check.id for check in CHECKS if check.by.__module__.endswith("_deployment.clashes")}
    assert {check.id for check in CHECKS} == {case.row for case in CASES} | elsewhere
    assert len({check.id for check in CHECKS}) == len(CHECKS)


def service(text: str, **variables: str) -> dict[str, Any]:
    return of_file(f"services: {{a: {{image: lab/task, {text}}}}}{SECTIONS}", **variables).document["services"]["a"]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("command: [--gpu-memory-utilization, 0.9, --port, 8000, true]", {"command": ["--gpu-memory-utilization", "0.9", "--port", "8000", "true"]}),
        ("command: ''", {"command": ""}),
        ("cap_add: SYS_ADMIN", {"cap_add": ["SYS_ADMIN"]}),
        ("cap_drop: [ALL, ALL]", {"cap_drop": ["ALL"]}),
        ("user: 1000, hostname: 5", {"user": "1000", "hostname": "5"}),
        ("tty: 'yes', init: \"${I}\"", {"tty": True, "init": False}),
        ("sysctls: {net.core.somaxconn: 1024}", {"sysctls": {"net.core.somaxconn": "1024"}}),
        (
            "logging: {driver: json-file, options: {max-file: 3, compress: true}}",
            {"logging": {"driver": "json-file", "options": {"max-file": "3", "compress": "true"}}},
        ),
        ("extra_hosts: {a: 10.0.0.1, b: [10.0.0.2, '[::1]']}", {"extra_hosts": ["a:10.0.0.1", "b:10.0.0.2", "b:::1"]}),
        ("extra_hosts: ['a=10.0.0.1', 'b:::1', 'c=[::1]']", {"extra_hosts": ["a:10.0.0.1", "b:::1", "c:::1"]}),
        ("ulimits: {nofile: '1024', memlock: {soft: -1, hard: -1}}", {"ulimits": {"nofile": 1024, "memlock": {"soft": -1, "hard": -1}}}),
        ("stop_grace_period: 1d", {"stop_grace_period": "24h"}),
        ("stop_grace_period: 1w2d12h", {"stop_grace_period": "168h48h12h"}),
        ("stop_grace_period: 0", {"stop_grace_period": "0s"}),
        (
            "healthcheck: {test: x y, interval: 1m30s, retries: '3', timeout: 0}",
            {"healthcheck": {"test": "x y", "interval": "1m30s", "retries": 3, "timeout": "0s"}},
        ),
        (
            "configs: [c, {source: d, target: /d, uid: 1000, mode: '0440'}]",
            {"configs": ["c", {"source": "d", "target": "/d", "uid": "1000", "mode": 0o440}]},
        ),
        (
            "ports: [{target: 80, published: 8080, mode: overlay, protocol: TCP}]",
            {"ports": [{"target": 80, "published": 8080, "mode": "ingress", "protocol": "tcp"}]},
        ),
        ("ports: ['8000-8002:80', '90-91:90-91/udp', 443]", {"ports": ["8000-8002:80", "90-91:90-91/udp", "443"]}),
        ("deploy: {replicas: ~, mode: Global}", {"deploy": {"mode": "global"}}),
        (
            "deploy: {resources: {limits: {cpus: 2, memory: 4m}, reservations: {cpus: 0.001}}}",
            {"deploy": {"resources": {"limits": {"cpus": "2", "memory": "4m"}, "reservations": {"cpus": "0.001"}}}},
        ),
        (
            "deploy: {restart_policy: {delay: 1d}, update_config: {max_failure_ratio: '0.25', order: start-first}}",
            {"deploy": {"restart_policy": {"delay": "24h"}, "update_config": {"max_failure_ratio": 0.25, "order": "start-first"}}},
        ),
        (
            "deploy: {placement: {preferences: [{spread: node.labels.rack}], max_replicas_per_node: 2}}",
            {"deploy": {"placement": {"preferences": [{"spread": "node.labels.rack"}], "max_replicas_per_node": 2}}},
        ),
    ],
)
def test_equivalent_forms_are_converted(text: str, made: dict[str, Any]) -> None:
    found = service(text, I="off")
    assert {key: found[key] for key in made} == made


def test_a_mode_of_a_port_that_docker_takes_for_ingress_is_named() -> None:
    notes = of_file("services: {a: {image: i, ports: [{target: 80, published: 18000, mode: overlay}]}}").notes
    (note,) = notes
    assert note.startswith("compose.yml: services.a.ports[0].mode is overlay, which does not exist. Docker reads it as ingress, so ingress is used")


def test_two_services_may_have_one_port_of_their_nodes() -> None:
    entry = "{image: i, ports: [{target: 80, published: 18000, mode: host}]}"
    assert of_file(f"services: {{a: {entry}, b: {entry}}}")
    assert of_file("services: {a: {image: i, ports: ['80:80', '80:80/udp']}, b: {image: i, ports: [80, 80]}}")


def test_an_image_from_an_unset_variable_is_an_error() -> None:
    with pytest.raises(GpuSwarmError) as raised:
        of_file("services: {api: {image: 'lab/cuda:${TAG_UNSET}', command: \"${OTHER}\"}}")
    assert raised.value.message.startswith(
        "compose.yml: services.api.image is 'lab/cuda:', which is not a valid image name. The variable TAG_UNSET is not set: set it in .env"
    )


@pytest.mark.parametrize(
    "image",
    [
        "task", "lab/task", "lab/task:1.2_x-Y", "registry.example:5000/a/b-c__d.e:1", "localhost/x", "[::1]:5000/x", "X.example/y",
        f"a@sha256:{'0' * 64}", f"r.example/a:1@sha256:{'0' * 64}", f"sha256:{'0' * 64}",
    ],
)  # fmt: skip
def test_valid_names_of_images_are_accepted(image: str) -> None:
    assert of_file(f"services: {{a: {{image: '{image}'}}}}")


@pytest.mark.parametrize("image", ["a b", "Task", "-x", "a/:1", "a//b", "a:", "a@sha256:0", "0" * 64, "a:" + "x" * 129])
def test_invalid_names_of_images_are_refused(image: str) -> None:
    with pytest.raises(GpuSwarmError, match="which is not a valid image name"):
        of_file(f"services: {{a: {{image: '{image}'}}}}")


def test_each_image_of_x_gpu_is_checked() -> None:
    text = "services: {a: {x-gpu: {images: [{image: 'lab/cuda:1', cuda: '12.2'}, {image: 'lab/cuda:${T}', cuda: '12.8'}]}}}"
    assert of_file(text, T="2")
    with pytest.raises(GpuSwarmError, match=r"services.a.x-gpu.images\[1\].image is 'lab/cuda:', .* The variable T is not set"):
        of_file(text)


def test_a_subnet_is_read_like_docker_before_25_reads_it() -> None:
    found = of_file("services: {a: {image: i, networks: [net]}}\nnetworks: {net: {ipam: {config: [{subnet: 10.9.0.1/24}]}}}")
    assert found.document["networks"]["net"]["ipam"]["config"] == [{"subnet": "10.9.0.0/24"}]


@pytest.mark.parametrize(("section", "most"), [("configs", 1_024_000), ("secrets", 512_000)])
def test_the_limits_of_swarm_are_checked(section: str, most: int) -> None:
    text = f"services: {{a: {{image: i}}}}\n{section}: {{c: {{file: large}}}}"
    assert translate(text, "compose.yml", {"large": b"x" * (most - 1)}.get, {})
    with pytest.raises(GpuSwarmError, match=f"{section}.c has {most} bytes; swarm accepts less than {most}. Use a volume instead"):
        translate(text, "compose.yml", {"large": b"x" * most}.get, {})


def test_values_of_commands_and_variables_are_never_shown() -> None:
    for text in ('command: "run --key \'s3cr3t"', "environment: {KEY: [s3cr3t]}", "entrypoint: [[s3cr3t]]", "labels: {KEY: {a: s3cr3t}}"):
        with pytest.raises(GpuSwarmError) as raised:
            service(text)
        assert "s3cr3t" not in raised.value.message
