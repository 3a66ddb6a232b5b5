# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Submits work to a queue with the options of ``gpu-swarm run``, after the checks of a job.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import Any, Mapping, Sequence

from .._errors import GpuSwarmError
from .._jobs.definition import NOTHING, Job, jobs, refuse_name
from .._jobs.logs import DIRECTORY, LogFiles
from .._jobs.reconcile import NEVER, Jobs
from .._policy import offered_devices
from .._printable import printable
from .._queue.queues import NO_LIMIT, duration_s
from .._queue.waiting import TIME_LIMIT
from .._swarm.manager import Manager
from .._swarm.owned_labels import PREFIX
from .._view.fold import paragraphs
from .command_answer import Answer
from .queued_work import person


def submit(manager: Manager, arguments: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    """Submit the work. Raises GpuSwarmError if no node or queue could ever run it. The values of variables are never shown."""
    job = job_of(arguments, environ)
    submitted = Jobs(manager, job.service, PREFIX, LogFiles(DIRECTORY), check_mode=False)
    if not submitted.missing([job]):
        words = "%s was submitted before. 'gpu-swarm retry %s' runs it again. For new work, choose another --name. %s"
        raise GpuSwarmError(words % (job.service, job.service, NOTHING))
    (record,) = submitted.present([job], 0, NEVER)
    if not record["id"]:
        raise GpuSwarmError("Somebody else just took the name %s. Choose another --name. %s" % (job.service, NOTHING))
    data = {"service": job.service, "service_id": record["id"], "queue": arguments.queue}
    sentences = [
        "%s waits in the queue %s." % (job.service, arguments.queue),
        "'gpu-swarm queue %s' shows its place, 'gpu-swarm logs %s --follow' its log, and 'gpu-swarm cancel %s' cancels it." % ((job.service,) * 3),
    ]
    return Answer(data, lambda width: paragraphs(sentences, width))


def job_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Job:
    """Return the job for these arguments. Its service has the name of the job."""
    if "=" in arguments.image.partition("@")[0]:
        raise GpuSwarmError("IMAGE contains a '='. If it is a variable, write --env before it. %s" % NOTHING)  # do not show it, it may be a secret
    if not arguments.queue:  # a job without a queue would start at once
        raise GpuSwarmError("--queue is empty. 'gpu-swarm queue' lists the queues. %s" % NOTHING)
    name = arguments.name or _name_for(arguments.image)
    refuse_name(name)
    seconds = None if arguments.time_limit in (None, NO_LIMIT) else duration_s(arguments.time_limit)
    if arguments.time_limit not in (None, NO_LIMIT) and seconds is None:
        words = "--time-limit is %s. Write a duration such as 90s, 30m, 8h or 2d, or none. %s"
        raise GpuSwarmError(words % (printable(arguments.time_limit[:40]), NOTHING))
    options: dict[str, Any] = {
        "name": name,
        "image": arguments.image,
        "command": list(arguments.words),
        "env": _variables(arguments.env, arguments.device, environ),
        "gpus": arguments.gpus,
        "kind": arguments.kind,
        "constraints": list(arguments.constraint),
        "mounts": list(arguments.mount),
        "networks": list(arguments.network),
        "user": arguments.user,
        "workdir": arguments.workdir,
        "owner": person() if arguments.owner is None else printable(arguments.owner),
        "queue": arguments.queue,
        "priority": arguments.priority,
        "time_limit": seconds or 0,
    }
    (job,) = jobs(options, PREFIX)
    labels = dict(job.spec["Labels"], **({TIME_LIMIT: NO_LIMIT} if arguments.time_limit == NO_LIMIT else {}))
    return job._replace(service=name, spec=dict(job.spec, Name=name, Labels=labels))


def _name_for(image: str) -> str:
    """Return a new name such as training-3f9a1c for the image my/training:1."""
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return "%s-%s" % (re.sub("[^A-Za-z0-9_-]", "-", last)[:40].strip("-_") or "work", os.urandom(3).hex())


def _variables(entries: Sequence[str], devices: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables. An entry without a value gets the value of this shell's variable."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            if name not in environ:
                words = "--env %s has no value, and this shell has no variable of this name (sudo drops variables). Write --env %s=VALUE. %s"
                raise GpuSwarmError(words % (printable(name), printable(name), NOTHING))
            value = environ[name]
        found[name] = value
    if devices:
        if offered_devices.VARIABLE in found:
            raise GpuSwarmError("Write --device, or the variable %s, but not both. %s" % (offered_devices.VARIABLE, NOTHING))
        found[offered_devices.VARIABLE] = ",".join(devices)
    return found
