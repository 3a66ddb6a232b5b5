# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which keys of a Compose file a stack takes, and what to write instead of the others.

What 'docker stack deploy' takes in a file of version 3.8, which every release from 20.10 on reads, and makes a part of a service:
cli/compose/schema/data/config_schema_v3.8.json, UnsupportedProperties in cli/compose/types and cli/compose/convert of docker/cli.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

# Taken as they are.
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
# Made into something else.
TRANSLATED = frozenset(
    [
        "cpu_period",
        "cpu_quota",
        "cpus",
        "depends_on",
        "env_file",
        "gpus",
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
# Of a mount, by its type.
MOUNT_OPTIONS = {"bind": frozenset(["propagation"]), "volume": frozenset(["nocopy"]), "tmpfs": frozenset(["size"])}

_LIMIT = "deploy.resources.limits.{}"
_NODE = "write a constraint on the node, under deploy.placement.constraints"
# Left out, with what to write instead.
INSTEAD = {
    "annotations": "swarm gives tasks none; use labels",
    "attach": "'docker service logs' shows what a service writes",
    "blkio_config": "swarm limits no input and output; set it for dockerd on the nodes",
    "build": "swarm builds nothing: build the image, and push it to a registry that the nodes reach",
    "cgroup": "swarm has no such option; set it for dockerd on the nodes",
    "cgroupns_mode": "swarm has no such option; set default-cgroupns-mode in daemon.json of the nodes",
    "cgroup_parent": "swarm has no such option; set cgroup-parent in daemon.json of the nodes",
    "container_name": "swarm names each task's container itself; other services reach it by the name of the service",
    "cpu_count": _LIMIT.format("cpus"),
    "cpu_percent": _LIMIT.format("cpus"),
    "cpu_rt_period": _LIMIT.format("cpus"),
    "cpu_rt_runtime": _LIMIT.format("cpus"),
    "cpu_shares": "deploy.resources.reservations.cpus",
    "cpuset": _LIMIT.format("cpus"),
    "develop": "swarm watches no sources: build the image again, and deploy",
    "device_cgroup_rules": "swarm passes no devices; reserve GPUs with deploy.resources.reservations.devices",
    "devices": "swarm passes no devices; reserve GPUs with deploy.resources.reservations.devices",
    "dns_opt": "set dns-opts in daemon.json of the nodes",
    "domainname": "write the whole name under hostname",
    "expose": "services of one network reach all ports of each other",
    "external_links": "put both services into one network, external if need be",
    "group_add": 'write user: "uid:gid", or make the group in the image',
    "ipc": "for more shared memory write shm_size",
    "links": "services of one network reach each other by name; further names are aliases of a network",
    "mac_address": "swarm chooses it",
    "mem_swappiness": "swarm has no such option; set it in the kernel of the nodes",
    "memswap_limit": _LIMIT.format("memory"),
    "oom_kill_disable": _LIMIT.format("memory"),
    "oom_score_adj": _LIMIT.format("memory"),
    "pid": "swarm gives each task process ids of its own",
    "platform": f"{_NODE}: node.platform.arch==x86_64",
    "post_start": "run it as part of the command",
    "pre_stop": "run it as part of the command, on its stop_signal",
    "privileged": "swarm has no privileged tasks; name what it needs under cap_add",
    "pull_policy": "each node pulls the image that the manager has resolved, once",
    "pull_refresh_after": "each node pulls the image that the manager has resolved, once",
    "security_opt": "swarm has no such option, and a task has the default profiles of its node",
    "storage_opt": "swarm has no such option; set it for dockerd on the nodes",
    "userns_mode": "swarm has no such option; set userns-remap in daemon.json of the nodes",
    "uts": "swarm gives each task a name of its own; write hostname",
}
_BY_NAME = "swarm chooses it; others reach the service by its name"
# Of a network of a service.
INSTEAD_ON_NETWORK = {
    "driver_opts": "write them where the network is declared",
    "gw_priority": "nothing: the way out of a task is swarm's own network on each node",
    "interface_name": "nothing: swarm names the interfaces itself",
    "ipv4_address": _BY_NAME,
    "ipv6_address": _BY_NAME,
    "link_local_ips": _BY_NAME,
    "mac_address": "swarm chooses it",
    "priority": "nothing: swarm connects a task to its networks in an order of its own",
}
# Without what stands there the service would be another one.
REFUSED = {
    "extends": "write out what it extends, or have it written out: 'docker compose config'",
    "label_file": "write the labels under labels",
    "models": "swarm runs no models; write a service for it",
    "provider": "swarm runs no other program for a service; write an image",
    "use_api_socket": "mount /var/run/docker.sock, which gives the task its whole node",
    "volumes_from": "write the volumes of the other service here too",
}
TOP_REFUSED = {
    "include": "write out what it includes, or have it written out: 'docker compose config'",
    "models": "swarm runs no models; write a service for it",
}
