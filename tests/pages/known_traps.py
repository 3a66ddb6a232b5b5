# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table behind docs/fix/known-issues.md: all known problems of GPUs on Docker Swarm, in the order of the page.

If code checks for a problem, the problem is a row of plugins/module_utils/_compat/issues.py. This table contains its
name. A test checks that each proof
exists.
"""

from __future__ import annotations

from plugins.module_utils._compat.issues import DOCUMENTED, HANDLED, REFUSAL, TRAPS, WARNING, Trap

_U = "tests/unit/"
_NODE = "molecule/default/tests/test_node.py::test_"
_FLEET = "molecule/swarm/tests/test_fleet.py::test_"
_ADOPTION = "molecule/adoption/tests/test_adoption.py::test_"
_POLICIES = "molecule/policies/tests/test_policies.py::test_"

BY_ID = {trap.id: trap for trap in TRAPS}

ISOLATION = (
    Trap(
        "variable-of-the-kind", "swarm", "any version",
        "A task finds its GPUs in DOCKER_RESOURCE_<KIND>, the kind in capitals; dots and dashes stay.",
        "swarmkit api/genericresource/string.go",
        HANDLED, "The variable's name is made from the kind.",
        _FLEET + "a_task_sees_its_gpu_and_no_other",
    ),
    Trap(
        "swarm-resource-mismatch", "toolkit", "any version",
        "swarm-resource that does not name exactly the kind's variable gives no isolation: every task sees every GPU.",
        "NVIDIA/nvidia-container-toolkit#57",
        HANDLED, "swarm-resource is derived from the kinds that are advertised; a line that differs is drift.",
        _NODE + "swarm_resource_is_the_variable_of_the_kind",
    ),
    Trap(
        "union-of-variables", "toolkit", "any version",
        "A task that has several of the listed variables gets the GPUs of all of them.",
        "NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go",
        HANDLED, "A GPU belongs to the first rule that selects it, so no GPU stands in two kinds.",
        _U + "policy/test_policies.py::test_no_gpu_is_in_two_kinds",
    ),
    Trap(
        "discrete-kind-listed", "toolkit", "any version",
        "A discrete kind in swarm-resource (VRAM=8000): its amount would be read as the index of a device.",
        "NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go",
        HANDLED, "Only kinds of named GPUs and MIG devices are listed.",
        _POLICIES + "swarm_resource_lists_the_kinds_that_name_gpus_and_no_amounts",
    ),
    Trap(
        "shortened-uuid", "toolkit", "1.18.0 and newer",
        "A shortened UUID (GPU-c143e771) fails: 'identifier is not a valid UUID or index'; GPUs of one board can share it.",
        "NVIDIA/nvidia-container-toolkit, seen with 1.18.0 to 1.20.0",
        HANDLED, "Full UUIDs are written; a shortened one in the running daemon is drift and replaced.",
        _NODE + "daemon_json_has_every_gpu_by_its_full_uuid",
    ),
    BY_ID["jit-cdi-ignores-swarm-resource"],
    Trap(
        "no-uvm-after-a-reboot", "toolkit", "1.18.0 to 1.20.0",
        "In the default mode nothing loads nvidia-uvm or makes /dev/nvidia-uvm. So after a reboot nvidia-smi works in a task, and CUDA does not"
        " (cuInit: 999).",
        "NVIDIA/nvidia-container-toolkit#1967, #1743, #1934, #1456; commit 8269969f makes it after 1.20.0",
        HANDLED, "gpu-swarm-devices.service makes it at boot, before dockerd starts. A node without it is drift, and its watcher has it paused.",
        _U + "node/test_devices.py::test_a_reboot_after_which_only_nvml_works_is_drift_and_repaired",
    ),
    BY_ID["mode-ignores-swarm-resource"],
    BY_ID["config-toml-refused"],
    BY_ID["variables-not-accepted"],
    BY_ID["no-cgroups"],
    BY_ID["capabilities-not-supported"],
    BY_ID["hooks-disabled"],
    BY_ID["kind-gpu-line-is-dropped"],
    BY_ID["toolkit-starts-no-container"],
    Trap(
        "ctk-set-splits-lists", "toolkit", "all versions up to 1.20.0",
        "'nvidia-ctk config --set swarm-resource=A,B' fails, since it splits at the comma.",
        "seen with all versions to 1.20.0",
        HANDLED, "The file is edited directly, without nvidia-ctk.",
        _U + "config/test_runtime_toml.py::test_several_kinds_and_odd_characters",
    ),
    Trap(
        "ctk-runtime-configure", "toolkit", "any version",
        "'nvidia-ctk runtime configure' overwrites runtimes.nvidia, with --cdi.enabled all of features, fails on an empty"
        " daemon.json, drops what follows the document, and keeps no backup.",
        "seen with 1.20.0",
        HANDLED, "daemon.json is edited without it: only the keys of this collection change, the rest stays byte for byte.",
        _U + "config/test_text_properties.py::test_json_edit_changes_only_our_parts",
    ),
    BY_ID["no-reservation-sees-all"],
    Trap(
        "volume-mounts-beside-cdi", "toolkit", "before 1.20.2, with accept-nvidia-visible-devices-as-volume-mounts = true",
        "A mount below /var/run/nvidia-container-devices adds GPUs to those that a container was given by CDI. The setting is false unless somebody"
        " changed it, and services know no CDI. But with it a mount gives a service GPUs that it did not reserve, also with 1.20.2.",
        "NVIDIA/nvidia-container-toolkit#2184, release notes of 1.20.2",
        HANDLED, "With gpu_swarm_isolation at reserved, the guard refuses a task with such a mount.",
        _U + "guard/test_bundle.py::test_a_mount_that_requests_gpus_is_found_in_each_mode",
    ),
    BY_ID["variable-set-by-hand"],
    BY_ID["zero-takes-all"],
    BY_ID["new-leader-claims-again"],
    Trap(
        "no-cdi-for-services", "engine", "all versions up to 29.7.2",
        "Services know neither CDI nor --gpus.",
        "moby daemon/cluster",
        HANDLED, "The nvidia runtime is made the default runtime.",
        _NODE + "nvidia_is_the_default_runtime",
    ),
    Trap(
        "line-before-tables", "toolkit", "any version",
        "swarm-resource is a top-level key that ships commented out; behind a [table] it belongs to that table, unread.",
        "NVIDIA/nvidia-container-toolkit 1.20.0, its default config.toml",
        HANDLED, "The line is written before the first table, and taken out of tables where recipes left it.",
        _U + "config/test_runtime_toml.py::test_the_line_stands_before_every_table",
    ),
    Trap(
        "daemon-reload-takes-gpus", "toolkit", "any version, legacy mode",
        "After 'systemctl daemon-reload' running containers can lose their GPUs.",
        "NVIDIA/nvidia-container-toolkit#48, #1227",
        HANDLED, "A reload of dockerd is a SIGHUP to its main process; what needs a restart waits until nothing runs there.",
        _U + "dockerd/test_docker_unit.py::test_a_daemon_is_reloaded",
    ),
)  # fmt: skip

DAEMON = (
    Trap(
        "resources-need-a-restart", "engine", "any version",
        "node-generic-resources is read once at start: a reload changes nothing. default-runtime and runtimes are reloadable.",
        "moby daemon/reload.go",
        HANDLED, "What the running daemon shows decides between restart, reload and nothing.",
        _U + "node/test_transaction.py::test_right_files_under_an_old_process_need_a_restart",
    ),
    Trap(
        "live-restore", "engine", "any version",
        "A daemon with live-restore cannot join a swarm, and without it a restart stops the node's tasks.",
        "moby daemon/config/config_linux.go",
        REFUSAL, "Remove live-restore; drain the node, or let provision wait until nothing runs there.",
        _U + "config/test_daemon_problems.py::test_settings_that_prevent_a_swarm_are_found",
    ),
    Trap(
        "nftables-in-a-swarm", "engine", "29.0.0 and newer",
        "A daemon with firewall-backend: nftables cannot be in a swarm: Docker's rules for overlay networks are those of iptables. From 29.6.0 on the"
        " feature swarm-nftables allows it, as an experiment.",
        "moby daemon/config/config_linux.go (IsSwarmCompatible); docs.docker.com/engine/network/firewall-nftables",
        REFUSAL, "Write iptables, or remove firewall-backend.",
        _U + "config/test_daemon_problems.py::test_settings_that_prevent_a_swarm_are_found",
    ),
    Trap(
        "flag-and-file", "engine", "any version",
        "The same option as a flag (ExecStart, DOCKER_OPTS) and in daemon.json keeps dockerd from starting.",
        "moby daemon/config/config.go",
        HANDLED, "Flags of this collection move from drop-ins and variables to where they belong; one that cannot is an error.",
        _ADOPTION + "no_flag_remains_that_is_in_the_file_now",
    ),
    Trap(
        "singular-key", "engine", "any version",
        "The key node-generic-resource passes 'dockerd --validate' and is silently ignored.",
        "seen with 29.7.2",
        HANDLED, "Entries of this collection move to node-generic-resources, and the key is reported.",
        _U + "config/test_daemon_json.py::test_the_singular_key_is_read",
    ),
    Trap(
        "no-validate", "engine", "before 23.0.0",
        "dockerd has no --validate: a wrong file shows at the restart.",
        "moby#42393",
        HANDLED, "Such a dockerd is not called with it; a start that fails is rolled back with dockerd's own reason.",
        _U + "dockerd/test_engine.py::test_a_file_is_validated",
    ),
    Trap(
        "named-or-discrete", "engine", "any version",
        "A kind is named or discrete: a mixture keeps dockerd from starting, GPU=0 alone is the amount 0, a value contains no"
        " '=', duplicates count twice, and GPU and gpu are two kinds with one variable.",
        "swarmkit api/genericresource/parse.go",
        REFUSAL, "Rules, extra_resources and what others listed are checked before anything is written.",
        _U + "policy/test_policies.py::test_impossible_extra_resources_are_refused",
    ),
    BY_ID["two-kinds-one-gpu"],
    BY_ID["memory-gives-no-device"],
    Trap(
        "memory-is-a-sum", "swarm", "any version",
        "One discrete kind is a sum over the node: on 2 × 8 GB a task of 12 GB fits nowhere, and is accepted.",
        "swarmkit api/genericresource",
        WARNING, "Each GPU is a kind of its own (VRAM-C1); 'sum: true' is reported with how it misplaces.",
        _POLICIES + "more_memory_than_one_card_has_fits_nowhere",
    ),
    BY_ID["named-tasks-rejected"],
    BY_ID["discrete-tasks-rejected"],
    BY_ID["old-leader-evicts-gpu-tasks"],
    BY_ID["network-evicts-gpu-tasks"],
    BY_ID["old-leader-evicts-discrete-tasks"],
    BY_ID["finished-jobs-count"],
    Trap(
        "resources-appear-late", "swarm", "any version",
        "A node reports its resources to the manager when it connects and every 20 s: right after a restart they may be missing.",
        "swarmkit agent/agent.go",
        HANDLED, "A run waits until the manager shows what was decided, and reports a node that does not.",
        _U + "rollout/test_manager_updates.py::test_hosts_that_did_not_converge_are_found",
    ),
    Trap(
        "start-limit", "engine", "any version, systemd",
        "Several restarts in a minute use up the unit's start limit, and dockerd stays down.",
        "Debian's docker.service: 3 starts in 60 s",
        HANDLED, "One restart at most, and 'systemctl reset-failed' before it and after it: systemd still repairs as many crashes as before.",
        _U + "dockerd/test_engine.py::test_a_successful_restart_leaves_systemd_all_starts_for_crashes",
    ),
    Trap(
        "idle-restart", "engine", "any version",
        "A restart of an idle dockerd takes up to 2 s.",
        "seen with 20.10.24 and 26.1.5",
        HANDLED, "The daemon is waited for by what it shows, not by a fixed time.",
        _U + "dockerd/test_engine.py::test_waiting_ends_with_the_wanted_state",
    ),
    BY_ID["unauthorized-pull-rejects"],
    Trap(
        "loopback-registries", "engine", "29.10.0 and newer, if insecure-registries is set",
        "If insecure-registries is set, in daemon.json or by a flag, it replaces Docker's own default. Then a registry at localhost or 127.0.0.1"
        " needs a certificate that Docker trusts, and pulls from one without TLS fail. With the key left out, such a registry works as before.",
        "moby#53868, release notes of 29.10.0",
        DOCUMENTED, "Add the local registry, such as localhost:5000, to insecure-registries, or give it a certificate.",
        "cited",
    ),
    BY_ID["names-lost-with-a-connection"],
    BY_ID["encrypted-network-in-two-parts"],
    Trap(
        "advertise-addr-ignored", "swarm", "any version",
        "docker swarm join ignores an --advertise-addr that it cannot resolve, such as an interface that the node does not have.",
        "moby daemon/cluster/swarm.go (Join), listen_addr.go (resolveAdvertiseAddr)",
        REFUSAL, "It is an error before the host joins, also with --check. A warning names members that advertise another address.",
        _U + "fleet/test_advertised.py::test_a_host_joins_only_with_an_address_that_docker_accepts",
    ),
    Trap(
        "half-joined", "swarm", "any version",
        "A join that cannot reach its manager leaves the node in the state error; later joins fail with 'already part of a swarm'.",
        "seen with 26.1.5",
        HANDLED, "Such a node leaves first, where nothing of an earlier membership is lost.",
        _U + "dockerd/test_engine.py::test_a_half_finished_join_is_recognised",
    ),
    Trap(
        "mixed-releases", "engine", "20.10.24 with 26.1.5",
        "Nodes of different releases stand in one swarm; a change of runtimes is taken by a reload on each.",
        "seen with both",
        HANDLED, "Each node is judged by its own engine's version.",
        _FLEET + "both_releases_of_the_engine_are_in_the_swarm",
    ),
    Trap(
        "only-json-shows-resources", "engine", "any version",
        "'docker node inspect --pretty' shows no generic resources, and what a task was given stands at the task alone.",
        "docker/cli",
        HANDLED, "The ledger reads the API; swarm_gpu_info shows which task has which GPU.",
        _FLEET + "manager_shows_each_gpu_with_its_full_uuid",
    ),
    Trap(
        "swarm-service-module", "swarm", "community.docker",
        "docker_swarm_service has no option for generic resources, and removes a reservation when it updates a service.",
        "community.docker 4.8",
        DOCUMENTED, "Use docker stack deploy with deploy.resources.reservations.generic_resources.",
        "cited",
    ),
)  # fmt: skip

TASKS = (
    Trap(
        "drain-is-no-way-to-wait", "swarm", "any version",
        "Drain ends tasks with restart-condition none for good, does not stop replicated jobs, which then die with the"
        " restart, and plain containers are seen by none of this.",
        "seen with 26.1.5",
        HANDLED, "A node is paused, and left alone while anything runs there that a restart would stop.",
        _U + "plan/test_provision.py::test_work_is_stopped_only_with_consent",
    ),
    Trap(
        "leaving-disconnects", "swarm", "any version",
        "A daemon that leaves its swarm disconnects every container from the swarm's attachable networks, also what 'docker run' started.",
        "moby DaemonLeavesCluster",
        HANDLED, "Such a container counts as work where its host leaves.",
        _U + "plan/test_deprovision.py::test_a_container_on_a_swarm_network_loses_it_when_the_node_leaves",
    ),
    Trap(
        "label-evicts", "leader", "any version",
        "A task whose constraint is no longer met since a label changed is evicted at once.",
        "moby#34139, #31014",
        HANDLED, "Only labels of this collection are changed; swarm_nodes names the tasks that would go, and refuses what provision_disrupt forbids.",
        _U + "node_spec/test_eviction.py::test_these_tasks_are_evicted",
    ),
    Trap(
        "drain-uses-attempts", "leader", "any version",
        "A drain uses up one of a replicated task's --restart-max-attempts: the next one ends it for good.",
        "swarmkit restart.go",
        HANDLED, "Such a task is moved only while the tasks of its slot show that an attempt is left; else it is waited for.",
        _U + "tasks/test_restarts.py::test_a_task_can_be_moved_while_an_attempt_is_left",
    ),
    Trap(
        "constraints-know-equality", "swarm", "any version",
        "Constraints know == and != only, so 'any GPU with 40 GB or more' cannot be required.",
        "docs.docker.com, docker service create",
        HANDLED, "Threshold labels such as gpu.mem_ge_40=true.",
        _U + "policy/test_labels.py::test_labels_have_thresholds",
    ),
    Trap(
        "swarm-only-spreads", "leader", "any version",
        "Swarm spreads and never packs: many one-GPU tasks can keep an eight-GPU task from running.",
        "swarmkit#1034",
        DOCUMENTED, "Keep nodes for large tasks by label or by a kind of their own.",
        "cited",
    ),
    Trap(
        "forced-leave-loses-state", "swarm", "any version",
        "A node in the state error may be half-joined, or its certificate may have expired: 'leave --force' is right only"
        " where no Raft state and no earlier membership exist.",
        "moby#29242",
        HANDLED, "A node leaves by itself only in the first case; in the others the host is reported.",
        _U + "fleet/test_membership.py::test_an_impossible_membership_is_refused",
    ),
    Trap(
        "post-install-reloads-systemd", "toolkit", "1.18.0 to 1.19.1",
        "The packages' post-install runs 'systemctl daemon-reload', which can take running containers' GPUs.",
        "NVIDIA/nvidia-container-toolkit packaging",
        HANDLED, "A change of the toolkit counts as a restart: it waits until nothing runs on the node.",
        _U + "plan/test_provision.py::test_work_is_stopped_only_with_consent",
    ),
    Trap(
        "recipes-of-old", "engine", "hand-made nodes",
        "Published recipes write -H fdd://, double their lines when run twice, start a daemon that runs already (right files,"
        " old process), or put kind beside discrete_resource_spec in a Compose file.",
        "recipes from 2016 to 2023",
        HANDLED, "Doubled lines are cleaned up, and the running daemon is compared, not only its files.",
        _U + "config/test_runtime_toml.py::test_a_line_that_a_recipe_added_twice_becomes_one",
    ),
)  # fmt: skip

CARDS = (
    Trap(
        "driver-not-reloaded", "nvml", "after a driver upgrade without a reboot",
        "NVML fails with LibRmVersionMismatch: library and kernel module are of two versions.",
        "NVIDIA NVML API reference",
        REFUSAL, "Reboot the node, or reload the kernel modules.",
        _U + "gpu/test_nvml.py::test_a_machine_that_cannot_be_read_says_why_and_what_to_do",
    ),
    Trap(
        "lost-gpu", "nvml", "any version",
        "One card fell off the bus (GpuIsLost) or fails at one query, among healthy ones.",
        "NVIDIA NVML API reference",
        HANDLED, "It is excluded and named, the others go on; less than before needs consent.",
        _U + "gpu/test_nvml.py::test_one_failing_gpu_hides_no_other",
    ),
    Trap(
        "shrink", "nvml", "any version",
        "A lost card, or a MIG layout that did not survive a reboot, makes a node silently smaller.",
        "NVIDIA MIG user guide",
        REFUSAL, "'expect' or 'allow_shrink' is the consent.",
        _U + "policy/test_shrink.py::test_less_than_before_needs_consent",
    ),
    Trap(
        "no-memory-of-its-own", "nvml", "unified memory: Jetson Orin, GB10",
        "NVML answers NotSupported for the memory.",
        "NVIDIA NVML API reference",
        REFUSAL, "Such a GPU is advertised whole; its memory as the system's only with 'system_memory: true'.",
        _U + "policy/test_policies.py::test_unknown_memory_is_refused",
    ),
    Trap(
        "mig-card-whole", "nvml", "cards in MIG mode",
        "A card in MIG mode cannot be given to a task whole.",
        "NVIDIA MIG user guide",
        HANDLED, "It is excluded and reported, or its MIG devices are advertised by a rule with 'as: mig'.",
        _POLICIES + "a_divided_card_is_in_no_kind",
    ),
)  # fmt: skip

ALL = ISOLATION + DAEMON + TASKS + CARDS
TITLES = (
    ("swarm-resource and isolation", ISOLATION),
    ("daemon.json and dockerd", DAEMON),
    ("Tasks and availability", TASKS),
    ("Cards and drivers", CARDS),
)
