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
  - Submits a command as a job that runs once, or as an array with one job for each set of parameters. Each job is a service that swarm does not
    restart. Swarm queues a job while no node has room for it.
  - Retries a job that failed or timed out, up to O(retries) times. If the guard of a node refused a job (see C(docs/operate/isolation.md)), the job
    is tried again too. Such a try does not use up O(retries).
  - Saves the output of each task on the manager before the task is removed.
  - A job is identified by its name and its content. If you run the same job again, the module submits nothing, and returns the state of the job.
notes:
  - The host of the task must be a manager of the swarm.
  - In check mode, the module returns the jobs that it would submit.
  - With O(wait=false), the module returns at once. The jobs continue, but only a run of this module retries a failed job. Run the same task again
    later, with O(wait=true).
  - If a job was removed, the module does not know it any more, and submits it again.
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
    details: The diff shows the names of environment variables, but not their values.
  idempotent:
    support: full
    details: With O(again), finished jobs run again.
options:
  name:
    description:
      - The name of the job, at most 50 letters, digits, C(_) and C(-). The name of a service consists of the name of its job and the beginning of
        the digest.
      - Required, here or in O(file).
    type: str
  file:
    description: A YAML file on the controller with the options of the job. Options of the task take precedence.
    type: path
  state:
    description:
      - With V(present), the module submits the jobs.
      - With V(absent), the module removes all jobs of that name, including running jobs. It saves their output first. With O(wait=true), it then
        waits until no GPU is allocated to tasks of these jobs.
    type: str
    choices: [present, absent]
    default: present
  image:
    description: The image. Required with O(state=present).
    type: str
  command:
    description: The arguments of the image's entrypoint. Write a list, or a text, which is split into words as a shell does.
    type: raw
  entrypoint:
    description: Replaces the image's entrypoint. It has the same form as O(command).
    type: raw
  env:
    description:
      - Environment variables. Anyone who can read the service in the swarm can read them.
      - C(GPU_SWARM_DEVICES) asks for devices by name, such as V(rdma,fuse), and adds a constraint for nodes that have them.
    type: dict
  array:
    description: A list of sets of parameters. Each set is a separate job, which gets the parameters as environment variables.
    type: list
    elements: dict
  gpus:
    description: How many GPUs each job reserves.
    type: int
    default: 1
  kind:
    description: The resource kind of the reserved GPUs.
    type: str
    default: NVIDIA-GPU
  capabilities:
    description:
      - Parts of NVIDIA's driver that the job needs besides C(compute) and C(utility), such as V(video) for an encoder. The job gets the variable
        C(NVIDIA_DRIVER_CAPABILITIES), which always includes these two. The same variable in O(env) takes precedence.
      - Possible parts are C(compute), C(utility), C(compat32), C(graphics), C(video) and C(display). C(gpu) is ignored, as in a Compose file.
    type: list
    elements: str
    version_added: 0.4.0
  constraints:
    description: Constraints on nodes, such as V(node.labels.gpu.model==Tesla-T4).
    type: list
    elements: str
  x_gpu:
    description:
      - The requirements for the job's node, with the keys C(memory_min), C(compute_capability), C(cuda), C(model) and C(cpu). See
        C(docs/run/placement.md).
      - When the job is submitted, the requirements become constraints on labels of nodes. Missing labels are added to the nodes. In O(file), the key
        is C(x-gpu).
    type: dict
  placement:
    description: The constraints and labels that O(x_gpu) requires on this swarm. The controller computes them, so do not set this option.
    type: dict
  mounts:
    description: Mounts as C(docker service create --mount) takes them, such as V(type=bind,source=/data,target=/data,readonly).
    type: list
    elements: str
  networks:
    description: The networks of the swarm that the job is attached to.
    type: list
    elements: str
  user:
    description: The user that the command runs as.
    type: str
  workdir:
    description: The directory in which the command runs.
    type: str
  owner:
    description: The owner of the job. The service gets the label C(gpu-swarm.owner) with this value. The playbook C(status) shows the label.
    type: str
  queue:
    description:
      - The name of a queue of the swarm, one of C(gpu_swarm_queues). The job waits until the managers admit it on one node. Without a queue, swarm
        starts the job wherever there is room first.
      - If you change O(queue), O(priority), O(owner) or O(start_timeout) of a waiting job, the job keeps its place by age and gets the new values.
        Running and finished jobs keep the values with which they were submitted.
    type: str
    version_added: 0.4.0
  priority:
    description: Jobs with a higher number start first, in all queues. The default is the priority of the queue. From V(-1000) to V(1000).
    type: int
    version_added: 0.4.0
  nodes:
    description:
      - On how many nodes the job runs. With more than 1, the job is a gang with one service for each node, and requires O(queue). All members start
        together. If one fails, all are stopped, and are tried again together. O(gpus) is the number for each node.
      - Each member gets C(NODE_RANK), C(NNODES), C(WORLD_SIZE), C(LOCAL_WORLD_SIZE), C(MASTER_ADDR) and C(MASTER_PORT) when it starts, as
        C(torchrun) and C(torch.distributed) expect them. See C(docs/run/several-nodes.md).
      - Without O(networks), the members use the network of their hosts.
    type: int
    default: 1
    version_added: 0.4.0
  same_model:
    description: Whether all nodes of a job with several O(nodes) must have the same model of GPU.
    type: bool
    default: true
    version_added: 0.4.0
  start_timeout:
    description: After how many seconds all members of a job with several O(nodes) must run. Otherwise all are stopped. The default is 30 minutes.
    type: int
    version_added: 0.4.0
  time_limit:
    description:
      - How many seconds each try may run. V(0) means no limit. With O(queue), V(0) means the limit of the queue.
      - After this time, the node stops the task, even if no run waits for the job.
      - The limit is a health check that replaces the health check of the image. If the process exits with code 0 after SIGTERM, the job counts as
        complete. With O(queue), the managers stop the job instead, and the health check of the image stays.
    type: int
    default: 0
  retries:
    description: How often a job is tried again after a failure or a timeout.
    type: int
    default: 0
  again:
    description: Which finished jobs run again. V(failed) means the jobs that did not complete, and V(always) means all jobs.
    type: str
    choices: [never, failed, always]
    default: never
  explain:
    description: Whether to say why jobs wait in their queue. For this, the module reads all services and tasks of the swarm.
    type: bool
    default: true
    version_added: 0.4.0
  wait:
    description: Whether to wait until all jobs are over.
    type: bool
    default: true
  wait_timeout:
    description: The maximum time to wait, in seconds. With V(0), the module looks at the jobs once.
    type: int
    default: 3600
  log_directory:
    description: The directory on the manager for logs, with one file per task. Only root can read these files.
    type: path
    default: /var/lib/gpu-swarm/jobs
  log_limit_mib:
    description:
      - The maximum size of a log, in MiB. If a log is larger, it is not saved, and its job is neither retried nor removed. V(0) means no limit.
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

- name: Train on two nodes with four GPUs each, when the queue allows it
  fleet.gpu_swarm.swarm_job:
    name: large
    image: pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime
    command: [sh, -c, 'exec torchrun --nnodes=$NNODES --node-rank=$NODE_RANK --nproc-per-node=4 ... /data/train.py']
    mounts: ["type=bind,source=/srv/data,target=/data"]
    queue: research
    owner: alice
    nodes: 2
    gpus: 4
    wait: false

- name: Check that all jobs completed
  ansible.builtin.assert:
    that: not sweep.waiting and not sweep.not_ready
"""

RETURN = r"""
jobs:
  description: The jobs of O(name).
  returned: success
  type: list
  elements: dict
  contains:
    service:
      description: The name of the job's service.
      type: str
    id:
      description: The id of the job's service. In check mode, it is empty for a job that would be submitted.
      type: str
    digest:
      description: The digest of the job's content. The name of the service contains the beginning of the digest.
      type: str
    queued:
      description: When the job was queued. Null if the job is not queued.
      type: str
    avoids:
      description: The id of the node whose guard refused the last try. The next try avoids this node for a while. Empty if there is no such node.
      type: str
    left:
      description: Whether the module still waits for the job.
      type: bool
    gang:
      description: The name of the gang, if the job runs on several nodes. Its members are in the order of their ranks.
      type: str
    parameters:
      description: The job's parameters, if the job belongs to an array.
      type: str
    state:
      description:
        - One of C(to be submitted) (in check mode), C(queued), C(waiting), C(starting), C(running), C(stopping), C(complete), C(failed),
          C(timed out), C(refused), C(held), C(cancelled).
        - A C(waiting) job waits in its queue, and a C(queued) job waits for swarm.
        - A C(held) job was in a queue. Someone scaled it to 0, or nobody knows whether it ran. It runs only with O(again), or after
          C(gpu-swarm release).
      type: str
    exit_code:
      description: The exit code of the last try. Null if there is none yet.
      type: int
    tries:
      description: How many tries were started.
      type: int
    retried:
      description: How many of the tries used up O(retries).
      type: int
    refused:
      description: How many of the tries followed a refusal by a guard.
      type: int
    error:
      description: Why the job failed, or why it is queued.
      type: str
    ended:
      description: When the job ended. Null if the job is not over.
      type: str
    node:
      description: The id of the node of the job's last task.
      type: str
waiting:
  description: The services of jobs that are not over.
  returned: success
  type: list
  elements: str
not_ready:
  description: The services of jobs that are over but did not complete.
  returned: success
  type: list
  elements: str
unplaced:
  description: Whether the module did nothing, because it needs O(placement) first.
  returned: success
  type: bool
ending:
  description:
    - With O(state=absent), the resources that are still allocated to tasks of removed jobs. With O(wait=true), the module waits until they are free.
    - Each entry has C(hostname), C(kind), C(amount), and C(state), the state of the node.
  returned: success
  type: list
  elements: dict
summary:
  description: The state of the jobs, in one or two sentences.
  returned: success
  type: str
  sample: "Job sweep: All are complete: 3."
problems:
  description: The errors of this run, for example a log that could not be saved.
  returned: success
  type: list
  elements: str
"""

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._jobs import definition, queue_options
from ..module_utils._jobs.job_options import JOB_OPTIONS, RUN_OPTIONS
from ..module_utils._jobs.logs import LogFiles
from ..module_utils._jobs.reconcile import Jobs
from ..module_utils._swarm import manager_module
from ..module_utils._swarm.manager import Refused, SwarmError, connect
from ..module_utils._swarm.owned_labels import PREFIX
from ..module_utils._tasks import one_shot

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
    """Run one pass over the jobs. The controller repeats the pass. If this manager does not answer, the controller may call another manager."""
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
    records = all_jobs.explained(records) if params["explain"] else records
    over = [job for job in records if not job["left"]]
    before, after = queue_options.describe_changes(all_jobs.relabelled)
    return {
        **NOTHING,
        "changed": all_jobs.changed,
        "jobs": records,
        "waiting": [job["service"] for job in records if job["left"]],
        "not_ready": [job["service"] for job in over if job["state"] != one_shot.COMPLETE],
        "problems": all_jobs.problems,
        "diff": {"before": before, "after": after + definition.describe_jobs(all_jobs.submitted)},
    }


def failure_fields(problem):
    """Return ``wrong``: whether any other manager would fail in the same way, because the job is wrong."""
    return {"wrong": not isinstance(problem, SwarmError) or isinstance(problem, Refused)}


def main():
    manager_module.main(run, dict(JOB_OPTIONS, **RUN_OPTIONS), on_failure=failure_fields)


if __name__ == "__main__":
    main()
