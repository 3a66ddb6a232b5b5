# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stack files that Docker refuses after it has made a part of them, one for each row of the table in plugin_utils/_stack/deploy_checks.py.

The unit tests give them to ``deploy``. An end-to-end test gives them to 'docker stack deploy' itself, which must refuse each.
"""

from __future__ import annotations

from typing import NamedTuple

# The files that configs and secrets of these stacks name, on each machine of the lab.
FILE, EMPTY = "/etc/hostname", "/dev/null"
FILES = {FILE: b"x", EMPTY: b""}
SECTIONS = """
networks: {net: {}}
volumes: {v: {}}
configs: {c: {file: /etc/hostname}, d: {file: /etc/hostname}}
secrets: {s: {file: /etc/hostname}, t: {file: /etc/hostname}}
"""


class Case(NamedTuple):
    """A case for ``row`` of the table. ``text`` belongs into the service a, or is the file with ``whole``.

    ``words`` are in our refusal, ``docker`` in Docker's own, or None if Docker accepts the file and something else fails. ``by_2010``
    are those of 20.10 if they differ.
    """

    row: str
    text: str
    words: str
    docker: str | None
    by_2010: str | None = ""
    whole: bool = False

    @property
    def file(self) -> str:
        image = "" if self.text.startswith("image:") else "image: lab/task, "
        text = self.text if self.whole else f"services: {{a: {{{image}{self.text}}}}}{SECTIONS}"
        return f'version: "3.9"\n{text}\n'


def network(row: str, options: str, words: str, docker: str | None) -> Case:
    return section(row, f"networks: {{net: {{{options}}}}}", words, docker, "lab/task, networks: [net]")


def section(row: str, text: str, words: str, docker: str | None, service: str = "lab/task") -> Case:
    return Case(row, f"services: {{a: {{image: {service}}}}}\n{text}", words, docker, whole=True)


CASES = [
    Case("text", "hostname: [x]", "services.a.hostname is a list, but must be text", "services.a.hostname must be a string"),
    Case("texts", "cap_add: {x: y}", "services.a.cap_add[0] is a mapping, but must be text", "services.a.cap_add must be a list"),
    Case("texts", "dns: [[x]]", "services.a.dns[0] is a list", "services.a.dns"),
    Case("command", "command: [sh, [x]]", "services.a.command[1] is a list", "services.a.command"),
    Case("command", "entrypoint: {x: y}", "services.a.entrypoint is a mapping", "services.a.entrypoint"),
    Case("quotes", 'command: "sh -c \'x"', "services.a.command cannot be split into words", "EOF found when expecting closing quote"),
    Case("flag", "tty: 3", "services.a.tty is 3, but must be true or false", "services.a.tty must be a boolean"),
    Case("whole", "deploy: {replicas: x}", "deploy.replicas is 'x', but must be a whole number of 0 or more", "replicas must be a integer"),
    Case("whole", "deploy: {restart_policy: {max_attempts: 1.5}}", "max_attempts is 1.5", "max_attempts must be a integer"),
    Case("negative", "deploy: {replicas: -1}", "deploy.replicas is -1, but must be a whole number of 0 or more", "-1 overflows uint"),
    Case("negative", "deploy: {update_config: {parallelism: -1}}", "update_config.parallelism is -1", "-1 overflows uint"),
    Case("duration", "stop_grace_period: 5", "services.a.stop_grace_period is 5, but must be a duration", "stop_grace_period"),
    Case("duration", "deploy: {restart_policy: {delay: soon}}", "restart_policy.delay is 'soon'", "delay Does not match format 'duration'"),
    Case("size", "deploy: {resources: {limits: {memory: lots}}}", "limits.memory is 'lots', but must be a size", "invalid size: 'lots'"),
    Case(
        "order",
        "deploy: {update_config: {order: first}}",
        "update_config.order is 'first', but must be stop-first or start-first",
        "order must be one of",
    ),
    Case("ulimits", "ulimits: {nofile: {soft: 1}}", "services.a.ulimits.nofile must have both soft and hard", "nofile"),
    Case("pairs", "sysctls: text", "services.a.sysctls is text, but must be a mapping", "services.a.sysctls"),
    Case("options", "logging: {driver: json-file, options: {max-size: [x]}}", "logging.options.max-size is a list", "logging.options.max-size"),
    Case("file-mode", "configs: [{source: c, target: /c, mode: rw}]", "configs[0].mode is 'rw', but must be the mode of a file", "mode"),
    Case(
        "preferences",
        "deploy: {placement: {preferences: {spread: x}}}",
        "placement.preferences is a mapping, but must be a list",
        "preferences must be a list",
    ),
    Case("unknown", "deploy: {replica: 1}", "services.a.deploy.replica is not known", "Additional property replica is not allowed"),
    Case("section-name", "services: {'a b': {image: lab/task}}", "the name 'a b'", "Additional property a b is not allowed", whole=True),
    Case(
        "external-volume",
        "services: {a: {image: lab/task, volumes: ['vol:/v']}}\nvolumes: {vol: {external: true, driver: local}}",
        "volumes.vol",
        "conflicting parameters",
        whole=True,
    ),
    section("external-name", "configs: {c: {external: {name: x}, name: other}}", "configs.c", "conflict; only use"),
    Case("bind-source", "volumes: [{type: bind, target: /x}]", "volumes[0]", "must not be empty"),
    Case("volume-spec", "volumes: ['/a:/b:ro:x']", "volumes[0]", "too many colons"),
    Case("volume-spec", "volumes: [':/b']", "volumes[0]", "empty section between colons"),
    Case("port-spec", "ports: ['80:http']", "ports[0]", "ports"),
    Case("port-spec", "ports: ['80:81/foo']", "ports[0]", "ports"),
    Case("port-spec", "ports: ['99999:81']", "ports[0]", "ports"),
    Case("port-range", "ports: ['8000-8003:80-81']", "ports[0]", "ports"),
    Case("port-number", "ports: [{target: 80, published: 99999}]", "ports[0].published", None),
    Case("port-target", "ports: [{published: 18300}]", "ports[0]", None),
    Case("image", "image: 'lab/Task:1'", "services.a.image is 'lab/Task:1', which is not a valid image name", "not a valid repository/tag"),
    Case("image", "image: 'lab/task:'", "services.a.image is 'lab/task:'", "not a valid repository/tag"),
    Case("image", "image: lab/task@sha256:abc", "services.a.image is 'lab/task@sha256:abc'", "not a valid repository/tag"),
    Case("credential", "credential_spec: {file: x, registry: reg}", "services.a.credential_spec", "cannot specify both"),
    Case("declared-network", "networks: [x]", "services.a.networks has x", "undefined network"),
    Case("declared-volume", "volumes: ['data:/x']", "services.a.volumes has data", "undefined volume"),
    Case("declared-secret", "secrets: [x]", "services.a.secrets has x", "undefined secret"),
    Case("declared-config", "configs: [x]", "services.a.configs has x", "undefined config"),
    Case("mode", "deploy: {mode: some}", "deploy.mode is 'some'", "nknown mode: some"),
    Case("replicas-global", "deploy: {mode: global, replicas: 2}", "deploy has replicas with mode: global", "replicas can only be used with"),
    Case("mount-type", "volumes: [{type: disk, source: v, target: /x}]", "volumes[0]: its type is 'disk'", "volume type must be"),
    Case(
        "mount-options",
        "volumes: [{type: volume, source: v, target: /x, tmpfs: {size: 1}}]",
        "volumes[0] has tmpfs",
        "tmpfs options are incompatible",
    ),
    Case("tmpfs-source", "volumes: [{type: tmpfs, source: v, target: /x}]", "volumes[0]: a tmpfs has no source", "invalid tmpfs source"),
    Case("npipe-source", "volumes: [{type: npipe, target: /x}]", "volumes[0]", "invalid npipe source"),
    Case("cpus", "deploy: {resources: {limits: {cpus: few}}}", "limits.cpus is 'few', but must be a number of CPUs", "rational number"),
    Case("cpus-precise", "deploy: {resources: {limits: {cpus: '0.12345678901'}}}", "limits.cpus", "value is too precise"),
    Case(
        "cpus-least", "deploy: {resources: {limits: {cpus: '0.0005'}}}", "limits.cpus is '0.0005', but must be 0.001 or more", "invalid cpu value"
    ),
    Case("cpus-least", "deploy: {resources: {reservations: {cpus: '0.0005'}}}", "reservations.cpus is '0.0005'", "invalid cpu value"),
    Case("memory-least", "deploy: {resources: {limits: {memory: '16'}}}", "limits.memory is '16', but must be 4m or more", "invalid memory value"),
    Case("memory-least", "deploy: {resources: {reservations: {memory: 2m}}}", "reservations.memory is '2m'", "invalid memory value"),
    Case("secret-target", "secrets: [{source: s, target: x}, {source: t, target: x}]", "services.a.secrets", "duplicate secret target"),
    Case("config-target", "configs: [{source: c, target: /x}, {source: d, target: /x}]", "services.a.configs", "duplicate config target"),
    Case(
        "propagation",
        "volumes: [{type: bind, source: /tmp, target: /x, bind: {propagation: some}}]",
        "bind.propagation is 'some'",
        "invalid MountPropagation",
    ),
    Case(
        "restart-condition",
        "deploy: {restart_policy: {condition: unless-stopped}}",
        "restart_policy.condition is 'unless-stopped'",
        "invalid RestartCondition",
    ),
    Case(
        "failure-action",
        "deploy: {update_config: {failure_action: stop}}",
        "update_config.failure_action is 'stop'",
        "unrecognized update failure action",
    ),
    Case("endpoint-mode", "deploy: {endpoint_mode: ip}", "deploy.endpoint_mode is 'ip'", "invalid resolution mode"),
    network("predefined", "external: true, name: none", "networks.net", "network"),
    network(
        "network-own-name",
        "name: host",
        "networks.net has the name host, but every machine has such a network",
        "network with name host already exists",
    ),
    network(
        "network-driver", "driver: macvlan", "networks.net.driver is macvlan, but a stack cannot create such a network", "operation not supported"
    ),
    network("ipam-driver", "ipam: {driver: none-such}", "networks.net.ipam.driver", "none-such"),
    network("subnet", "ipam: {config: [{subnet: 10.99.0}]}", "ipam.config[0].subnet", "subnet"),
    network("predefined-label", "labels: {com.docker.swarm.predefined: x}", "networks.net.labels", "predefined"),
    Case(
        "restart-negative",
        "deploy: {restart_policy: {delay: -1s}}",
        "restart_policy.delay is '-1s', but must be 0 or longer",
        "restart-delay cannot be negative",
    ),
    Case("window-negative", "deploy: {restart_policy: {window: -1s}}", "restart_policy.window is '-1s'", "restart-window cannot be negative"),
    Case("update-negative", "deploy: {update_config: {delay: -1s}}", "update_config.delay is '-1s'", "update-delay cannot be negative"),
    Case("monitor-negative", "deploy: {update_config: {monitor: -1s}}", "update_config.monitor is '-1s'", "update-monitor cannot be negative"),
    Case(
        "failure-ratio",
        "deploy: {update_config: {max_failure_ratio: 25}}",
        "max_failure_ratio is 25, but must be a number from 0 to 1",
        "maxfailureratio",
    ),
    Case("failure-ratio", "deploy: {rollback_config: {max_failure_ratio: 25}}", "rollback_config.max_failure_ratio is 25", None),
    Case("constraint", "deploy: {placement: {constraints: [a=b]}}", "constraints has 'a=b'", "constraint expected one operator"),
    Case("mount-target", "volumes: ['/a:/x', '/b:/x']", "mounts two things at /x", "duplicate mount point"),
    Case("mount-path", "volumes: [{type: volume, source: v}]", "services.a.volumes[0] is mounted at nothing", None),
    Case("mount-path", "volumes: [{type: volume, source: v, target: x}]", "volumes[0] is mounted at x, which is not an absolute path", None),
    Case("mount-path", "volumes: ['v:/x']", "which Docker reads as a Windows path", None),
    Case(
        "health-short",
        "healthcheck: {test: x, interval: 10us}",
        "healthcheck.interval is '10us', but must be 0, or 1ms or longer",
        "cannot be less than 1ms",
    ),
    Case("dnsrr", "ports: ['18301:80'], deploy: {endpoint_mode: dnsrr}", "endpoint_mode: dnsrr", "can't be used with dnsrr"),
    Case("port-twice", "ports: ['18302:80', '18302:81']", "18302", "duplicate published ports"),
    Case("port-twice", "ports: ['18303:80', {target: 81, published: 18303, mode: host}]", "18303", "duplicate published ports"),
    Case(
        "port-in-stack",
        "services: {a: {image: lab/task, ports: ['18304:80']}, b: {image: lab/task, ports: ['18304:81']}}",
        "18304",
        "is already in use by service",
        whole=True,
    ),
    Case(
        "port-in-stack",
        "services: {a: {image: lab/task, ports: ['18305:80']}, b: {image: lab/task, ports: [{target: 80, published: 18305, mode: host}]}}",
        "18305",
        "is already in use by service",
        whole=True,
    ),
    Case(
        "job-update",
        "deploy: {mode: replicated-job, update_config: {delay: 1s}}",
        "update_config",
        "Jobs may not have an update config",
        "nknown mode",
    ),
    section("config-empty", "configs: {c: {file: /dev/null}}", "configs.c is empty", "must be larger than 0"),
    section("secret-empty", "secrets: {c: {file: /dev/null}}", "secrets.c is empty", "must be larger than 0"),
    section("template-driver", "configs: {c: {file: /etc/hostname, template_driver: none-such}}", "configs.c.template_driver", None),
]
