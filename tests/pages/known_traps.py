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
        "A task finds its GPUs in the variable DOCKER_RESOURCE_<KIND>. The kind is in capitals, with its dots and dashes.",
        "swarmkit api/genericresource/string.go",
        HANDLED, "The variable's name is made from the kind.",
        _FLEET + "a_task_sees_its_gpu_and_no_other",
    ),
    Trap(
        "swarm-resource-mismatch", "toolkit", "any version",
        "If swarm-resource does not have exactly the name of the kind's variable, every task sees every GPU.",
        "NVIDIA/nvidia-container-toolkit#57",
        HANDLED, "The collection derives swarm-resource from the advertised kinds. A line that differs is drift.",
        _POLICIES + "swarm_resource_lists_the_kinds_that_name_gpus_and_no_amounts",
    ),
    Trap(
        "union-of-variables", "toolkit", "any version",
        "A task that has several of the listed variables gets the GPUs of all of them.",
        "NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go",
        HANDLED, "A GPU belongs to the first rule that selects it, so no GPU has two kinds.",
        _U + "policy/test_policies.py::test_no_gpu_is_in_two_kinds",
    ),
    Trap(
        "discrete-kind-listed", "toolkit", "any version",
        "If swarm-resource lists a discrete kind, such as VRAM=8000, its amount is read as the index of a device.",
        "NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go",
        HANDLED, "swarm-resource lists only kinds of named GPUs and MIG devices.",
        _POLICIES + "swarm_resource_lists_the_kinds_that_name_gpus_and_no_amounts",
    ),
    Trap(
        "shortened-uuid", "toolkit", "1.18.0 and newer",
        "A shortened UUID, such as GPU-c143e771, fails: 'identifier is not a valid UUID or index'. Several GPUs of one board can have the same one.",
        "NVIDIA/nvidia-container-toolkit, seen with 1.18.0 to 1.20.0",
        HANDLED, "The collection writes full UUIDs. A shortened UUID in the running daemon is drift and is replaced.",
        _NODE + "daemon_json_has_every_gpu_by_its_full_uuid",
    ),
    BY_ID["jit-cdi-ignores-swarm-resource"],
    Trap(
        "no-uvm-after-a-reboot", "toolkit", "1.18.0 to 1.20.0",
        "In the default mode nothing loads nvidia-uvm or creates /dev/nvidia-uvm. So after a reboot nvidia-smi works in a task, but CUDA does not"
        " (cuInit: 999).",
        "NVIDIA/nvidia-container-toolkit#1967, #1743, #1934, #1456; commit 8269969f makes it after 1.20.0",
        HANDLED, "gpu-swarm-devices.service creates it at boot, before dockerd starts. A missing device is drift, and a manager pauses the node.",
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
        "'nvidia-ctk config --set swarm-resource=A,B' fails, because nvidia-ctk splits the value at the comma.",
        "seen with all versions to 1.20.0",
        HANDLED, "The collection edits the file without nvidia-ctk.",
        _U + "config/test_runtime_toml.py::test_several_kinds_and_odd_characters",
    ),
    Trap(
        "ctk-runtime-configure", "toolkit", "any version",
        "'nvidia-ctk runtime configure' overwrites runtimes.nvidia, and with --cdi.enabled the whole key features. It fails on an empty"
        " daemon.json, removes everything after the JSON document, and makes no backup.",
        "seen with 1.20.0",
        HANDLED, "The collection edits daemon.json without nvidia-ctk. Only its own keys change. Everything else stays byte for byte.",
        _U + "config/test_text_properties.py::test_json_edit_changes_only_our_parts",
    ),
    BY_ID["no-reservation-sees-all"],
    Trap(
        "volume-mounts-beside-cdi", "toolkit", "before 1.20.2, with accept-nvidia-visible-devices-as-volume-mounts = true",
        "A mount below /var/run/nvidia-container-devices gives a container more GPUs than CDI gave it. By default, the setting is false, and services"
        " cannot use CDI. But if the setting is true, a mount gives a service GPUs that it did not reserve, even with 1.20.2.",
        "NVIDIA/nvidia-container-toolkit#2184, release notes of 1.20.2",
        HANDLED, "With gpu_swarm_isolation at reserved, the guard refuses a task with such a mount.",
        _U + "guard/test_bundle.py::test_a_mount_that_requests_gpus_is_found_in_each_mode",
    ),
    BY_ID["variable-set-by-hand"],
    BY_ID["zero-takes-all"],
    BY_ID["new-leader-claims-again"],
    Trap(
        "no-cdi-for-services", "engine", "all versions up to 29.7.2",
        "Services support neither CDI nor --gpus.",
        "moby daemon/cluster",
        HANDLED, "The collection makes the runtime nvidia the default runtime.",
        _NODE + "the_running_daemon_advertises_the_resources_of_the_file",
    ),
    Trap(
        "line-before-tables", "toolkit", "any version",
        "swarm-resource is a top-level key, which is a comment in the default file. After a [table] it belongs to that table and is not read.",
        "NVIDIA/nvidia-container-toolkit 1.20.0, its default config.toml",
        HANDLED, "The collection writes the line before the first table, and removes such lines from tables.",
        _U + "config/test_runtime_toml.py::test_the_line_stands_before_every_table",
    ),
    Trap(
        "daemon-reload-takes-gpus", "toolkit", "any version, legacy mode",
        "After 'systemctl daemon-reload' running containers can lose their GPUs.",
        "NVIDIA/nvidia-container-toolkit#48, #1227",
        HANDLED, "For a reload, the collection sends SIGHUP to dockerd. A change that needs a restart waits until nothing runs on the node.",
        _U + "dockerd/test_docker_unit.py::test_a_daemon_is_reloaded",
    ),
)  # fmt: skip

DAEMON = (
    Trap(
        "resources-need-a-restart", "engine", "any version",
        "dockerd reads node-generic-resources only when it starts. A reload updates only default-runtime and runtimes.",
        "moby daemon/reload.go",
        HANDLED, "A run compares the settings of the running daemon with the wanted settings, and then restarts it, reloads it, or does nothing.",
        _U + "node/test_transaction.py::test_right_files_under_an_old_process_need_a_restart",
    ),
    Trap(
        "live-restore", "engine", "any version",
        "A daemon with live-restore cannot join a swarm. Without live-restore, a restart stops the containers of the node.",
        "moby daemon/config/config_linux.go",
        REFUSAL, "Remove live-restore. Then drain the node, or let provision wait until nothing runs on it.",
        _U + "config/test_daemon_problems.py::test_settings_that_prevent_a_swarm_are_found",
    ),
    Trap(
        "nftables-in-a-swarm", "engine", "29.0.0 and newer",
        "A daemon with firewall-backend: nftables cannot be in a swarm, because overlay networks need iptables. From 29.6.0 on, the experimental"
        " feature swarm-nftables allows nftables.",
        "moby daemon/config/config_linux.go (IsSwarmCompatible); docs.docker.com/engine/network/firewall-nftables",
        REFUSAL, "Write iptables, or remove firewall-backend.",
        _U + "config/test_daemon_problems.py::test_settings_that_prevent_a_swarm_are_found",
    ),
    Trap(
        "flag-and-file", "engine", "any version",
        "dockerd does not start if daemon.json and a flag (ExecStart, DOCKER_OPTS) set the same option.",
        "moby daemon/config/config.go",
        HANDLED, "The collection moves flags for its settings from drop-ins and variables to daemon.json. A flag that it cannot move is an error.",
        _ADOPTION + "no_flag_remains_that_is_in_the_file_now",
    ),
    Trap(
        "singular-key", "engine", "any version",
        "The key node-generic-resource passes 'dockerd --validate' and is silently ignored.",
        "seen with 29.7.2",
        HANDLED, "The collection moves its own entries to node-generic-resources, and reports the wrong key.",
        _U + "config/test_daemon_json.py::test_the_singular_key_is_read",
    ),
    Trap(
        "no-validate", "engine", "before 23.0.0",
        "dockerd has no option --validate, so an error in the file is found only at the restart.",
        "moby#42393",
        HANDLED, "If dockerd does not start, the collection restores the files and reports dockerd's error.",
        _U + "dockerd/test_engine.py::test_a_file_is_validated",
    ),
    Trap(
        "named-or-discrete", "engine", "any version",
        "A kind is named or discrete. If it is both, dockerd does not start. GPU=0 alone is the amount 0. A value must not contain '='. Duplicates"
        " are counted twice. GPU and gpu are two kinds with the same variable.",
        "swarmkit api/genericresource/parse.go",
        REFUSAL, "A run checks rules, extra_resources and the resources of other tools before it writes anything.",
        _U + "policy/test_policies.py::test_impossible_extra_resources_are_refused",
    ),
    BY_ID["two-kinds-one-gpu"],
    BY_ID["memory-gives-no-device"],
    Trap(
        "memory-is-a-sum", "swarm", "any version",
        "A discrete kind has one amount for the whole node. A node with 2 × 8 GB accepts a task of 12 GB, which fits on none of its cards.",
        "swarmkit api/genericresource",
        WARNING, "By default, each GPU is a kind of its own, such as VRAM-C1. With 'sum: true', a warning says which tasks Swarm could misplace.",
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
        "A node reports its resources to the manager when it connects, and then every 20 s. Right after a restart they may be missing.",
        "swarmkit agent/agent.go",
        HANDLED, "A run waits until the manager shows the planned resources, and reports a node that does not have them.",
        _U + "rollout/test_manager_updates.py::test_hosts_that_did_not_converge_are_found",
    ),
    Trap(
        "start-limit", "engine", "any version, systemd",
        "Several restarts in a minute use up the unit's start limit, and dockerd stays down.",
        "Debian's docker.service: 3 starts in 60 s",
        HANDLED, "A run restarts dockerd only once, between two calls of 'systemctl reset-failed'. systemd can restart dockerd as often as before.",
        _U + "dockerd/test_engine.py::test_a_successful_restart_leaves_systemd_all_starts_for_crashes",
    ),
    Trap(
        "idle-restart", "engine", "any version",
        "A restart of an idle dockerd takes up to 2 s.",
        "seen with 20.10.24 and 26.1.5",
        HANDLED, "A run waits until the daemon shows the wanted settings, not for a fixed time.",
        _U + "dockerd/test_engine.py::test_waiting_ends_with_the_wanted_state",
    ),
    BY_ID["unauthorized-pull-rejects"],
    Trap(
        "loopback-registries", "engine", "29.10.0 and newer, if insecure-registries is set",
        "If insecure-registries is set, in daemon.json or by a flag, it replaces Docker's own default. Then a registry at localhost or 127.0.0.1"
        " needs a certificate that Docker trusts, and pulls from a registry without TLS fail. Without the key, such a registry works as before.",
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
        REFUSAL, "A run reports the error before the host joins, also with --check. A warning names members that advertise another address.",
        _U + "fleet/test_advertised.py::test_a_host_joins_only_with_an_address_that_docker_accepts",
    ),
    Trap(
        "half-joined", "swarm", "any version",
        "A join that cannot reach its manager leaves the node in the state error. Later joins fail with 'already part of a swarm'.",
        "seen with 26.1.5",
        HANDLED, "If the node never was a member, it leaves before it joins again.",
        _U + "dockerd/test_engine.py::test_a_half_finished_join_is_recognised",
    ),
    Trap(
        "mixed-releases", "engine", "20.10.24 with 26.1.5",
        "A swarm can have nodes with different releases of Docker Engine. Each of them accepts a change of runtimes with a reload.",
        "seen with both",
        HANDLED, "A run checks each node for the known issues of its own release.",
        _FLEET + "both_releases_of_the_engine_are_in_the_swarm",
    ),
    Trap(
        "only-json-shows-resources", "engine", "any version",
        "'docker node inspect --pretty' shows no generic resources. Only the task itself shows which GPUs were allocated to it.",
        "docker/cli",
        HANDLED, "The collection reads Docker's API. swarm_gpu_info shows which task has which GPU.",
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
        "A drain ends tasks with restart-condition none for good. It does not stop replicated jobs, so the restart kills them. It does not affect"
        " containers that are not in a service.",
        "seen with 26.1.5",
        HANDLED, "A run pauses the node, and waits while work runs there that a restart would stop.",
        _U + "plan/test_provision.py::test_work_is_stopped_only_with_consent",
    ),
    Trap(
        "leaving-disconnects", "swarm", "any version",
        "A daemon that leaves its swarm disconnects every container from the swarm's attachable networks, including containers of 'docker run'.",
        "moby DaemonLeavesCluster",
        HANDLED, "If the host should leave, a run treats such a container as work that it must not stop.",
        _U + "plan/test_deprovision.py::test_a_container_on_a_swarm_network_loses_it_when_the_node_leaves",
    ),
    Trap(
        "label-evicts", "leader", "any version",
        "If a label changes and a task's constraint is no longer met, the task is evicted at once.",
        "moby#34139, #31014",
        HANDLED, "Only labels of this collection are changed. swarm_nodes names the tasks that would be evicted, and respects provision_disrupt.",
        _U + "node_spec/test_eviction.py::test_these_tasks_are_evicted",
    ),
    Trap(
        "drain-uses-attempts", "leader", "any version",
        "A drain uses up one attempt of --restart-max-attempts. A replicated task without an attempt left is not started again.",
        "swarmkit restart.go",
        HANDLED, "A run moves such a task only if it has an attempt left. Otherwise the run waits for the task.",
        _U + "tasks/test_restarts.py::test_a_task_can_be_moved_while_an_attempt_is_left",
    ),
    Trap(
        "constraints-know-equality", "swarm", "any version",
        "Constraints support only == and !=, so 'any GPU with 40 GB or more' cannot be required.",
        "docs.docker.com, docker service create",
        HANDLED, "Nodes get labels with thresholds, such as gpu.mem_ge_40=true.",
        _U + "policy/test_labels.py::test_labels_have_thresholds",
    ),
    Trap(
        "swarm-only-spreads", "leader", "any version",
        "Swarm spreads tasks over the nodes and does not pack them. So many tasks with one GPU can keep a task with eight GPUs from running.",
        "swarmkit#1034",
        DOCUMENTED, "Reserve nodes for large tasks with a label, or with a kind of their own.",
        "cited",
    ),
    Trap(
        "forced-leave-loses-state", "swarm", "any version",
        "The state error can mean that a join failed, or that the certificate of a member has expired. 'leave --force' is safe only after a failed"
        " join, when the node has no Raft state and no earlier membership.",
        "moby#29242",
        HANDLED, "A run lets the node leave only after a failed join. Otherwise it reports the host.",
        _U + "fleet/test_membership.py::test_an_impossible_membership_is_refused",
    ),
    Trap(
        "post-install-reloads-systemd", "toolkit", "1.18.0 to 1.19.1",
        "When the packages are installed, they run 'systemctl daemon-reload', after which running containers can lose their GPUs.",
        "NVIDIA/nvidia-container-toolkit packaging",
        HANDLED, "A run treats a change of the toolkit as a restart, and waits until nothing runs on the node.",
        _U + "plan/test_provision.py::test_work_is_stopped_only_with_consent",
    ),
    Trap(
        "recipes-of-old", "engine", "hand-made nodes",
        "Published recipes write -H fdd://, add their lines again if they run twice, do not restart a running daemon (so it keeps the old settings),"
        " or put kind beside discrete_resource_spec in a Compose file.",
        "recipes from 2016 to 2023",
        HANDLED, "A run removes duplicate lines, and compares the running daemon, not only its files.",
        _U + "config/test_runtime_toml.py::test_a_line_that_a_recipe_added_twice_becomes_one",
    ),
)  # fmt: skip

CARDS = (
    Trap(
        "driver-not-reloaded", "nvml", "after a driver upgrade without a reboot",
        "NVML fails with LibRmVersionMismatch, because the library and the kernel module have different versions.",
        "NVIDIA NVML API reference",
        REFUSAL, "Reboot the node, or reload the kernel modules.",
        _U + "gpu/test_nvml.py::test_a_machine_that_cannot_be_read_says_why_and_what_to_do",
    ),
    Trap(
        "lost-gpu", "nvml", "any version",
        "One card fell off the bus (GpuIsLost), or one query of a card fails. The other cards are healthy.",
        "NVIDIA NVML API reference",
        HANDLED, "The node excludes and reports this card, and advertises the other cards. Fewer GPUs than before need consent.",
        _U + "gpu/test_nvml.py::test_one_failing_gpu_hides_no_other",
    ),
    Trap(
        "shrink", "nvml", "any version",
        "A lost card, or a MIG layout that did not survive a reboot, makes a node silently smaller.",
        "NVIDIA MIG user guide",
        REFUSAL, "Bring the card or the layout back, or consent with 'expect' or 'allow_shrink'.",
        _U + "policy/test_shrink.py::test_less_than_before_needs_consent",
    ),
    Trap(
        "no-memory-of-its-own", "nvml", "unified memory: Jetson Orin, GB10",
        "NVML does not report the size of the memory (NotSupported).",
        "NVIDIA NVML API reference",
        REFUSAL, "Advertise such a GPU as a whole. With 'system_memory: true', a rule can advertise the system's memory.",
        _U + "policy/test_policies.py::test_unknown_memory_is_refused",
    ),
    Trap(
        "mig-card-whole", "nvml", "cards in MIG mode",
        "A card in MIG mode cannot be allocated to a task as a whole.",
        "NVIDIA MIG user guide",
        HANDLED, "The card is excluded and reported, or a rule with 'as: mig' advertises its MIG devices.",
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
