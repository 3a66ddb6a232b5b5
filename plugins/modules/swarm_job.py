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
  - Submits a command that runs once, or one for each set of parameters, as services of the swarm that are not started again. Those for which
    there is no room now are queued by swarm.
  - Tries again what fails, as often as you allow, and what the guard of a node refused (see C(docs/operate/isolation.md)), which costs none of
    these tries.
  - Saves what a task has printed on the manager, before anything of it is removed.
  - A job is known by its name and its content. Running the same again submits nothing, and returns what became of it.
notes:
  - The host of the task is a manager of the swarm. In check mode it returns what it would submit.
  - With O(wait=false) it returns at once. Run the same with O(wait=true) later; jobs go on meanwhile, and only other tries wait for that.
  - A job that was removed is known no more, and is submitted again.
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
    details: Of variables only their names are shown.
  idempotent:
    support: full
    details: With O(again) jobs run once more.
options:
  name:
    description:
      - The name of the job, at most 50 letters, digits, C(_) and C(-). The names of its services are made of it and of a part of the digest.
      - Required, here or in O(file).
    type: str
  file:
    description: A YAML file on the controller with the options of the job. What is given beside it counts more.
    type: path
  state:
    description:
      - Whether the jobs of that name are there. With V(absent) all of them are removed, also those that run; what they have printed is saved.
      - Then O(wait) is until none of their tasks has a GPU any more.
    type: str
    choices: [present, absent]
    default: present
  image:
    description: What it runs in. Required with O(state=present).
    type: str
  command:
    description: The arguments of the image's entrypoint, as a list, or as a text that is cut into words as by a shell.
    type: raw
  entrypoint:
    description: What takes the place of the image's entrypoint, likewise.
    type: raw
  env:
    description: Environment variables. Whoever can read the service in the swarm can read them.
    type: dict
  array:
    description: A list of sets of parameters. Each is a job of its own that finds its parameters in its environment.
    type: list
    elements: dict
  gpus:
    description: How many GPUs each job reserves.
    type: int
    default: 1
  kind:
    description: The kind of generic resources that these are.
    type: str
    default: NVIDIA-GPU
  constraints:
    description: Constraints on nodes, such as V(node.labels.gpu.model==Tesla-T4).
    type: list
    elements: str
  x_gpu:
    description:
      - Which nodes it is for, with the keys C(memory_min), C(compute_capability), C(cuda), C(model) and C(cpu) of C(docs/run/placement.md).
      - It becomes constraints when the job is submitted, on labels of nodes, of which some may be added for it. In O(file) it is C(x-gpu).
    type: dict
  placement:
    description: What O(x_gpu) means on this swarm. It is worked out on the controller, so leave it out.
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
    description: The user as whom it runs.
    type: str
  workdir:
    description: The directory in which it runs.
    type: str
  owner:
    description: Whose it is. It stands in the label C(gpu-swarm.owner), which the playbook C(status) shows.
    type: str
  time_limit:
    description:
      - For how many seconds each try may run; V(0) for as long as it likes. Its node ends it then, whether anybody waits or not.
      - That is done by a health check, in place of the image's own. A process that answers SIGTERM with exit code 0 counts as complete.
    type: int
    default: 0
  retries:
    description: How often a job that fails, or that its time limit ends, is tried again.
    type: int
    default: 0
  again:
    description: Whether jobs that are over are run once more, V(failed) those that did not complete, V(always) all of them.
    type: str
    choices: [never, failed, always]
    default: never
  wait:
    description: Whether to wait until all are over.
    type: bool
    default: true
  wait_timeout:
    description: For how many seconds.
    type: int
    default: 3600
  log_directory:
    description: Where on the manager the logs are saved, one file for each task, for root to read.
    type: path
    default: /var/lib/gpu-swarm/jobs
  log_limit_mib:
    description: A log that has more is not saved, and its job is neither tried again nor removed. V(0) for no limit.
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

- name: All of them completed
  ansible.builtin.assert:
    that: not sweep.waiting and not sweep.not_ready
"""

RETURN = r"""
jobs:
  description: Each job of the name.
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
      description: That of its content. The name of the service has the beginning of it.
      type: str
    queued:
      description: Since when it is queued.
      type: str
    avoids:
      description: The id of the node whose guard refused it last, off which it is kept while it starts.
      type: str
    left:
      description: Whether it is still waited for.
      type: bool
    parameters:
      description: Its parameters, if it is of an array.
      type: str
    state:
      description:
        - One of C(to be submitted) (in check mode), C(queued), C(starting), C(running), C(stopping), C(complete), C(failed), C(timed out),
          C(refused).
      type: str
    exit_code:
      description: The exit code of the last try, null where it has none (yet).
      type: int
    tries:
      description: How often it was submitted.
      type: int
    retried:
      description: How many of these were at the cost of O(retries).
      type: int
    refused:
      description: How many were because a guard had refused it.
      type: int
    error:
      description: Why it failed, or is queued.
      type: str
    ended:
      description: When it ended.
      type: str
    node:
      description: The id of its node.
      type: str
waiting:
  description: The services of those that are not over.
  returned: success
  type: list
  elements: str
not_ready:
  description: The services of those that did not complete.
  returned: success
  type: list
  elements: str
unplaced:
  description: Whether nothing was done, since O(x_gpu) is yet to be worked out.
  returned: success
  type: bool
ending:
  description:
    - With O(state=absent), what tasks of removed jobs of the name still have allocated. It is waited for as well. Each has C(hostname), C(kind),
      C(amount), and under C(state) the state of the node.
  returned: success
  type: list
  elements: dict
summary:
  description: What became of the jobs, in a sentence or two.
  returned: success
  type: str
  sample: "Job sweep: All are complete: 3."
problems:
  description: What could not be done, such as a log that could not be saved.
  returned: success
  type: list
  elements: str
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for what it does
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
    """One pass. That is repeated on the controller, where another manager can be called."""
    definition.refuse_name(params["name"] or "")
    wanted = definition.jobs(params, PREFIX) if params["state"] == "present" else []
    placement = params.get("placement")
    files = LogFiles(params["log_directory"], params["log_limit_mib"])
    all_of_it = Jobs(connect(params), params["name"], PREFIX, files, check_mode)
    if params["state"] == "absent":
        found = all_of_it.absent()
        diff = {"before": "".join("%s: %s\n" % (one["service"], one["state"]) for one in found), "after": ""}
        left = {"problems": all_of_it.problems, "ending": all_of_it.ending()}
        return {**NOTHING, **left, "changed": all_of_it.changed, "jobs": found, "diff": diff}
    if params.get("x_gpu") and placement is None and all_of_it.missing(wanted):
        return {**NOTHING, "unplaced": True}
    found = all_of_it.present(wanted, params["retries"], params["again"], (placement or {}).get("nodes"))
    over = [one for one in found if not one["left"]]
    return {
        **NOTHING,
        "changed": all_of_it.changed,
        "jobs": found,
        "waiting": [one["service"] for one in found if one["left"]],
        "not_ready": [one["service"] for one in over if one["state"] != job_progress.COMPLETE],
        "problems": all_of_it.problems,
        "diff": {"before": "", "after": definition.describe_jobs(all_of_it.submitted)},
    }


def everywhere(problem):
    """Return whether each manager would fail like this: it is the job that is wrong."""
    return {"wrong": not isinstance(problem, SwarmError) or isinstance(problem, Refused)}


def main():
    manager_module.main(run, dict(JOB_OPTIONS, **RUN_OPTIONS), on_failure=everywhere)


if __name__ == "__main__":
    main()
