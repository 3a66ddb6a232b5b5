#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: swarm_job
short_description: Runs a job with GPUs on a swarm, or an array of jobs
version_added: 0.3.0
description:
  - Submits a command that runs once, or one for each set of parameters, as services that swarm does not restart. Swarm queues
    jobs without room.
  - Tries again what fails, as often as you allow, and what the guard of a node refused (see C(docs/operate/isolation.md)), which costs none of
    these tries.
  - Saves the output of each task on the manager before the task is removed.
  - A job is identified by its name and its content. Running the same job again submits nothing, and returns its state.
notes:
  - The host of the task is a manager of the swarm. In check mode it returns the jobs that it would submit.
  - With O(wait=false) it returns at once. Run the same with O(wait=true) later; running jobs continue meanwhile, but retries wait for that.
  - A removed job is unknown, and is submitted again.
author:
  - The fleet.gpu_swarm authors (@fleet)
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.docker_client
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Only the names of variables are shown.
  idempotent:
    support: full
    details: With O(again), jobs run again.
options:
  name:
    description:
      - The name of the job, at most 50 letters, digits, C(_) and C(-). The names of its services consist of it and a part of the digest.
      - Required, here or in O(file).
    type: str
  file:
    description: A YAML file on the controller with the options of the job. Options of the task take precedence.
    type: path
  state:
    description:
      - With V(present), jobs are submitted. With V(absent), all jobs of that name are removed, also running ones. Their output is saved.
      - With V(absent), O(wait) lasts until no GPU is allocated to their tasks.
    type: str
    choices: [present, absent]
    default: present
  image:
    description: The image. Required with O(state=present).
    type: str
  command:
    description: The arguments of the image's entrypoint, as a list, or as a text that is split into words as in a shell.
    type: raw
  entrypoint:
    description: The replacement for the image's entrypoint, in the same form.
    type: raw
  env:
    description: Environment variables. Anyone who can read the service in the swarm can read them.
    type: dict
  array:
    description: A list of sets of parameters. Each is a separate job with its parameters in its environment.
    type: list
    elements: dict
  gpus:
    description: How many GPUs each job reserves.
    type: int
    default: 1
  kind:
    description: The resource kind of these GPUs.
    type: str
    default: NVIDIA-GPU
  constraints:
    description: Constraints on nodes, such as V(node.labels.gpu.model==Tesla-T4).
    type: list
    elements: str
  x_gpu:
    description:
      - The nodes that it may run on, with the keys C(memory_min), C(compute_capability), C(cuda), C(model) and C(cpu) of C(docs/run/placement.md).
      - It becomes constraints when the job is submitted, on labels of nodes. Missing labels are added to the nodes. In O(file) it is C(x-gpu).
    type: dict
  placement:
    description: The meaning of O(x_gpu) on this swarm. The controller computes it, so do not set it.
    type: dict
  mounts:
    description: Mounts as C(docker service create --mount) takes them, such as V(type=bind,source=/data,target=/data,readonly).
    type: list
    elements: str
  networks:
    description: Networks of the swarm to attach to.
    type: list
    elements: str
  user:
    description: The user that it runs as.
    type: str
  workdir:
    description: The directory in which it runs.
    type: str
  owner:
    description: Its owner. It is stored in the label C(gpu-swarm.owner), which the playbook C(status) shows.
    type: str
  time_limit:
    description:
      - How many seconds each try may run. V(0) means no limit. Its node ends it after that time, even if nobody waits.
      - This uses a health check, which replaces the image's own. A process that answers SIGTERM with exit code 0 counts as complete.
    type: int
    default: 0
  retries:
    description: How often a job is tried again after a failure or a timeout.
    type: int
    default: 0
  again:
    description: Which finished jobs run again. V(failed) means those that did not complete, V(always) means all of them.
    type: str
    choices: [never, failed, always]
    default: never
  wait:
    description: Whether to wait until all jobs are over.
    type: bool
    default: true
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 3600
  log_directory:
    description: The directory on the manager for logs, with one file per task. Only root can read them.
    type: path
    default: /var/lib/gpu-swarm/jobs
  log_limit_mib:
    description: The largest log in MiB. A larger one is not saved, and its job is neither tried again nor removed. V(0) means no limit.
    type: int
    default: 1024
seealso:
  - module: fleet.gpu_swarm.swarm_job_prune
  - module: fleet.gpu_swarm.swarm_explain
"""

EXAMPLES = r"""
- name: Train with three learning rates
  fleet.gpu_swarm.swarm_job:
    name: sweep
    image: pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime
    command: [sh, -c, 'exec python /data/train.py --lr "$LR"']
    mounts: ["type=bind,source=/srv/data,target=/data"]
    array: [{LR: 0.1}, {LR: 0.01}, {LR: 0.001}]
    time_limit: 7200
    retries: 1
  register: sweep

- name: Check that all jobs completed
  ansible.builtin.assert:
    that: not sweep.waiting and not sweep.not_ready
"""

RETURN = r"""
jobs:
  description: The jobs of the name.
  returned: success
  type: list
  elements: dict
  contains:
    service:
      description: The name of its service.
      type: str
    id:
      description: The id of its service, empty in check mode for one that would be submitted.
      type: str
    digest:
      description: The digest of its content. The name of the service contains the beginning of it.
      type: str
    queued:
      description: When it was queued.
      type: str
    avoids:
      description: The id of the node whose guard refused it last, which it avoids while it starts.
      type: str
    left:
      description: Whether the module still waits for it.
      type: bool
    parameters:
      description: Its parameters, if it belongs to an array.
      type: str
    state:
      description:
        - One of C(to be submitted) (in check mode), C(queued), C(starting), C(running), C(stopping), C(complete), C(failed), C(timed out),
          C(refused).
      type: str
    exit_code:
      description: The exit code of the last try, null if it has none yet.
      type: int
    tries:
      description: How often it was submitted.
      type: int
    retried:
      description: How many of these used up O(retries).
      type: int
    refused:
      description: How many followed a refusal by a guard.
      type: int
    error:
      description: Why it failed or is queued.
      type: str
    ended:
      description: When it ended.
      type: str
    node:
      description: The id of its node.
      type: str
waiting:
  description: The services of jobs that are not over.
  returned: success
  type: list
  elements: str
not_ready:
  description: The services of jobs that did not complete.
  returned: success
  type: list
  elements: str
unplaced:
  description: Whether nothing was done, because O(placement) is required first.
  returned: success
  type: bool
ending:
  description:
    - With O(state=absent), what is still allocated to tasks of removed jobs of the name. The module also waits for that. Each has C(hostname),
      C(kind),
      C(amount), and under C(state) the state of the node.
  returned: success
  type: list
  elements: dict
summary:
  description: The state of the jobs, in one or two sentences.
  returned: success
  type: str
  sample: "Job sweep: All are complete: 3."
problems:
  description: Failures, such as a log that could not be saved.
  returned: success
  type: list
  elements: str
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._jobs import definition, job_progress
from ..module_utils._jobs.job_options import JOB_OPTIONS, RUN_OPTIONS
from ..module_utils._jobs.logs import LogFiles
from ..module_utils._jobs.reconcile import Jobs
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import Refused, SwarmError, connect
from ..module_utils._swarm.owned_labels import PREFIX

NOTHING = {
    "changed": False,
    "unplaced": False,
    "jobs": [],
    "waiting": [],
    "not_ready": [],
    "problems": [],
    "ending": [],
    "diff": {"before": "", "after": ""},
}


def run(params, check_mode):
    """Run one pass. The controller repeats it, and may then call another manager."""
    definition.refuse_name(params["name"] or "")
    wanted = definition.jobs(params, PREFIX) if params["state"] == "present" else []
    placement = params.get("placement")
    files = LogFiles(params["log_directory"], params["log_limit_mib"])
    all_jobs = Jobs(connect(params), params["name"], PREFIX, files, check_mode)
    if params["state"] == "absent":
        records = all_jobs.absent()
        diff = {"before": "".join("%s: %s\n" % (job["service"], job["state"]) for job in records), "after": ""}
        failures = {"problems": all_jobs.problems, "ending": all_jobs.ending()}
        return {**NOTHING, **failures, "changed": all_jobs.changed, "jobs": records, "diff": diff}
    if params.get("x_gpu") and placement is None and all_jobs.missing(wanted):
        return {**NOTHING, "unplaced": True}
    records = all_jobs.present(wanted, params["retries"], params["again"], (placement or {}).get("nodes"))
    over = [job for job in records if not job["left"]]
    return {
        **NOTHING,
        "changed": all_jobs.changed,
        "jobs": records,
        "waiting": [job["service"] for job in records if job["left"]],
        "not_ready": [job["service"] for job in over if job["state"] != job_progress.COMPLETE],
        "problems": all_jobs.problems,
        "diff": {"before": "", "after": definition.describe_jobs(all_jobs.submitted)},
    }


def failure_fields(problem):
    """Return ``wrong``: whether any other manager would fail in the same way, because the job is wrong."""
    return {"wrong": not isinstance(problem, SwarmError) or isinstance(problem, Refused)}


def main():
    manager_module.main(run, dict(JOB_OPTIONS, **RUN_OPTIONS), on_failure=failure_fields)


if __name__ == "__main__":
    main()
