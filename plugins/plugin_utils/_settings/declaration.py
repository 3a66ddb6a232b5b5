# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the playbooks. Each setting is declared once.

Ansible accepts any variable with any value. It ignores a misspelt name, and ``'soon' | int`` is 0. So this file declares the settings, and a run
checks them before it changes anything.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...module_utils._isolation_levels import LEVELS
from ...module_utils._policy import labels
from ...module_utils._policy.quantity import count_of
from ...module_utils._swarm import owned_labels


@dataclass(frozen=True)
class Setting:
    """One variable that a user may set. ``type``, ``choices`` and ``elements`` mean the same as in Ansible's argument specs.

    ``low`` and ``high`` are the limits of a number. ``unit`` is the unit of the number. ``default`` is None if nothing is set by default. ``empty``
    allows an empty value, which means not set. ``once``: the setting applies to the whole run, not to one host. ``swarm``: the setting also applies
    to hosts that ``--limit`` excludes. ``wants`` describes the allowed values if the type is not enough, and ``fits`` checks them. ``meaning`` is one
    line for the user, and ``details`` are the other lines.
    """

    name: str
    type: str
    default: Any
    meaning: str
    low: int = 0
    high: int | None = None
    unit: str = ""
    choices: tuple[Any, ...] = ()
    elements: str = "raw"
    empty: bool = False
    once: bool = False
    swarm: bool = False
    wants: str = ""
    fits: Callable[[Any], bool] | None = None
    details: str = ""


def _are_sizes(value: Any) -> bool:
    return all(count_of(size, 100) for size in (value if isinstance(value, (list, tuple)) else [value]))


def _are_names_or_all(value: Any) -> bool:
    return isinstance(value, (bool, str)) or (isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_full_path(value: Any) -> bool:
    return str(value).startswith("/") or not value


def _is_web_address(value: Any) -> bool:
    return bool(re.fullmatch(r"(https?://[^\s<>\"']+)?", str(value)))


def _is_age(value: Any) -> bool:
    from ...module_utils._jobs.finished import AGE  # imported here, because the import is slow and only prune_jobs needs it

    return bool(AGE.fullmatch(str(value).strip().lower()))


def _is_since(value: Any) -> bool:
    from ...module_utils._view.times import is_since  # imported here: only status needs it

    return is_since(str(value))


def _is_python(value: Any) -> bool:
    return bool(re.fullmatch(r"([0-9]+\.[0-9]+)?", str(value)))


def _is_key(value: Any) -> bool:
    return bool(owned_labels.KEY.match(str(value)))


NEVER, SERVICES, ALL = "never", "services", "all"
DISRUPTIONS = (NEVER, SERVICES, ALL)
SECONDS = "seconds"
PLAYBOOKS = (
    Setting(
        "gpu_swarm_isolation", "str", None, "which GPUs a task can see, one level for the whole swarm", choices=LEVELS, empty=True,
        once=True, swarm=True,
        details="The level is kept in a label of the swarm. A run without this setting uses that label. Without setting and label, the level is "
        "`reserved` in a swarm that the run creates, `audit` in a swarm that others created, and `off` if nodes were provisioned without a "
        "level. See docs/how/isolation.md.",
    ),
    Setting(
        "gpu_swarm_dedicated", "bool", False, "whether services without a GPU reservation must stay off GPU nodes", once=True, swarm=True,
        details="GPU nodes get the label `gpu.dedicated=true`. The label alone moves no task: a run and `status` list the services without a "
        "reservation on these nodes, each with the command that adds the constraint. If the label would evict tasks, `provision_disrupt` "
        "decides. See docs/operate/dedicated-nodes.md.",
    ),
    Setting(
        "gpu_swarm_devices", "raw", {}, "devices besides GPUs that services may have, by name", empty=True,
        wants="a mapping of names to lists of paths", fits=_is_mapping,
        details="For example `{rdma: [/dev/infiniband/uverbs*, /dev/infiniband/rdma_cm]}`. A service asks for them with the variable "
        "`GPU_SWARM_DEVICES=rdma`, and runs on a node that has them. Only character devices below `/dev` are given, but no GPUs of NVIDIA. A host or "
        "group may have other devices than the rest of the fleet. See docs/run/devices.md.",
    ),
    Setting(
        "gpu_swarm_queues", "raw", None, "the queues of the swarm, by name", empty=True, once=True, swarm=True,
        wants="a mapping of names to options", fits=_is_mapping,
        details="For example `{research: {weight: 3, max: {NVIDIA-GPU: 24}, per_owner: {NVIDIA-GPU: 8}}, nightly: {priority: -10, time_limit: 8h}}`. "
        "The options are `weight` (1), `priority` (0), `max` and `per_owner` (amounts by resource kind, without a limit if a kind is missing) and "
        "`time_limit` (24h; `none` for no limit). `provision` keeps the queues in a label of the swarm, and the service `gpu-swarm-manager` on the "
        "leader starts their work. If it is not set, the queues stay as they are. `{}` removes them; their work then waits.",
    ),
    Setting(
        "gpu_swarm_record", "bool", True, "whether the managers record who used which GPU, and what happened", once=True, swarm=True,
        details="The service `gpu-swarm-manager` keeps the record on each manager, in `/var/lib/gpu-swarm/record`, which root and group docker can "
        "read. `false` ends the recording and keeps the existing record; `deprovision` removes it.",
    ),
    Setting(
        "gpu_swarm_page", "bool", False, "whether each manager keeps a page of the fleet up to date", once=True, swarm=True,
        details="The page is one file, `/var/lib/gpu-swarm/page/index.html`, which root and group docker can read, and which a web server can "
        "serve. With `false` it is removed.",
    ),
    Setting(
        "gpu_swarm_grafana_url", "str", "", "the address of Grafana, to which the page links", once=True, swarm=True,
        wants="an address that begins with http:// or https://", fits=_is_web_address,
        details="If it is empty, the page has no link.",
    ),
    Setting(
        "provision_disrupt", "str", SERVICES, "which work on a host a change may stop", choices=DISRUPTIONS,
        details="`services` moves tasks that swarm starts again elsewhere. It waits for one-shot tasks, jobs, plain containers, and tasks without "
        "restart attempts left (`--restart-max-attempts`). `never` leaves a host alone while the change would stop anything there, and lists it "
        "as waiting. `all` is your consent to stop everything. With deprovision it is also your consent to lose the contents of the swarm when its "
        "last manager leaves.",
    ),
    Setting(
        "provision_wait", "int", 300, "how long a batch waits for work that must not be stopped", unit=SECONDS,
        details="A node that must wait longer stays paused and is listed with its blockers. The next run continues with it. If the hosts of a "
        "batch have different values, the longest applies.",
    ),
    Setting(
        "provision_keep_label", "str", "gpu-swarm.keep", "the label of services whose tasks must not be moved", once=True,
        details="Set it with `docker service update --label-add gpu-swarm.keep=true NAME`, or under `deploy: labels:` of a stack. Under "
        "`provision_disrupt: services`, a run then waits for the tasks of the service; `all` still moves them. An age as value, such as `12h` (or "
        "`s`, `m`, `d`), protects a task only until it is that old. Any other value but `false` counts as `true` and gives a warning.",
    ),
    Setting(
        "provision_batch", "raw", None, "how many nodes with work are changed at the same time", once=True, empty=True,
        wants="a number, a share such as 25%, or a list of these", fits=_are_sizes,
        details="By default a run first changes a canary of each model, then a tenth of the nodes but at most three, then a tenth at a time. Idle "
        "members go before all of these: first their canaries (as many as the first number, if you give one), then the others at once. Hosts "
        "outside a swarm are changed all at once.",
    ),
    Setting("provision_max_failed", "int", 1, "after how many failed hosts no further batch starts", low=1, unit="hosts", once=True),
    Setting(
        "provision_lease", "int", None, "how long the lease of a run lasts", low=1, unit=SECONDS, once=True,
        details="Until the lease expires no other run changes the swarm, even if this run was killed. A run renews its lease before each batch, and "
        "after a long wait within a batch. The default is the longest time that a batch can take. It depends on the hosts of the batch, Ansible's "
        "forks, `provision_wait` and `provision_drain_timeout`. With maintain it includes three times `maintain_timeout`, once of that for your "
        "tasks.",
    ),
    Setting(
        "provision_take_lease", "bool", False, "whether to take over the lease of another run, because you know that it is dead", once=True,
    ),
    Setting("provision_drain_timeout", "int", 120, "how long a drained task may take to end", unit=SECONDS),
    Setting(
        "provision_allow_pending", "raw", None, "services that may become pending under a new policy", once=True,
        empty=True, wants="a list of names, or true for all", fits=_are_names_or_all,
        details="If a node would no longer advertise what any other service reserves, and no other node has it, this is an error that names the "
        "service.",
    ),
    Setting(
        "provision_ignore_pending", "list", None, "services whose pending tasks do not stop a run", elements="str", once=True,
        details="A run changes no further node while tasks are pending that had a place when it started, unless they belong to one of these "
        "services. Use it for work that can wait, such as batch training that fills the fleet.",
    ),
    Setting(
        "provision_remove_finished_jobs", "bool", False, "whether to remove finished jobs that would otherwise run again", once=True,
        details="If Docker Engine on the swarm's leader is older than 29.6.0, finished jobs run again when their node is updated. With `false` such "
        "a node waits and is listed with the job. With deprovision this concerns only nodes that stay members, because others are not updated.",
    ),
    Setting(
        "provision_note_run", "bool", False, "whether a run also records that it found nothing to change", once=True,
        details="A run that changes something always records when it ended and the result of its hosts, in the label `gpu-swarm.last-run` of the "
        "swarm. With `true`, a run without changes does the same, with one more call to a manager. The alert for a swarm without a run for a week "
        "needs this (docs/operate/alerts.md).",
    ),
    Setting(
        "maintain_tasks", "path", None, "the file with the tasks of a maintenance", once=True,
        details="A relative path starts in your working directory. Tasks have no time limit, and a task that hangs blocks its batch. So give a "
        "`timeout` in seconds to each task that could hang.",
    ),
    Setting(
        "maintain_id", "str", "", "the name of a maintenance, recorded on each node that has had it", empty=True,
        wants="text of letters, digits, '.', '_', '/' and '-'", fits=_is_key,
        details="For example `-e maintain_id=driver-570`. If you run it again with the same name, for example for nodes that had to wait, it skips "
        "nodes on which this maintenance is finished. If it is empty, every run empties every node again.",
    ),
    Setting("maintain_reboot", "bool", False, "whether each node reboots after these tasks"),
    Setting("maintain_timeout", "int", 900, "how long a node may take to return after a reboot", low=1, unit=SECONDS),
    Setting(
        "deprovision_leave", "bool", True, "whether a host leaves the swarm",
        details="It leaves no matter who made it a member. With `false` it stays a member with its former availability. Use that if you had the "
        "swarm before this collection.",
    ),
    Setting(
        "deprovision_packages", "bool", False, "whether the NVIDIA Container Toolkit and its repository are removed",
        details="Files and packages from before the first run are restored. With `false` the run lists the files that stay. A repository that a "
        "failed run left behind is always removed if no toolkit is installed.",
    ),
    Setting(
        "status_service", "str", "", "the service to explain, by name or id", once=True,
        details="The answer is why the service is pending, where it would fit, and what would make room for it. `-e service=train` is the short "
        "form. If it is empty, the status of the whole fleet is shown.",
    ),
    Setting(
        "status_plan", "path", None, "the file with a policy to try: status shows what it would do", once=True,
        details="It can only be given with `-e`; `-e plan=policy.yml` is the short form. The file contains variables, and its `gpu_node_advertise` "
        "is the policy. Every node is read, as in a check run of `provision`. A relative path starts in your working directory.",
    ),
    Setting(
        "status_owner_label", "str", "gpu-swarm.owner", "the label of services that names their owner", once=True,
        details="Set it with `docker service update --label-add gpu-swarm.owner=alice NAME`, or under `deploy: labels:` of a stack. The tables then "
        "show the owner of each task.",
    ),
    Setting(
        "status_what", "str", "all", "the section to show", once=True,
        choices=("all", "free", "holders", "pending", "faulty", "usage", "events", "card"),
        details="`-e what=free` is the short form. The exit status is that of the whole fleet. `usage`, `events` and `card` come from the record of "
        "the managers, and their exit status is 0.",
    ),
    Setting(
        "status_since", "str", "", "the begin of `what=usage` and `what=events`", once=True, empty=True, fits=_is_since,
        wants="a time such as 30m, 12h, 7d or 4w, or a day (UTC) such as 2026-11-20",
        details="`-e since=7d` is the short form. If it is empty, `usage` covers 7 days and `events` 12 hours.",
    ),
    Setting(
        "status_by", "str", "owner", "what `what=usage` is counted by", choices=("owner", "service", "model", "node"), once=True,
        details="`-e by=node` is the short form.",
    ),
    Setting(
        "status_node", "str", "", "only events of this node, with `what=events`", once=True,
        details="The node's hostname or id. `-e node=gpu-1` is the short form. If it is empty, the events of all nodes are shown.",
    ),
    Setting(
        "status_card", "str", "", "the card of `what=card`", once=True,
        details="The UUID of a GPU or MIG device, or its beginning. `-e card=GPU-5fa2e7a4` is the short form.",
    ),
    Setting(
        "status_output", "str", "table", "the output format", choices=("table", "json", "html", "ledger"), once=True,
        details="`json` prints one line that begins with `{`. `html` writes the whole fleet as one page to the file `status_to`, and `ledger` writes "
        "what the playbook preflight needs. `-e output=json` is the short form.",
    ),
    Setting(
        "status_to", "path", None, "the file for `output=html` or `output=ledger`, on the machine that runs Ansible", once=True,
        details="`-e to=fleet.html` is the short form. A relative path starts in your working directory. A file of another kind is not overwritten.",
    ),
    Setting(
        "status_textfile", "str", "", "the directory on the manager for a file with Prometheus metrics", once=True,
        wants="an absolute path", fits=_is_full_path,
        details="Use the existing directory of node_exporter's textfile collector, on Debian `/var/lib/prometheus/node-exporter`. "
        "`-e textfile=/var/lib/prometheus/node-exporter` is the short form. If it is empty, no file is written.",
    ),
    Setting(
        "preflight_ledger", "path", None, "the saved ledger with which the Compose file is compared", once=True,
        details="`-e ledger=ledger.json` is the short form. A relative path starts in your working directory. `status` writes it with "
        "`output=ledger`.",
    ),
    Setting(
        "gpu_job_file", "path", None, "the job file, on the machine that runs Ansible", once=True,
        details="`-e job=job.yml` is the short form. A relative path starts in your working directory. docs/run/jobs.md describes the file.",
    ),
    Setting(
        "gpu_job_name", "str", "", "the name of the job, instead of the name in its file", once=True,
        details="With `-e state=absent` no file is needed.",
    ),
    Setting(
        "gpu_job_state", "str", "present", "whether to submit the jobs or to remove them", choices=("present", "absent"), once=True,
        details="`-e state=absent` removes all jobs with this name, also running ones. Their logs are saved first.",
    ),
    Setting(
        "gpu_job_again", "str", NEVER, "which finished jobs run once more", choices=(NEVER, "failed", "always"), once=True,
        details="`failed` means jobs that did not complete. `-e again=failed` is the short form.",
    ),
    Setting("gpu_job_wait", "bool", True, "whether to wait until all jobs have finished", once=True, details="`-e wait=false` is the short form."),
    Setting(
        "gpu_job_wait_timeout", "int", 3600, "how long to wait", unit=SECONDS, once=True,
        details="With `0`, the run looks at the jobs once. As after any other wait, its exit status is 75 if a job has not ended.",
    ),
    Setting(
        "gpu_job_log_directory", "str", "/var/lib/gpu-swarm/jobs", "the directory on the manager for the logs of jobs", once=True,
        wants="an absolute path", fits=_is_full_path, details="Each task has its own file, which only root can read. Nothing removes these files.",
    ),
    Setting(
        "prune_jobs_older_than", "str", "24h", "how long ago a job must have ended to be removed", once=True,
        wants="an age such as 90s, 30m, 24h or 7d", fits=_is_age,
    ),
    Setting("prune_jobs_keep_last", "int", 0, "how many jobs of each name are kept, even if they are old", unit="jobs", once=True),
    Setting("prune_jobs_failed", "bool", False, "whether jobs that did not complete are removed too", once=True),
    Setting(
        "prune_jobs_labels", "list", None, "the labels of the services to remove, instead of jobs and work of queues", elements="str", once=True,
        details="Each label is `KEY` or `KEY=VALUE`. Only one-shot services are removed: replicated or global jobs, and services with the restart "
        "condition `none`.",
    ),
    Setting(
        "prune_jobs_timer", "bool", None, "whether a service on the managers removes finished jobs every hour", once=True,
        details="`-e timer=true` has `gpu-swarm-manager` do that with the current settings, `-e timer=false` ends it. Only the leader does it. "
        "It removes jobs of the playbook job and work of queues, and ignores `prune_jobs_labels`. If it is not set, the service stays as it is.",
    ),
    Setting(
        "bundle_directory", "path", None, "the directory, on the machine that runs Ansible, for what a fleet without the internet needs", once=True,
        details="`-e bundle=/media/stick/gpu-swarm` is the short form. A relative path starts in your working directory. The directory is created if "
        "it does not exist, and existing files in it are kept.",
    ),
    Setting(
        "bundle_machines", "list", None, "the machines whose package managers download NVIDIA's packages", elements="str", once=True,
        details="Use hosts of the inventory that reach NVIDIA's repository, one for each distribution family and architecture of the fleet. "
        "`-e machines=debian-1,alma-1` is the short form. If it is not set, the machine that runs Ansible downloads them.",
    ),
    Setting(
        "bundle_python", "str", "", "the Python version that will run Ansible without the internet", once=True, wants="a version such as 3.12",
        fits=_is_python,
        details="`-e python=3.12` is the short form. If it is empty, it is the version of this machine.",
    ),
    Setting(
        "swarm_manager_docker_host", "str", None, "the Docker API of an external manager",
        details="For example `tcp://m1.example.org:2376`. Only this API is used, and nothing is changed on the manager's host. The README of the "
        "role `swarm_member` has an example.",
    ),
    Setting(
        "swarm_manager_docker_tls", "dict", None, "the TLS options for that API",
        details="`validate_certs`, `ca_path`, `client_cert` and `client_key`, with absolute paths on the machine that calls the API.",
    ),
)  # fmt: skip

# Limits of numbers among the roles' settings, because argument specs have no limits.
LIMITS: dict[str, tuple[int, int | None]] = {
    "swarm_member_react_limit": (1, 100),
    "gpu_stack_wait_timeout": (0, None),
    # 0 is not allowed, because nothing answers within 0 seconds.
    "gpu_node_nvml_timeout": (1, None),
    "gpu_node_timeout": (1, None),
    "swarm_member_join_timeout": (1, None),
    "swarm_member_port_timeout": (1, None),
    "verify_timeout": (1, None),
}

# Settings of roles whose text must have a certain form, each with a description of the form and a check.
FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "gpu_node_label_prefix": (labels.WANTED, labels.is_prefix),
    "gpu_node_label_cpu_prefix": (labels.WANTED, labels.is_prefix),
}

# Prefixes of all settings. Users may have variables of their own with these prefixes, unless the name is nearly a setting.
PREFIXES = (
    "provision_", "maintain_", "deprovision_", "gpu_node_", "nvidia_container_toolkit_", "swarm_member_", "swarm_manager_", "verify_",
    "gpu_stack_", "gpu_job_", "prune_jobs_", "bundle_", "preflight_",
)  # fmt: skip
# Variables with these prefixes that the playbooks register themselves.
FACTS = ("gpu_node_assessed", "gpu_node_applied", "swarm_member_state", "swarm_member_waits_for", "gpu_stack_deployed")


def default_of(name: str) -> Any:
    """Return the default of a setting of the playbooks."""
    return next(setting.default for setting in PLAYBOOKS if setting.name == name)
