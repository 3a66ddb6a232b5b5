# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a manager: removes finished jobs while another client runs them again, and prints the results as JSON.

Two other clients take turns: a writer who read the service earlier, like a person at a terminal, and the module swarm_job. Each of them writes at any
moment of the removal.
"""

import contextlib
import json
import random
import sys
import tempfile
import threading
import time

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import definition, job_progress, removal
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.finished import Candidate, Verdict
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.logs import LogFiles
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.reconcile import Jobs
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import NotFound, OutOfSequence, connect
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks import one_shot

PARAMS = {
    "docker_host": "unix:///var/run/docker.sock", "tls": False, "validate_certs": False, "ca_path": None, "client_cert": None, "client_key": None,
    "api_version": "auto", "timeout": 60,
}  # fmt: skip
PREFIX = "gpu-swarm."
AT_ONCE = 20
NAME = "race"
LOGS = tempfile.mkdtemp()


def job(number):
    params = {"name": f"{NAME}{number}", "image": "lab/task", "command": ["true"], "gpus": 0, "kind": "", "time_limit": 0}
    return definition.jobs(params, PREFIX)[0]


def submitted(manager, number):
    return manager.create_service(job(number).spec)


def await_finished(manager, wanted):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        done = {task["ServiceID"] for task in manager.tasks() if task["Status"]["State"] == "complete"}
        if wanted <= done:
            return
        time.sleep(0.2)
    raise SystemExit("the tasks did not end")


def writes_what_it_read(manager, service_id, before, delay):
    time.sleep(delay)
    manager.update_service(service_id, before["Version"]["Index"], job_progress.next_try(before["Spec"], None, PREFIX))
    return True


def runs_it_again(manager, number, delay):
    time.sleep(delay)
    return Jobs(manager, f"{NAME}{number}", PREFIX, LogFiles(LOGS, 1), False).present([job(number)], 0, "always")[0]["state"] == one_shot.QUEUED


def one_try(number, service_id, managers):
    """Return whether swarm accepted the write, and whether the service was removed."""
    mine, theirs = managers
    before, delay = theirs.service(service_id), random.uniform(0, 0.06)
    accepted = []

    def run_other_client():
        with contextlib.suppress(NotFound, OutOfSequence):
            accepted.append(writes_what_it_read(theirs, service_id, before, delay) if number % 2 else runs_it_again(theirs, number, delay))

    thread = threading.Thread(target=run_other_client)
    thread.start()
    reason = removal.remove(mine, Candidate(service_id, "", "", Verdict("complete")), False, PREFIX, LogFiles(LOGS, 1))
    thread.join()
    return bool(accepted and accepted[0]), reason is None


def is_there(manager, number):
    """Return whether the accepted job is queued, runs or has run, in the same service or in one that was created after the removal."""
    found = [one for one in manager.services() if one["Spec"]["Name"] == job(number).service]
    return bool(found)


def main():
    tries, first = int(sys.argv[1]), 0
    managers = connect(PARAMS), connect(PARAMS)
    counts = {"tries": 0, "accepted": 0, "removed": 0, "lost": 0}
    while first < tries:
        numbers = range(first, min(first + AT_ONCE, tries))
        ids = {number: submitted(managers[0], number) for number in numbers}
        await_finished(managers[0], set(ids.values()))
        for number, service_id in ids.items():
            accepted, removed = one_try(number, service_id, managers)
            counts["tries"] += 1
            counts["accepted"] += accepted
            counts["removed"] += removed
            counts["lost"] += accepted and not is_there(managers[0], number)
        for one in managers[0].services():
            if one["Spec"]["Name"].startswith(NAME):
                managers[0].remove_service(one["ID"])
        first += AT_ONCE
    print(json.dumps(counts))


main()
