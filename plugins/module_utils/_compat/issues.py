# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The known issues with GPUs on Docker Swarm that :mod:`.checks` looks for.

Ansible sends this file to the nodes with each module. So issues that no code checks are only in tests/pages/known_traps.py. The page
docs/fix/known-issues.md is generated from both files.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

HANDLED, WARNING, REFUSAL, DOCUMENTED = "handled", "warning", "refusal", "documented"


Version = Tuple[int, ...]  # major, minor, patch


class Trap(NamedTuple):
    """One known issue.

    ``component`` is engine, leader or toolkit. ``affected`` names the affected versions of the component as text. ``versions`` are the first affected
    version and the first fixed version (None: any), for use in code. ``when`` names a condition in checks.py that must also be true. Issues without
    ``when`` are found by other code. ``proof`` is a test (path::name) or ``cited``.
    """

    id: str
    component: str
    affected: str
    wrong: str
    reference: str
    answer: str
    remedy: str
    proof: str
    when: str | None = None
    versions: tuple[Version, Version] | None = None


_U = "tests/unit/"
_POLICIES = "molecule/policies/tests/test_policies.py::test_"

TRAPS = (
    Trap(
        "jit-cdi-ignores-swarm-resource", "toolkit", "1.18.0 to 1.18.2",
        "The default mode (jit-cdi) ignores swarm-resource: every task sees all GPUs.",
        "NVIDIA/nvidia-container-toolkit#1599, #1600",
        HANDLED, "config.toml gets mode = \"legacy\" in [nvidia-container-runtime]. Toolkit 1.19.0 or newer needs no such line.",
        _POLICIES + "a_task_gets_the_device_of_its_kind",
        "replaced_mode", ((1, 18, 0), (1, 19, 0)),
    ),
    Trap(
        "kind-gpu-line-is-dropped", "toolkit", "1.19.1 and older",
        "Any rewrite of config.toml by nvidia-ctk, such as at each upgrade of the package, comments out"
        " swarm-resource = \"DOCKER_RESOURCE_GPU\", because that is the built-in default. Then tasks are not isolated.",
        "NVIDIA/nvidia-container-toolkit commits 5eaec1f1, d5ae0644",
        REFUSAL, "Use another kind, such as NVIDIA-GPU, or toolkit 1.20.0 or newer.",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "only_kind_gpu", ((0, 0, 0), (1, 20, 0)),
    ),
    Trap(
        "mode-ignores-swarm-resource", "toolkit", "before 1.19.0, with mode = \"cdi\" or \"csv\", or on a Jetson",
        "This mode ignores swarm-resource: a task gets the GPUs that its image names, and every CUDA image names all. Only the hook of the legacy"
        " mode reads swarm-resource.",
        "NVIDIA/nvidia-container-toolkit internal/modifier/cdi.go, csv.go at 1.14.6, 1.17.8, 1.18.2",
        REFUSAL, "Upgrade to toolkit 1.19.0 or newer (nvidia_container_toolkit_version), which reads swarm-resource in all modes. Or set"
        " mode = \"auto\", if nothing needs the present mode.",
        _U + "compat/test_runtime_config.py::test_a_mode_that_the_user_chose_is_never_replaced",
        "other_mode", ((0, 0, 0), (1, 19, 0)),
    ),
    Trap(
        "config-toml-refused", "toolkit", "any version",
        "NVIDIA's runtime refuses this file, and starts no container.",
        "NVIDIA/nvidia-container-toolkit api/config/v1/toml.go, internal/runtime/runtime_factory.go at 1.20.0",
        REFUSAL, "Correct the setting in config.toml. 'nvidia-ctk config default' shows the keys and the forms of their values.",
        _U + "compat/test_runtime_config.py::test_a_key_with_a_value_of_the_wrong_type_is_refused",
        "refused_by_nvidia",
    ),
    Trap(
        "variables-not-accepted", "toolkit", "any version",
        "NVIDIA's runtime ignores the variables of tasks, also those that swarm sets. So no task gets a GPU.",
        "NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go; seen with 1.20.0",
        REFUSAL, "Remove that line from config.toml, or set it to true. To limit what a task sees, use gpu_swarm_isolation.",
        _U + "compat/test_runtime_config.py::test_a_complete_config_toml_of_a_user_is_refused_by_setting",
        "no_variables",
    ),
    Trap(
        "no-cgroups", "toolkit", "any version, in the legacy mode",
        "dockerd denies a container all GPUs, and with this setting NVIDIA's hook does not allow them: no task can use a GPU. The setting is for"
        " rootless containers, which cannot be in a swarm.",
        "NVIDIA/nvidia-container-toolkit cmd/nvidia-container-runtime-hook/main.go",
        REFUSAL, "Remove no-cgroups from config.toml, or set it to false.",
        _U + "compat/test_runtime_config.py::test_settings_that_only_legacy_mode_reads",
        "no_cgroups",
    ),
    Trap(
        "capabilities-not-supported", "toolkit", "any version, in the legacy mode",
        "Every CUDA image requests compute or utility. Its tasks do not start, or find no libraries of the driver.",
        "NVIDIA/nvidia-container-toolkit cmd/nvidia-container-runtime-hook/container_config.go, hook_config.go",
        REFUSAL, "Remove supported-driver-capabilities from config.toml, or add compute and utility to it. Use only"
        " names that NVIDIA documents.",
        _U + "compat/test_runtime_config.py::test_settings_that_only_legacy_mode_reads",
        "no_capabilities",
    ),
    Trap(
        "hooks-disabled", "toolkit", "1.20.0 and newer, in the modes with CDI",
        "Containers do not find the libraries of the driver, unless their image searches them itself.",
        "NVIDIA/nvidia-container-toolkit internal/discover/hooks.go at 1.20.0",
        WARNING, "Remove these names from nvcdi-disable-hooks in config.toml.",
        _U + "compat/test_runtime_config.py::test_hooks_that_a_container_needs",
        "no_hooks", ((1, 20, 0), (99, 0, 0)),
    ),
    Trap(
        "toolkit-starts-no-container", "toolkit", "any version",
        "NVIDIA's toolkit cannot give GPUs to containers. So each task that reserves one fails, and its GPU is free for the next task.",
        "seen with 1.20.0: a library under another name, and mode = \"cdi\" without a specification",
        REFUSAL, "Run the command from the message on the node, and fix its error.",
        _U + "node/test_trial.py::test_a_failed_toolkit_is_refused_with_its_message",
        "tried",
    ),
    Trap(
        "no-reservation-sees-all", "toolkit", "any version",
        "A service that reserves nothing but whose image sets NVIDIA_VISIBLE_DEVICES=all, as every CUDA image does, sees every GPU of its node"
        " unless a guard prevents it. No setting of the toolkit prevents it without disabling the swarm's variables too.",
        "seen with 1.20.0",
        WARNING, "Set gpu_swarm_isolation to reserved: containers that start after that see only what they reserved, and a service that sets"
        " such a variable itself is refused. Or reserve a GPU, or set NVIDIA_VISIBLE_DEVICES=void (not none) on a service that must not see one."
        " A variable that only the image sets is not reported.",
        _U + "ledger/test_findings.py::test_services_that_see_gpus_without_a_reservation_are_named",
    ),
    Trap(
        "variable-set-by-hand", "toolkit", "any version",
        "'--env DOCKER_RESOURCE_<KIND>=all' on a service without a reservation gives it all GPUs without an allocation, unless a guard refuses it.",
        "seen with 1.20.0",
        WARNING, "Reserve the kind: then the scheduler's value wins. Or set gpu_swarm_isolation to reserved: then such a service is refused.",
        _U + "ledger/test_findings.py::test_services_that_see_gpus_without_a_reservation_are_named",
    ),
    Trap(
        "zero-takes-all", "swarm", "any version",
        "A task that reserves 0 of a named kind (value: 0, NVIDIA-GPU=0) takes all free ones on its node, and needs at least one."
        " For a counted kind, such as VRAM, 0 takes nothing.",
        "swarmkit api/genericresource/resource_management.go, seen with 26.1.5",
        WARNING, "Write the number that one task needs, such as value: 1. If a service needs no GPU, remove the reservation.",
        _U + "ledger/test_findings.py::test_a_service_that_reserves_0_sees_all_gpus",
    ),
    Trap(
        "two-kinds-one-gpu", "swarm", "any version",
        "Swarm allocates each kind separately, even if two kinds have the same GPUs. So two services can run on one card at the same time.",
        "seen with 26.1.5",
        HANDLED, "A GPU belongs to the first rule that selects it, even if someone listed it under another kind. If another tool lists"
        " the GPUs once more in node-generic-resources, remove that, or have a rule advertise them under that name, such as {as: gpu, kind: gpu}.",
        _U + "policy/test_policies.py::test_entries_of_others_for_our_gpus_are_taken_over",
    ),
    Trap(
        "new-leader-claims-again", "leader", "any version",
        "A new leader assigns GPUs to running tasks again, from the front of its list. So it may count a used GPU as free and a free one as used.",
        "swarmkit manager/scheduler/nodeinfo.go",
        WARNING, "Pause the node, restart its tasks that are older than the leader ('docker service update --detach --force'), and return"
        " it. Then the leader counts them correctly; a restart alone is not enough. fleet.gpu_swarm.swarm_gpu_info shows which task has which GPU.",
        _U + "ledger/test_findings.py::test_a_gpu_that_is_allocated_to_two_tasks",
    ),
    Trap(
        "memory-gives-no-device", "toolkit", "any version",
        "A task that reserves only memory (VRAM=12000) gets no GPU unless its image sets NVIDIA_VISIBLE_DEVICES. Then it"
        " gets the GPUs that the variable names: nothing ties its share to a card.",
        "seen with 1.20.0",
        WARNING, "Set gpu_swarm_isolation to reserved: then such a task gets the card of its kind. Without isolation, set NVIDIA_VISIBLE_DEVICES"
        " on such services. On a node with several GPUs, set it to the GPU whose kind they reserve.",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "memory",
    ),
    Trap(
        "named-tasks-rejected", "engine", "20.10 to 23.0.1",
        "Tasks with an allocated GPU can be rejected: 'assigned node no longer meets constraints'.",
        "moby#44378, swarmkit#3082",
        WARNING, "Upgrade Docker Engine to 25.0.3 or newer, the managers first.",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "named", ((0, 0, 0), (23, 0, 2)),
    ),
    Trap(
        "discrete-tasks-rejected", "engine", "23.0.2 to 25.0.2",
        "Tasks with an allocated amount of a discrete kind, such as VRAM, are rejected.",
        "swarmkit#3162",
        REFUSAL, "Upgrade Docker Engine to 25.0.3 or newer, or advertise whole GPUs.",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "discrete", ((23, 0, 2), (25, 0, 3)),
    ),
    Trap(
        "old-leader-evicts-gpu-tasks", "leader", "before 23.0.2",
        "At any update of a node (label, availability) the leader evicts a task there with an allocated GPU.",
        "moby#44378, swarmkit#3082",
        WARNING, "Upgrade Docker Engine on the managers to 25.0.3 or newer. Until then, each change can stop such a task.",
        _U + "node_spec/test_eviction.py::test_old_leaders_reject_holders_at_any_update",
        "named", ((0, 0, 0), (23, 0, 2)),
    ),
    Trap(
        "network-evicts-gpu-tasks", "leader", "before 23.0.2",
        "A service with GPUs on an overlay network does not start: 'node is missing network attachments, ip addresses may be exhausted', or"
        " 'assigned node no longer meets constraints'. Its first task on a node attaches the network to this node, which updates the node. At any"
        " such update the leader evicts a task with an allocated GPU, even one of another service.",
        "moby#44378, docker/for-linux#1201, seen with 20.10.24",
        WARNING, "Upgrade Docker Engine on the managers to 25.0.3 or newer. Until then run a global service without GPUs on the same network first,"
        " as deploy does, or use the network host.",
        _U + "ledger/test_findings.py::test_networks_that_evict_tasks_are_reported",
    ),
    Trap(
        "old-leader-evicts-discrete-tasks", "leader", "23.0.2 to 25.0.2",
        "At any update of a node (label, availability) the leader evicts a task there with an allocated amount of a discrete kind.",
        "swarmkit#3162",
        WARNING, "Upgrade Docker Engine on the managers to 25.0.3 or newer. Until then, each change can stop such a task.",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "discrete", ((23, 0, 2), (25, 0, 3)),
    ),
    Trap(
        "finished-jobs-count", "leader", "before 29.6.0",
        "At any update of a node (label, availability) the leader counts the finished tasks of jobs there too. If their GPUs are"
        " in use again, or no longer advertised, it stops a running task or runs the job again.",
        "moby#52652, seen with 26.1.5",
        WARNING, "Remove finished jobs ('docker service rm'), or upgrade Docker Engine on the managers to 29.6.0 or newer.",
        _U + "ledger/test_findings.py::test_finished_jobs_that_are_in_the_way",
        "finished_jobs", ((0, 0, 0), (29, 6, 0)),
    ),
    Trap(
        "unauthorized-pull-rejects", "engine", "29.6.0 to 29.6.2",
        "Swarm pulls an image before it starts a task. If the registry answers that this is unauthorized, these releases reject the task, even if"
        " the image is on the node. Other releases start it with that image.",
        "moby#52570, #52698, #53212",
        WARNING, "Upgrade Docker Engine to 29.7.0 or newer. Until then deploy services of a private registry with its login"
        " ('--with-registry-auth', or gpu_stack_registry_auth of deploy).",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "gpus", ((29, 6, 0), (29, 7, 0)),
    ),
    Trap(
        "names-lost-with-a-connection", "engine", "29.0.0 to 29.7.2",
        "When a node was not reachable for some seconds while its dockerd kept running, the other nodes can lose the names of services that have"
        " tasks there, and do not find them again: NXDOMAIN. The tasks keep running, and answer at their IP addresses.",
        "moby#53141, corrected by #53142 after 29.7.2",
        WARNING, "Upgrade Docker Engine to a release after 29.7.2. Until then 'docker service update --force' brings back the names of a"
        " service, and restarts its tasks.",
        _U + "compat/test_checks.py::test_facts_lead_to_these_findings",
        "gpus", ((29, 0, 0), (29, 7, 3)),
    ),
    Trap(
        "encrypted-network-in-two-parts", "swarm", "29.0.0 to 29.2.0, 28.2.2, 25.0.13 and 25.0.14, together with any other release",
        "On an encrypted overlay network, tasks on these releases of Docker Engine and tasks on other releases receive nothing from each other."
        " Names are still resolved.",
        "moby#51798, #51951, #51963",
        WARNING, "Upgrade Docker Engine on those nodes, to 29.2.1, 25.0.15 or newer. Between nodes of one release the network works.",
        _U + "ledger/test_encrypted.py::test_encrypted_networks_between_incompatible_releases_are_reported",
    ),
)  # fmt: skip
