# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns a user's definition of a job into services: one, or one for each set of parameters of an array (pure).

A job's digest covers what the job does, not how often it is retried or how long a run waits for it. It is computed from the user's definition,
because another release of this collection may write the service differently.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from .._errors import Errors, GpuSwarmError
from .._mask import MASK, mask, mask_value_in_key
from .._placement.node_match import is_constraint
from .._policy.generic_resources import ENV_PREFIX
from .._printable import printable
from .._secret_names import has_secret, is_name_of_secret, is_secret_word
from .._swarm.go_templates import WRITE, is_meant_for_swarm, literal
from .._swarm.image_name import is_image_name
from .job_mounts import mount

# Labels of the services, with the collection's prefix in front.
JOB, DIGEST, PARAMETERS, RETRIED, REFUSED = "job", "job-digest", "job-parameters", "job-retried", "job-refused"
# The node that refused the job last. The next try avoids it.
AVOIDS = "job-avoids"
# How many times somebody began to remove the job.
REMOVING = "job-removed"
OWNER = "gpu-swarm.owner"  # as status shows it, whatever the prefix
NAME_VARIABLE = "GPU_SWARM_JOB"
MOST = 1000  # jobs of an array
SHOWN = 200  # characters of the parameters
LONGEST_S = 1000000000  # Docker counts nanoseconds in 63 bits

# docker's own rule for services, of at most 63 characters, with room for the digest.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NS = 1000000000
NOTHING = "Nothing was submitted."


class Job(NamedTuple):
    """A single job, or one entry of an array. ``spec`` is the specification of its service."""

    service: str
    digest: str
    parameters: str
    spec: dict[str, Any]


def jobs(params: Mapping[str, Any], prefix: str) -> list[Job]:
    """Return all jobs of the user's definition, without repeats. Raises one error that lists all problems, in the order of ``params``."""
    name, errors = params["name"], Errors()
    read = {option: errors.collect(read_option, name, option, value) for option, value in params.items()}
    if not (params.get("image") or "").strip():
        errors.add("The job %s has no image. Write what it runs in: image: nvidia/cuda:13.0.0-base-ubuntu24.04. %s" % (name, NOTHING))
    env = read.get("env") or {}
    both = sorted({key for one in read.get("array") or [] for key in one if key in env})
    if both:
        errors.add("The job %s has %s in env and in array. Remove one of them. %s" % (name, ", ".join(both), NOTHING))
    errors.refuse()
    made = [_job(params, read, parameters, prefix) for parameters in read.get("array") or [{}]]
    twice = [one for one in made if sum(other.digest == one.digest for other in made) > 1]
    if twice:
        raise GpuSwarmError("The array of the job %s has %s twice. Remove one of them. %s" % (name, twice[0].parameters or "{}", NOTHING))
    return made


def read_option(name: str, option: str, value: Any) -> Any:
    """Return the checked and converted value of one option. Raises one error that lists all its problems."""
    reader = _READERS.get(option)
    return reader(name, option, value) if reader and value is not None else value


def refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise GpuSwarmError(
            "The name of the job is %r. Write at most 50 letters, digits and _ - that begin with a letter or digit. %s" % (name, NOTHING)
        )


def _array(name: str, option: str, given: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    if not 1 <= len(given) <= MOST:
        raise GpuSwarmError("The array of the job %s has %d entries, and may have 1 to %d. %s" % (name, len(given), MOST, NOTHING))
    errors = Errors()
    made = [errors.collect(_environment, name, "%s[%d]" % (option, number), one) for number, one in enumerate(given, 1)]
    errors.refuse()
    return made


def _number(name: str, option: str, value: int) -> int:
    if value < 0:
        raise GpuSwarmError("%s of the job %s is %d, and is 0 or more. %s" % (option, name, value, NOTHING))
    if option == "time_limit" and value > LONGEST_S:
        raise GpuSwarmError("time_limit of the job %s is %d seconds, and %d at most. %s" % (name, value, LONGEST_S, NOTHING))
    return value


def _image(name: str, option: str, value: str) -> str:
    image = value.strip()
    if image and not is_image_name(image):
        raise GpuSwarmError(
            "%s of the job %s is %r, which is not a valid image name. Write it as name:tag, in small letters, such as "
            "nvidia/cuda:13.0.0-base-ubuntu24.04. %s" % (option, name, value, NOTHING)
        )
    return _tagged(image) if image else ""


def _constraints(name: str, option: str, value: Sequence[str]) -> list[str]:
    errors = Errors()
    for text in value:
        if not is_constraint(text):
            errors.add(
                "%r of the %s of the job %s is none: write it as node.labels.gpu.model==Tesla-T4, with == or !=. %s" % (text, option, name, NOTHING)
            )
    errors.refuse()
    return [one.strip() for one in value]


def _mounts(name: str, _option: str, value: Sequence[str]) -> list[dict[str, Any]]:
    errors = Errors()
    made = [errors.collect(mount, name, one) for one in value]
    errors.refuse()
    targets = [one["Target"].rstrip("/") for one in made]
    twice = next((target for number, target in enumerate(targets) if target in targets[:number]), None)
    if twice is not None:
        raise GpuSwarmError("The job %s mounts two things at %s. Remove one of them. %s" % (name, twice or "/", NOTHING))
    return made


def _environment(name: str, where: str, given: Mapping[str, Any]) -> dict[str, str]:
    made, errors = {}, Errors()
    for key, value in given.items():
        if not _VARIABLE.fullmatch(str(key)):
            shown = mask_value_in_key(str(key))
            errors.add("%s of the job %s: %r cannot be a variable's name: use letters, digits and _. %s" % (where, name, shown, NOTHING))
        elif str(key).startswith(ENV_PREFIX):
            errors.add("%s of the job %s: %s is set by swarm from gpus and kind. Remove it. %s" % (where, name, key, NOTHING))
        else:
            made[str(key)] = errors.collect(_variable, name, where, key, value)
    errors.refuse()
    return made


def _variable(name: str, where: str, key: Any, value: Any) -> str:
    text = _text(name, where, key, value)
    if is_meant_for_swarm(text):
        raise GpuSwarmError("%s of the job %s has one of swarm's fields within another template. %s. %s" % (key, name, WRITE, NOTHING))
    return text


def _text(name: str, where: str, key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)) and "\0" not in str(value):
        return str(value)
    raise GpuSwarmError("%s of the job %s: %s is no text and no number. Write it in quotes. %s" % (where, name, key, NOTHING))


def _tagged(image: str) -> str:
    """Return the image with its tag. 'docker service update' adds a missing tag whatever it updates, and that change would run the job again."""
    return image if "@" in image or ":" in image.rpartition("/")[2] else "%s:latest" % image


def _argv(name: str, option: str, value: Any) -> list[str]:
    """Return the command as a list. A text is split into words as a shell would do it, as in a Compose file."""
    if isinstance(value, list):
        errors = Errors()
        words = [errors.collect(_text, name, option, "entry %d" % number, one) for number, one in enumerate(value, 1)]
        errors.refuse()
        return words
    try:
        return shlex.split(_text(name, option, "it", value))
    except ValueError as problem:
        wrong = "%s of the job %s cannot be cut into words: %s. Close its quotes, or write a list. %s" % (option, name, problem, NOTHING)
        raise GpuSwarmError(wrong) from None


_READERS: dict[str, Callable[[str, str, Any], Any]] = {
    "array": _array,
    "command": _argv,
    "constraints": _constraints,
    "entrypoint": _argv,
    "env": _environment,
    "gpus": _number,
    "image": _image,
    "mounts": _mounts,
    "retries": _number,
    "time_limit": _number,
}


def _job(params: Mapping[str, Any], read: Mapping[str, Any], parameters: dict[str, str], prefix: str) -> Job:
    name = params["name"]
    content = {
        "image": read["image"],
        "entrypoint": read.get("entrypoint") or [],
        "command": read.get("command") or [],
        "env": {**(read.get("env") or {}), **parameters},
        "mounts": read.get("mounts") or [],
        "networks": list(params.get("networks") or []),
        "constraints": read.get("constraints") or [],
        # As the user wrote it: its meaning depends on the fleet's nodes, and a change of those must not change the digest.
        "x_gpu": params.get("x_gpu") or {},
        "gpus": params.get("gpus") or 0,
        "kind": params["kind"] if params.get("gpus") else "",
        "user": params.get("user") or "",
        "workdir": params.get("workdir") or "",
        "time_limit": params.get("time_limit") or 0,
    }
    digest = _digest(content)
    shown = printable(mask(" ".join("%s=%s" % (key, MASK if _is_secret(key, value) else value) for key, value in parameters.items())))[:SHOWN]
    labels = {prefix + JOB: name, prefix + DIGEST: digest, prefix + RETRIED: "0", prefix + REFUSED: "0"}
    labels.update({prefix + PARAMETERS: shown} if shown else {})
    labels.update({OWNER: params["owner"]} if params.get("owner") else {})
    service = "%s-%s" % (name, digest[:12])
    placement = params.get("placement") or {}
    labels.update(placement.get("labels") or {})
    return Job(service, digest, shown, _spec(name, service, labels, content, placement.get("constraints") or []))


def _is_secret(name: str, value: str) -> bool:
    return is_name_of_secret(name) or has_secret(value)


def _digest(content: Mapping[str, Any]) -> str:
    """Return the digest of all options that are set. So an option that a later release adds changes no digest."""
    given = {key: value for key, value in content.items() if value}
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode("utf-8")).hexdigest()[:32]


def _spec(name: str, service: str, labels: dict[str, str], content: Mapping[str, Any], placed: Sequence[str]) -> dict[str, Any]:
    template: dict[str, Any] = {
        "ContainerSpec": _container(name, content),
        "Resources": {"Reservations": {"GenericResources": _reservation(content)}},
        "Placement": {"Constraints": [*content["constraints"], *placed]},
        # Not a job of swarm's own: swarm runs those again at any update, and when a manager leads again.
        "RestartPolicy": {"Condition": "none"},
        # Logs of the daemon's default driver may not be readable.
        "LogDriver": {"Name": "json-file"},
        "ForceUpdate": 0,
    }
    if content["networks"]:
        template["Networks"] = [{"Target": one} for one in content["networks"]]
    return {
        "Name": service,
        "Labels": labels,
        "Mode": {"Replicated": {"Replicas": 1}},
        "TaskTemplate": template,
        # Another try is an update of the service. A failing task must not pause it.
        "UpdateConfig": {"Parallelism": 0, "FailureAction": "continue", "Order": "stop-first"},
    }


def _reservation(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"DiscreteResourceSpec": {"Kind": content["kind"], "Value": content["gpus"]}}] if content["gpus"] else []


def _container(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    # Swarm expands templates in variables, and prints the whole value of one that it cannot expand.
    env = {NAME_VARIABLE: name, **{key: literal(value) for key, value in content["env"].items()}}
    if not content["gpus"]:
        env.setdefault("NVIDIA_VISIBLE_DEVICES", "void")  # every CUDA image requests all
    made: dict[str, Any] = {"Image": content["image"], "Env": ["%s=%s" % item for item in env.items()]}
    optional = {"Command": "entrypoint", "Args": "command", "Mounts": "mounts", "User": "user", "Dir": "workdir"}
    made.update({key: content[option] for key, option in optional.items() if content[option]})
    if content["time_limit"]:
        made["Healthcheck"] = _ends_after(content["time_limit"])
    return made


def values(job: Job) -> list[str]:
    """Return the values of the job's variables. They must not appear in Docker's error messages."""
    return [item.partition("=")[2] for item in job.spec["TaskTemplate"]["ContainerSpec"]["Env"]]


def names(job: Job) -> list[str]:
    """Return the values that Docker's error messages may repeat."""
    return [job.spec["Name"], job.spec["TaskTemplate"]["ContainerSpec"]["Image"]]


def _ends_after(seconds: int) -> dict[str, Any]:
    """Return a health check that ends the task after this time, since swarm has no time limit.

    A node ends a task whose first check fails, and no image has a command of this name.
    """
    return {"Test": ["CMD", "/gpu-swarm-time-limit"], "Interval": seconds * _NS, "Timeout": 10 * _NS, "Retries": 1}


def describe_jobs(made: Iterable[Job]) -> str:
    """Return a text for a diff that describes each job, without the values of its variables."""
    lines = []
    for one in made:
        template = one.spec["TaskTemplate"]
        container = template["ContainerSpec"]
        generic = template["Resources"]["Reservations"]["GenericResources"]
        lines += ["%s:" % one.service, "  image: %s" % container["Image"]]
        words = container.get("Args") or []
        shown = [MASK if is_secret_word(words, place) else shlex.quote(word) for place, word in enumerate(words)]
        lines += ["  command: %s" % mask(" ".join(shown))] if shown else []
        lines += ["  variables: %s" % ", ".join(sorted(item.partition("=")[0] for item in container["Env"]))]
        lines += ["  reserves: %(Value)d %(Kind)s" % item["DiscreteResourceSpec"] for item in generic]
        lines += ["  parameters: %s" % one.parameters] if one.parameters else []
        lines += ["  constraint: %s" % text for text in template["Placement"]["Constraints"]]
    return "".join("%s\n" % printable(line) for line in lines)
