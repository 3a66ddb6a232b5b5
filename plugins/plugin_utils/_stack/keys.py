# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys of a Compose file that a stack supports, and what to write instead of the other keys.

A key is supported if 'docker stack deploy' applies it from a file of version 3.8, which every release since 20.10 reads. See
cli/compose/schema/data/config_schema_v3.8.json, UnsupportedProperties in cli/compose/types and cli/compose/convert of docker/cli.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

# Keys that are used unchanged.
SERVICE = frozenset(
    [
        "cap_add",
        "cap_drop",
        "command",
        "configs",
        "credential_spec",
        "deploy",
        "dns",
        "dns_search",
        "entrypoint",
        "environment",
        "extra_hosts",
        "healthcheck",
        "hostname",
        "image",
        "init",
        "isolation",
        "labels",
        "logging",
        "networks",
        "ports",
        "read_only",
        "secrets",
        "stdin_open",
        "stop_grace_period",
        "stop_signal",
        "sysctls",
        "tty",
        "ulimits",
        "user",
        "volumes",
        "working_dir",
    ]
)
# Keys that are translated into other keys.
TRANSLATED = frozenset(
    [
        "cpu_period",
        "cpu_quota",
        "cpus",
        "depends_on",
        "devices",
        "env_file",
        "gpus",
        "ipc",
        "mem_limit",
        "mem_reservation",
        "network_mode",
        "pids_limit",
        "restart",
        "scale",
        "shm_size",
        "tmpfs",
    ]
)
DEPLOY = frozenset(["mode", "endpoint_mode", "replicas", "labels", "rollback_config", "update_config", "resources", "restart_policy", "placement"])
LIMITS = frozenset(["cpus", "memory", "pids"])
RESERVATIONS = frozenset(["cpus", "memory", "generic_resources"])
TOP = frozenset(["services", "volumes", "networks", "configs", "secrets"])
NETWORK = frozenset(["driver", "driver_opts", "ipam", "external", "internal", "attachable", "labels", "name"])
IPAM = frozenset(["driver", "config"])
IPAM_CONFIG = frozenset(["subnet"])
VOLUME = frozenset(["driver", "driver_opts", "external", "labels", "name"])
ON_NETWORK = frozenset(["aliases"])
HEALTHCHECK = frozenset(["test", "interval", "timeout", "retries", "start_period", "disable"])
PORT = frozenset(["mode", "target", "published", "protocol"])
MOUNT = frozenset(["type", "source", "target", "read_only", "consistency", "bind", "volume", "tmpfs"])
MOUNT_TYPES = ("volume", "bind", "tmpfs", "npipe", "cluster")
# Options of a mount, by its type.
MOUNT_OPTIONS = {"bind": frozenset(["propagation"]), "volume": frozenset(["nocopy"]), "tmpfs": frozenset(["size"])}

_LIMIT = "deploy.resources.limits.{}"
_NODE = "write a constraint on the node, under deploy.placement.constraints"
# Ignored keys, with what to write instead.
INSTEAD = {
    "annotations": "swarm does not support annotations; use labels",
    "attach": "'docker service logs' shows the output of a service",
    "blkio_config": "swarm cannot limit input and output; set it for dockerd on the nodes",
    "build": "swarm does not build images: build the image and push it to a registry that the nodes reach",
    "cgroup": "swarm has no such option; set it for dockerd on the nodes",
    "cgroupns_mode": "swarm has no such option; set default-cgroupns-mode in daemon.json of the nodes",
    "cgroup_parent": "swarm has no such option; set cgroup-parent in daemon.json of the nodes",
    "container_name": "swarm chooses the names of containers; other services use the name of the service",
    "cpu_count": _LIMIT.format("cpus"),
    "cpu_percent": _LIMIT.format("cpus"),
    "cpu_rt_period": _LIMIT.format("cpus"),
    "cpu_rt_runtime": _LIMIT.format("cpus"),
    "cpu_shares": "deploy.resources.reservations.cpus",
    "cpuset": _LIMIT.format("cpus"),
    "develop": "swarm does not watch sources: rebuild the image and deploy again",
    "device_cgroup_rules": "tasks get the rules of their own devices: reserve GPUs, and name other devices in gpu_swarm_devices",
    "dns_opt": "set dns-opts in daemon.json of the nodes",
    "domainname": "write the whole name under hostname",
    "expose": "services in one network reach all ports of each other",
    "external_links": "put both services into one network, external if need be",
    "group_add": 'write user: "uid:gid", or create the group in the image',
    "links": "services in one network reach each other by name; use aliases of a network for further names",
    "mac_address": "swarm chooses it",
    "mem_swappiness": "swarm has no such option; set it in the kernel of the nodes",
    "memswap_limit": _LIMIT.format("memory"),
    "oom_kill_disable": _LIMIT.format("memory"),
    "oom_score_adj": _LIMIT.format("memory"),
    "pid": "each task has its own process ids",
    "platform": f"{_NODE}: node.platform.arch==x86_64",
    "post_start": "run it as part of the command",
    "pre_stop": "run it as part of the command, on its stop_signal",
    "privileged": "swarm has no privileged tasks; list the required capabilities under cap_add",
    "pull_policy": "each node pulls the image that the manager has resolved, once",
    "pull_refresh_after": "each node pulls the image that the manager has resolved, once",
    "security_opt": "swarm has no such option; tasks have the default profiles of their node",
    "storage_opt": "swarm has no such option; set it for dockerd on the nodes",
    "userns_mode": "swarm has no such option; set userns-remap in daemon.json of the nodes",
    "uts": "each task has its own host name; use hostname",
}
_BY_NAME = "swarm chooses the address; others use the name of the service"
# Ignored options of a service's network, with what to write instead.
INSTEAD_ON_NETWORK = {
    "driver_opts": "set them where the network is declared",
    "gw_priority": "nothing: tasks leave the swarm through its own network on each node",
    "interface_name": "nothing: swarm names the interfaces itself",
    "ipv4_address": _BY_NAME,
    "ipv6_address": _BY_NAME,
    "link_local_ips": _BY_NAME,
    "mac_address": "swarm chooses it",
    "priority": "nothing: swarm chooses the order of a task's networks",
}
# Refused keys. Without these keys, the service would behave differently.
REFUSED = {
    "extends": "write the extended service out, or let 'docker compose config' do that",
    "label_file": "write the labels under labels",
    "models": "swarm runs no models; write a service for it",
    "provider": "swarm runs only images; write an image",
    "use_api_socket": "mount /var/run/docker.sock, which gives the task control of its whole node",
    "volumes_from": "write the volumes of the other service here too",
}
TOP_REFUSED = {
    "include": "write the included files out, or let 'docker compose config' do that",
    "models": "swarm runs no models; write a service for it",
}
