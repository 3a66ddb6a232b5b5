# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns a user's definition of a job into services: one service, or one service for each set of parameters of an array (pure).

A job's digest covers what the job does. The digest ignores how often the job is retried and how long a run waits for the job. The digest is computed
from the user's definition, because another release of this collection may write the service differently.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from .._errors import Errors, GpuSwarmError
from .._gpu import driver_capabilities
from .._mask import MASK, mask, mask_value_in_key
from .._placement.node_match import is_constraint
from .._policy import offered_devices
from .._policy.generic_resources import ENV_PREFIX
from .._printable import printable
from .._secret_names import has_secret, is_name_of_secret, is_secret_word
from .._swarm.go_templates import WRITE, is_meant_for_swarm, literal
from .._swarm.image_name import is_image_name, with_tag
from .._swarm.owned_labels import QUEUE
from . import queue_options
from .job_mounts import mount
from .queue_options import MOST_SERVICES

# Labels of the services, with the collection's prefix in front.
JOB, DIGEST, PARAMETERS, RETRIED, REFUSED = "job", "job-digest", "job-parameters", "job-retried", "job-refused"
# The node that refused the job last. The next try avoids it.
AVOIDS = "job-avoids"
# How many times somebody began to remove the job.
REMOVING = "job-removed"
NAME_VARIABLE = "GPU_SWARM_JOB"
MOST_SHOWN = 200  # characters of the parameters in a label
LONGEST_S = 1000000000  # Docker stores nanoseconds in 63 bits

# Docker allows at most 63 characters in the name of a service. This limit leaves room for the digest.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NS = 1000000000
NOTHING = "Nothing was submitted."


class Job(NamedTuple):
    """A single job or one entry of an array. If it runs on several nodes, this is one member of its gang.

    ``spec`` is the specification of its service. ``gang`` is the name of its gang; ``""`` for a job on one node.
    """

    service: str
    digest: str
    parameters: str
    spec: dict[str, Any]
    gang: str = ""


def jobs(params: Mapping[str, Any], prefix: str) -> list[Job]:
    """Return all jobs of the user's definition, without repeats. Raises one error that lists all problems, in the order of ``params``."""
    name, errors = params["name"], Errors()
    options = {option: errors.collect(read_option, name, option, value) for option, value in params.items()}
    if not (params.get("image") or "").strip():
        errors.add("The job %s has no image. Write one, such as image: nvidia/cuda:13.0.0-base-ubuntu24.04. %s" % (name, NOTHING))
    env = options.get("env") or {}
    both = sorted({key for parameters in options.get("array") or [] for key in parameters if key in env})
    if both:
        errors.add("The job %s has %s in env and in array. Remove one of them. %s" % (name, ", ".join(both), NOTHING))
    if options.get("capabilities") and not params.get("gpus"):
        errors.add("The job %s has capabilities, but with gpus: 0 it sees no GPU. Remove capabilities, or reserve a GPU. %s" % (name, NOTHING))
    queue_options.check(errors, params, {*env, *(key for parameters in options.get("array") or [] for key in parameters)})
    errors.refuse()
    entries = [_job(params, options, parameters, prefix) for parameters in options.get("array") or [{}]]
    repeated = [job for job in entries if sum(other.digest == job.digest for other in entries) > 1]
    if repeated:
        raise GpuSwarmError("The array of the job %s has %s twice. Remove one of them. %s" % (name, repeated[0].parameters or "{}", NOTHING))
    return entries if queue_options.nodes_of(params) == 1 else [member for job in entries for member in _members(params, job)]


def _members(params: Mapping[str, Any], job: Job) -> list[Job]:
    return [job._replace(service=spec["Name"], spec=spec, gang=job.service) for spec in queue_options.members(params, job.spec)]


def read_option(name: str, option: str, value: Any) -> Any:
    """Return the checked and converted value of one option. Raises one error that lists all its problems."""
    reader = _READERS.get(option)
    return reader(name, option, value) if reader and value is not None else value


def refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise GpuSwarmError(
            "The name of the job is %r. Write at most 50 letters, digits and _ - that begin with a letter or digit. %s" % (name, NOTHING)
        )


def _array(name: str, option: str, value: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    if not 1 <= len(value) <= MOST_SERVICES:
        raise GpuSwarmError("The array of the job %s has %d entries, and may have 1 to %d. %s" % (name, len(value), MOST_SERVICES, NOTHING))
    errors = Errors()
    entries = [errors.collect(_environment, name, "%s[%d]" % (option, number), entry) for number, entry in enumerate(value, 1)]
    errors.refuse()
    return entries


def _number(name: str, option: str, value: int) -> int:
    if value < 0:
        raise GpuSwarmError("%s of the job %s is %d. Write 0 or more. %s" % (option, name, value, NOTHING))
    if option == "time_limit" and value > LONGEST_S:
        raise GpuSwarmError("time_limit of the job %s is %d seconds. Write at most %d. %s" % (name, value, LONGEST_S, NOTHING))
    return value


def _image(name: str, option: str, value: str) -> str:
    image = value.strip()
    if image and not is_image_name(image):
        raise GpuSwarmError(
            "%s of the job %s is %r, which is not a valid image name. Write it as name:tag, in small letters, such as "
            "nvidia/cuda:13.0.0-base-ubuntu24.04. %s" % (option, name, value, NOTHING)
        )
    return with_tag(image) if image else ""


def _capabilities(name: str, option: str, value: Sequence[str]) -> list[str]:
    """Return the requested parts of the driver, in a fixed order."""
    known = (*driver_capabilities.GENERAL, *driver_capabilities.CAPABILITIES)
    unknown = [text for text in value if text not in known]
    if unknown:
        shown, possible = ", ".join(map(repr, unknown)), ", ".join(driver_capabilities.CAPABILITIES)
        raise GpuSwarmError("%s of the job %s has %s. NVIDIA's driver has %s. Write those. %s" % (option, name, shown, possible, NOTHING))
    return [text for text in driver_capabilities.CAPABILITIES if text in value]


def _constraints(name: str, option: str, value: Sequence[str]) -> list[str]:
    errors = Errors()
    for text in value:
        if not is_constraint(text):
            errors.add(
                "%r in %s of the job %s is not a valid constraint. Write it as node.labels.gpu.model==Tesla-T4, with == or !=. %s"
                % (text, option, name, NOTHING)
            )
    errors.refuse()
    return [constraint.strip() for constraint in value]


def _mounts(name: str, _option: str, value: Sequence[str]) -> list[dict[str, Any]]:
    errors = Errors()
    mounts = [errors.collect(mount, name, text) for text in value]
    errors.refuse()
    targets = [item["Target"].rstrip("/") for item in mounts]
    repeated = next((target for number, target in enumerate(targets) if target in targets[:number]), None)
    if repeated is not None:
        raise GpuSwarmError("The job %s mounts two things at %s. Remove one of them. %s" % (name, repeated or "/", NOTHING))
    return mounts


def _environment(name: str, where: str, variables: Mapping[str, Any]) -> dict[str, str]:
    checked, errors = {}, Errors()
    for key, value in variables.items():
        if not _VARIABLE.fullmatch(str(key)):
            shown = mask_value_in_key(str(key))
            errors.add("%s of the job %s: %r is not a valid name of a variable. Use letters, digits and _. %s" % (where, name, shown, NOTHING))
        elif str(key).startswith(ENV_PREFIX):
            errors.add("%s of the job %s: %s is set by swarm from gpus and kind. Remove it. %s" % (where, name, key, NOTHING))
        else:
            checked[str(key)] = errors.collect(_variable, name, where, key, value)
    errors.refuse()
    return checked


def _variable(name: str, where: str, key: Any, value: Any) -> str:
    text = _text(name, where, key, value)
    if is_meant_for_swarm(text):
        raise GpuSwarmError("%s of the job %s has one of swarm's fields within another template. %s. %s" % (key, name, WRITE, NOTHING))
    if key == offered_devices.VARIABLE:
        try:
            offered_devices.constraints(text, (), "%s of the job %s" % (key, name))
        except GpuSwarmError as problem:
            raise GpuSwarmError("%s %s" % (problem.message, NOTHING)) from None
    return text


def _text(name: str, where: str, key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)) and "\0" not in str(value):
        return str(value)
    raise GpuSwarmError("%s of the job %s: %s is neither a text nor a number. Write it in quotes. %s" % (where, name, key, NOTHING))


def _argv(name: str, option: str, value: Any) -> list[str]:
    """Return the command as a list. A text is split into words as in a shell or a Compose file."""
    if isinstance(value, list):
        errors = Errors()
        words = [errors.collect(_text, name, option, "entry %d" % number, word) for number, word in enumerate(value, 1)]
        errors.refuse()
        return words
    try:
        return shlex.split(_text(name, option, "it", value))
    except ValueError as problem:
        message = "%s of the job %s cannot be split into words: %s. Close its quotes, or write a list. %s" % (option, name, problem, NOTHING)
        raise GpuSwarmError(message) from None


_READERS: dict[str, Callable[[str, str, Any], Any]] = {
    "array": _array,
    "capabilities": _capabilities,
    "command": _argv,
    "constraints": _constraints,
    "entrypoint": _argv,
    "env": _environment,
    "gpus": _number,
    "image": _image,
    "mounts": _mounts,
    "nodes": queue_options.read_nodes,
    "priority": queue_options.read_priority,
    "queue": queue_options.read_queue,
    "retries": _number,
    "start_timeout": queue_options.read_start_timeout,
    "time_limit": _number,
}


def _job(params: Mapping[str, Any], options: Mapping[str, Any], parameters: dict[str, str], prefix: str) -> Job:
    name = params["name"]
    content = {
        "image": options["image"],
        "entrypoint": options.get("entrypoint") or [],
        "command": options.get("command") or [],
        "env": {**(options.get("env") or {}), **parameters},
        "mounts": options.get("mounts") or [],
        "networks": queue_options.networks(params),
        "constraints": options.get("constraints") or [],
        # The digest covers the user's text. The meaning of the text depends on the nodes of the fleet, but a change of nodes must not change the
        # digest.
        "x_gpu": params.get("x_gpu") or {},
        "gpus": params.get("gpus") or 0,
        "kind": params["kind"] if params.get("gpus") else "",
        "capabilities": options.get("capabilities") or [],
        "user": params.get("user") or "",
        "workdir": params.get("workdir") or "",
        "time_limit": params.get("time_limit") or 0,
        "nodes": params["nodes"] if queue_options.nodes_of(params) > 1 else 0,
        "any_model": params.get("same_model") is False,
    }
    digest = _digest(content)
    shown = printable(mask(" ".join("%s=%s" % (key, MASK if _is_secret(key, value) else value) for key, value in parameters.items())))[:MOST_SHOWN]
    labels = {prefix + JOB: name, prefix + DIGEST: digest, prefix + RETRIED: "0", prefix + REFUSED: "0"}
    labels.update({prefix + PARAMETERS: shown} if shown else {})
    labels.update(queue_options.labels(params))
    service = "%s-%s" % (name, digest[:12])
    placement = params.get("placement") or {}
    labels.update(placement.get("labels") or {})
    constraints = list(placement.get("constraints") or [])
    asked = content["env"].get(offered_devices.VARIABLE, "")
    constraints += offered_devices.constraints(asked, [*content["constraints"], *constraints], offered_devices.VARIABLE)
    return Job(service, digest, shown, _spec(name, service, labels, content, constraints))


def _is_secret(name: str, value: str) -> bool:
    return is_name_of_secret(name) or has_secret(value)


def _digest(content: Mapping[str, Any]) -> str:
    """Return the digest of all options that are set. So new options of later releases do not change the digest."""
    options = {key: value for key, value in content.items() if value}
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode("utf-8")).hexdigest()[:32]


def _spec(name: str, service: str, labels: dict[str, str], content: Mapping[str, Any], more_constraints: Sequence[str]) -> dict[str, Any]:
    # The queue itself stops work that exceeds its time limit. So the image keeps its own health check.
    limit = 0 if QUEUE in labels else content["time_limit"]
    template: dict[str, Any] = {
        "ContainerSpec": _container(name, content, limit),
        "Resources": {"Reservations": {"GenericResources": _reservation(content)}},
        "Placement": {"Constraints": [*content["constraints"], *more_constraints]},
        # This is a one-shot service, not a job of swarm. Swarm runs a job again after any update of the job, and after a change of the leader.
        "RestartPolicy": {"Condition": "none"},
        # Logs of the daemon's default driver may not be readable.
        "LogDriver": {"Name": "json-file"},
        "ForceUpdate": 0,
    }
    if content["networks"]:
        template["Networks"] = [{"Target": network} for network in content["networks"]]
    return {
        "Name": service,
        "Labels": labels,
        # Queued work begins when its queue admits it.
        "Mode": {"Replicated": {"Replicas": 0 if QUEUE in labels else 1}},
        "TaskTemplate": template,
        # Another try is an update of the service. A failing task must not pause it.
        "UpdateConfig": {"Parallelism": 0, "FailureAction": "continue", "Order": "stop-first"},
    }


def _reservation(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"DiscreteResourceSpec": {"Kind": content["kind"], "Value": content["gpus"]}}] if content["gpus"] else []


def _container(name: str, content: Mapping[str, Any], time_limit: int) -> dict[str, Any]:
    # Swarm expands templates in variables. If swarm cannot expand a variable, its error shows the whole value.
    env = {NAME_VARIABLE: name, **{key: literal(value) for key, value in content["env"].items()}}
    if not content["gpus"]:
        env.setdefault("NVIDIA_VISIBLE_DEVICES", "void")  # every CUDA image requests all GPUs
    if content["capabilities"]:
        env.setdefault(driver_capabilities.VARIABLE, driver_capabilities.value_of(content["capabilities"]))
    container: dict[str, Any] = {"Image": content["image"], "Env": ["%s=%s" % item for item in env.items()]}
    optional = {"Command": "entrypoint", "Args": "command", "Mounts": "mounts", "User": "user", "Dir": "workdir"}
    container.update({key: content[option] for key, option in optional.items() if content[option]})
    if time_limit:
        container["Healthcheck"] = _time_limit_check(time_limit)
    return container


def variable_values(job: Job) -> list[str]:
    """Return the values of the job's variables. These values must not appear in Docker's error messages."""
    return [item.partition("=")[2] for item in job.spec["TaskTemplate"]["ContainerSpec"]["Env"]]


def public_values(job: Job) -> list[str]:
    """Return the values that Docker's error messages may repeat."""
    return [job.spec["Name"], job.spec["TaskTemplate"]["ContainerSpec"]["Image"]]


def _time_limit_check(seconds: int) -> dict[str, Any]:
    """Return a health check that ends the task after this time, since swarm has no time limit.

    The first check fails, because no image has a command of this name. Then the node ends the task.
    """
    return {"Test": ["CMD", "/gpu-swarm-time-limit"], "Interval": seconds * _NS, "Timeout": 10 * _NS, "Retries": 1}


def describe_jobs(submitted: Iterable[Job]) -> str:
    """Return a text for a diff that describes each job, without the values of its variables."""
    lines = []
    for job in submitted:
        template = job.spec["TaskTemplate"]
        container = template["ContainerSpec"]
        generic = template["Resources"]["Reservations"]["GenericResources"]
        lines += ["%s:" % job.service, "  image: %s" % container["Image"]]
        words = container.get("Args") or []
        shown = [MASK if is_secret_word(words, place) else shlex.quote(word) for place, word in enumerate(words)]
        lines += ["  command: %s" % mask(" ".join(shown))] if shown else []
        lines += ["  variables: %s" % ", ".join(sorted(item.partition("=")[0] for item in container["Env"]))]
        lines += ["  reserves: %(Value)d %(Kind)s" % item["DiscreteResourceSpec"] for item in generic]
        lines += ["  %s: %s" % item for item in queue_options.described(job.spec["Labels"])]
        lines += ["  parameters: %s" % job.parameters] if job.parameters else []
        lines += ["  constraint: %s" % text for text in template["Placement"]["Constraints"]]
    return "".join("%s\n" % printable(line) for line in lines)
