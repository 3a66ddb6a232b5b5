# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the playbooks, each declared once.

Ansible takes any variable for any value: a misspelt name is ignored, and ``'soon' | int`` is 0. So they are declared here, and
checked before a run touches anything.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...module_utils._policy import labels
from ...module_utils._policy.quantity import count_of
from ...module_utils._swarm import owned_labels


@dataclass(frozen=True)
class Setting:
    """One variable that a user may set. ``type``, ``choices`` and ``elements`` are those of Ansible's argument specs.

    ``low`` is the least number that makes sense, ``high`` the greatest, ``unit`` what is counted. ``default`` is None where nothing is set by
    default, and ``empty``: an empty value means the same. ``once``: it counts for the whole run, not for a host; ``swarm``: and for hosts that
    a run with ``--limit`` leaves out. ``wants`` is what its value has to be, where the type does not say it all, and ``fits`` says whether it is.
    ``meaning`` is a line, what else a user has to know stands in ``details``.
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
    return all(count_of(one, 100) for one in (value if isinstance(value, (list, tuple)) else [value]))


def _are_names_or_all(value: Any) -> bool:
    return isinstance(value, (bool, str)) or (isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value))


def _is_full_path(value: Any) -> bool:
    return str(value).startswith("/") or not value


def _is_age(value: Any) -> bool:
    from ...module_utils._jobs.finished import AGE  # which takes longer to load than all settings, and only prune_jobs has one

    return bool(AGE.fullmatch(str(value).strip().lower()))


def _is_python(value: Any) -> bool:
    return bool(re.fullmatch(r"([0-9]+\.[0-9]+)?", str(value)))


def _is_key(value: Any) -> bool:
    return bool(owned_labels.KEY.match(str(value)))


NEVER, SERVICES, ALL = "never", "services", "all"
DISRUPTIONS = (NEVER, SERVICES, ALL)
SECONDS = "seconds"
ISOLATION = ("off", "audit", "reserved", "exclusive")
PLAYBOOKS = (
    Setting(
        "gpu_swarm_isolation", "str", None, "what a task sees of its node's GPUs, one level for the whole swarm", choices=ISOLATION, empty=True,
        once=True, swarm=True,
        details="It is kept in a label of the swarm, by which a run goes that has no such setting. Where there is none either, it is `reserved` in "
        "a swarm that the run makes, `audit` in one that others made, and `off` where nodes are provisioned without a level. See ISOLATION.md.",
    ),
    Setting(
        "gpu_swarm_dedicated", "bool", False, "whether services without a reservation are to keep off nodes with GPUs", once=True, swarm=True,
        details="These nodes get the label `gpu.dedicated=true`, which by itself keeps nobody off; a run and `status` name the services that are "
        "there without a reservation, each with the command that gives it the constraint. What would be evicted by the label follows "
        "`provision_disrupt`. See ISOLATION.md.",
    ),
    Setting(
        "provision_disrupt", "str", SERVICES, "what a change may do to what runs on a host", choices=DISRUPTIONS,
        details="`services` moves what swarm starts again elsewhere, and waits for one-shot tasks, jobs, plain containers and tasks that have "
        "used up their restart attempts (`--restart-max-attempts`). `never` leaves a host alone while anything runs there that the change would "
        "stop, and lists it as waiting. `all` is your consent to stop what runs; with deprovision also to lose what is in the swarm when its last "
        "manager leaves.",
    ),
    Setting(
        "provision_wait", "int", 300, "how long a batch waits for work that must not be stopped", unit=SECONDS,
        details="A node that must wait longer stays paused and is listed with its blockers; the next run goes on with it. Of the hosts of a "
        "batch the longest time counts.",
    ),
    Setting(
        "provision_keep_label", "str", "gpu-swarm.keep", "the label of services whose tasks are not to be moved", once=True,
        details="With `docker service update --label-add gpu-swarm.keep=true NAME`, or under `deploy: labels:` of a stack, the tasks of a service "
        "are waited for under `provision_disrupt: services`; `all` still moves them. With an age, such as `12h` (or `s`, `m`, `d`), only until a "
        "task is that old. Any other value but `false` counts as `true` and is warned of.",
    ),
    Setting(
        "provision_batch", "raw", None, "how many nodes that carry work are changed at a time", once=True, empty=True,
        wants="a number, a share such as 25%, or a list of these", fits=_are_sizes,
        details="By default a canary of each model, a tenth of the nodes and at most three at a time, then a tenth of them at a time. Idle members "
        "go first: their canaries (by the first number, where one is given), then the others at once. Hosts in no swarm yet are changed all at "
        "once.",
    ),
    Setting("provision_max_failed", "int", 1, "after so many failed hosts no further batch begins", low=1, unit="hosts", once=True),
    Setting(
        "provision_lease", "int", None, "how long the lease of a run lasts", low=1, unit=SECONDS, once=True,
        details="Until it ends no other run changes the swarm, even if this run was killed on another machine. It is renewed before each batch, and "
        "within one after a long wait. By default "
        "as long as a batch may take: by its hosts, Ansible's forks, `provision_wait`, `provision_drain_timeout`, and with maintain three times "
        "`maintain_timeout`, of which one is for your tasks.",
    ),
    Setting(
        "provision_take_lease", "bool", False, "whether to take over the lease of another run, which declares that run dead",
        once=True,
    ),
    Setting("provision_drain_timeout", "int", 120, "how long a drained task may take to end", unit=SECONDS),
    Setting(
        "provision_allow_pending", "raw", None, "the services that may have no place under a new policy", once=True,
        empty=True, wants="a list of names, or true for all", fits=_are_names_or_all,
        details="A node that would take away what any other service reserves, and finds nowhere else, is an error that names the service.",
    ),
    Setting(
        "provision_ignore_pending", "list", None, "the services whose waiting tasks do not stop a roll", elements="str", once=True,
        details="A roll changes no further node while tasks find no room that had some when the run began, unless they are of one of these. For "
        "work that can wait, such as batch training that fills the fleet.",
    ),
    Setting(
        "provision_remove_finished_jobs", "bool", False, "whether finished jobs are removed that would run again at the update of their node",
        once=True,
        details="They would where Docker Engine of the swarm's leader is before 29.6.0. Otherwise the node waits, and is listed with the job. With "
        "deprovision, of nodes that stay members: one that leaves is not updated.",
    ),
    Setting(
        "provision_note_run", "bool", False, "whether a run that finds nothing to change notes on the swarm that it was there", once=True,
        details="A run that changes something does so as it releases its lease: the label `gpu-swarm.last-run` of the swarm has when it ended and "
        "what became of the hosts. With `true`, one that changes nothing makes one call to a manager more for that, and the alert for a swarm "
        "that no run has been to for a week can be raised (docs/ALERTS.md).",
    ),
    Setting(
        "maintain_tasks", "path", None, "the file with the tasks of a maintenance", once=True,
        details="A relative path begins where you are. A task in it may take as long as it likes, unless you give it a `timeout` in seconds: give "
        "one to each that could hang, since the others of the batch wait for it.",
    ),
    Setting(
        "maintain_id", "str", "", "the name of a maintenance, which is noted on each node that has had it", empty=True,
        wants="text of letters, digits, '.', '_', '/' and '-'", fits=_is_key,
        details="Such as `-e maintain_id=driver-570`: run again with the same name after a kill, or the next day for the nodes that waited, nodes on "
        "which it was finished are left alone, and not emptied a second time. Empty: every node gets its window at each run.",
    ),
    Setting("maintain_reboot", "bool", False, "whether each node is rebooted after those tasks"),
    Setting("maintain_timeout", "int", 900, "how long a node may take to come back", low=1, unit=SECONDS),
    Setting(
        "deprovision_leave", "bool", True, "whether a host leaves the swarm",
        details="It does so whoever made it a member. With `false` it stays one, in its former availability: for those who had the swarm before.",
    ),
    Setting(
        "deprovision_packages", "bool", False, "whether the NVIDIA Container Toolkit and its repository are removed",
        details="What was there before the first run comes back, also files that the run has replaced. If it is `false`, the run lists the files "
        "that stay. The repository that a failed run left goes in any case, if no toolkit is installed.",
    ),
    Setting(
        "status_service", "str", "", "the service that is explained, by name or id", once=True,
        details="Why it is pending, where it would fit, and what would make room for it. `-e service=train` is short for it; empty for the whole "
        "fleet.",
    ),
    Setting(
        "status_plan", "path", None, "the file with a policy, of which is shown what it would do", once=True,
        details="Given with `-e` only, for which `-e plan=policy.yml` is short: a file of variables, of which `gpu_node_advertise` is the policy. "
        "Every node is read, as in a check run of `provision`. A relative path begins where you are.",
    ),
    Setting(
        "status_owner_label", "str", "gpu-swarm.owner", "the label of services that names their owner", once=True,
        details="`docker service update --label-add gpu-swarm.owner=alice NAME`, or under `deploy: labels:` of a stack: the tables then say whose a "
        "task is.",
    ),
    Setting(
        "status_what", "str", "all", "the part that is shown", choices=("all", "free", "holders", "pending", "faulty"), once=True,
        details="`-e what=free` is short for it. The exit status is that of the whole fleet.",
    ),
    Setting(
        "status_output", "str", "table", "how it is shown", choices=("table", "json"), once=True,
        details="`json` is one line that begins with `{`. `-e output=json` is short for it.",
    ),
    Setting(
        "status_textfile", "str", "", "the directory on the manager to which metrics for Prometheus are written", once=True,
        wants="a full path", fits=_is_full_path,
        details="The one that node_exporter's textfile collector reads, such as `/var/lib/prometheus/node-exporter`, which Debian's has. It has "
        "to exist. `-e textfile=/var/lib/prometheus/node-exporter` is short for it; empty: nothing is written.",
    ),
    Setting(
        "gpu_job_file", "path", None, "the file with the job, on the machine that runs Ansible", once=True,
        details="`-e job=job.yml` is short for it. A relative path begins where you are. docs/JOBS.md says what is in it.",
    ),
    Setting(
        "gpu_job_name", "str", "", "the name of the job, in place of the one in its file", once=True,
        details="With `-e state=absent` it does without the file.",
    ),
    Setting(
        "gpu_job_state", "str", "present", "whether the jobs of that name are there", choices=("present", "absent"), once=True,
        details="`-e state=absent` removes all of them, also those that run. What they have printed is saved before.",
    ),
    Setting(
        "gpu_job_again", "str", NEVER, "which jobs that are over are run once more", choices=(NEVER, "failed", "always"), once=True,
        details="`-e again=failed` is short for it: those that did not complete.",
    ),
    Setting("gpu_job_wait", "bool", True, "whether to wait until all are over", once=True, details="`-e wait=false` is short for it."),
    Setting("gpu_job_wait_timeout", "int", 3600, "how long", unit=SECONDS, once=True),
    Setting(
        "gpu_job_log_directory", "str", "/var/lib/gpu-swarm/jobs", "the directory on the manager where logs are saved", once=True,
        wants="a full path", fits=_is_full_path, details="One file for each task, for root to read. Nothing removes them.",
    ),
    Setting(
        "prune_jobs_older_than", "str", "24h", "how long ago a job has ended that is removed", once=True, wants="an age such as 90s, 30m, 24h or 7d",
        fits=_is_age,
    ),
    Setting("prune_jobs_keep_last", "int", 0, "how many of each name stay whatever their age", unit="jobs", once=True),
    Setting("prune_jobs_failed", "bool", False, "whether jobs that did not complete are removed too", once=True),
    Setting(
        "prune_jobs_labels", "list", None, "the services that are removed in place of those that job has submitted", elements="str", once=True,
        details="By a label, `KEY` or `KEY=VALUE`: one-shot services of others, which are replicated or global jobs, or have the restart condition "
        "`none`.",
    ),
    Setting(
        "prune_jobs_timer", "bool", None, "whether a timer on the managers does the same hourly", once=True,
        details="`-e timer=true` sets it, with the other settings as they are then, `-e timer=false` removes it. On the manager that leads it "
        "removes jobs of `job`, not what `prune_jobs_labels` chooses. Not set: a timer that is there stays as it is.",
    ),
    Setting(
        "bundle_directory", "path", None, "the directory, on the machine that runs Ansible, for what a fleet without the internet needs", once=True,
        details="`-e bundle=/media/stick/gpu-swarm` is short for it. A relative path begins where you are. It is made where it is missing; what is "
        "in it stays.",
    ),
    Setting(
        "bundle_machines", "list", None, "the machines whose package managers download NVIDIA's packages", elements="str", once=True,
        details="Hosts of the inventory that reach NVIDIA's repository, one of each family of distributions and architecture that the fleet has. "
        "`-e machines=debian-1,alma-1` is short for it. Not set: the machine that runs Ansible.",
    ),
    Setting(
        "bundle_python", "str", "", "the Python that will run Ansible where there is no internet", once=True, wants="a version such as 3.12",
        fits=_is_python,
        details="`-e python=3.12` is short for it. Empty: the same as here.",
    ),
    Setting(
        "swarm_manager_docker_host", "str", None, "the Docker API of a manager that is run by others",
        details="Such as `tcp://m1.example.org:2376`. Only this API is used; nothing is changed on its machine. The README of the role "
        "`swarm_member` has an example.",
    ),
    Setting(
        "swarm_manager_docker_tls", "dict", None, "how that API is reached",
        details="`validate_certs`, `ca_path`, `client_cert` and `client_key`, with full paths on the machine from which it is called.",
    ),
)  # fmt: skip

# Of the roles' settings, those of which not every number makes sense: argument specs know no limits.
LIMITS: dict[str, tuple[int, int | None]] = {"swarm_member_react_limit": (1, 100), "gpu_stack_wait_timeout": (0, None)}

# And those whose text has a form: what it has to be, and whether it is.
FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "gpu_node_label_prefix": (labels.WANTED, labels.is_prefix),
    "gpu_node_label_cpu_prefix": (labels.WANTED, labels.is_prefix),
}

# The names of settings begin with these. Users may have variables of their own with them, unless one is nearly a setting.
PREFIXES = (
    "provision_", "maintain_", "deprovision_", "gpu_node_", "nvidia_container_toolkit_", "swarm_member_", "swarm_manager_", "verify_",
    "gpu_stack_", "gpu_job_", "prune_jobs_", "bundle_",
)  # fmt: skip
# What the playbooks register under such a name themselves.
FACTS = ("gpu_node_assessed", "gpu_node_applied", "swarm_member_state", "swarm_member_waits_for", "gpu_stack_deployed")


def default_of(name: str) -> Any:
    """The default of a setting of the playbooks."""
    return next(setting.default for setting in PLAYBOOKS if setting.name == name)
