# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a job file and checks its options.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ...module_utils._errors import Errors, GpuSwarmError, SeveralErrors
from ...module_utils._jobs import definition
from ...module_utils._jobs.definition import NOTHING
from ...module_utils._jobs.job_options import JOB_OPTIONS, RUN_OPTIONS
from ...module_utils._mask import mask_value_in_key
from .._classes import for_job
from .._classes.requirement import Requirement
from .document import load_yaml

# The key as in a Compose file.
X_GPU = "x-gpu"
# For each type, a description of valid values, and the remedy.
_TYPES = {
    "bool": ("true or false", "Write one of them"),
    "dict": ("a mapping", "Write 'key: value' under it"),
    "int": ("a whole number", "Write one"),
    "list": ("a list", "Begin each entry with '- '"),
}
_MAY_BE_SECRET = ("dict", "list", "raw")  # for example variables and the words of a command
_TEXT = ("text", "Put it in quotes")
_TYPE_NAMES = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number", type(None): "empty"}


def read_job_file(path: str) -> dict[str, Any]:
    """Return the options in the job file."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise GpuSwarmError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}. Make it readable. {NOTHING}") from None
    try:
        options = load_yaml(text, path)  # YAML 1.1, as in Ansible's own files
    except GpuSwarmError as problem:
        raise GpuSwarmError(f"{problem.message} {NOTHING}") from None
    if not isinstance(options, dict):
        raise GpuSwarmError(f"{path} is not a mapping of options such as name and image. {NOTHING}")
    if X_GPU in options and "x_gpu" not in options:
        options["x_gpu"] = options.pop(X_GPU)
    unknown = sorted(str(key) for key in options if key not in JOB_OPTIONS)
    if unknown:
        message = f"{path}: {', '.join(map(mask_value_in_key, unknown))} is not known. Options are {', '.join(JOB_OPTIONS)}. {NOTHING}"
        raise SeveralErrors([message], {key: value for key, value in options.items() if key in JOB_OPTIONS})
    return options


def check_options(options: Mapping[str, Any]) -> Requirement:
    """Return the x-gpu of the job. Raise all errors of its options, in their order. This check calls no manager."""
    errors, valid = Errors(), {option: spec["default"] for option, spec in JOB_OPTIONS.items() if "default" in spec}
    name, x_gpu = str(options.get("name") or "without a name"), Requirement()
    for option, value in options.items():
        if option in JOB_OPTIONS or option in RUN_OPTIONS:
            before = len(errors.messages)
            typed = errors.collect(_convert, name, option, value)
            errors.collect(definition.read_option, name, option, typed)
            if option == "x_gpu":
                x_gpu = errors.collect(for_job.parse_x_gpu, typed, name)
            if len(errors.messages) == before:
                valid[option] = typed
    if not options.get("name"):
        errors.add(f"The job has no name. Write one: name: sweep. {NOTHING}")
    elif "name" in valid:
        errors.collect(definition.refuse_name, name)
    if options.get("state") != "absent":
        image_stand_in = {"image": "x"} if "image" in options and "image" not in valid else {}
        errors.collect(definition.jobs, {**valid, "name": name, **image_stand_in}, "")
    errors.refuse()
    return x_gpu


def _convert(name: str, option: str, value: Any) -> Any:
    """Convert the value as Ansible's modules do."""
    spec = {**JOB_OPTIONS, **RUN_OPTIONS}[option]
    rule, remedy = _TYPES.get(spec["type"], _TEXT)
    if "choices" in spec:
        *others, last = spec["choices"]
        rule, remedy = f"{', '.join(others)} or {last}", "Write one of them"
    validation = ArgumentSpecValidator({option: spec}).validate({option: value})
    # Ansible converts everything to text, and splits text at commas, for example a mount.
    is_wrong = isinstance(value, (dict, list)) if spec["type"] in ("path", "str") else rule == "a list" and isinstance(value, str) and "," in value
    entries = value if isinstance(value, list) and spec.get("elements") == "str" else []
    if not is_wrong and any(entry is None or isinstance(entry, (dict, list)) for entry in entries):
        is_wrong, rule, remedy = True, "a list of strings", "Put each entry in quotes"
    if validation.error_messages or is_wrong:
        is_shown = isinstance(value, (str, int, float)) and spec["type"] not in _MAY_BE_SECRET and len(repr(value)) <= 60
        shown = repr(value) if is_shown else _TYPE_NAMES.get(type(value), "something else")
        raise GpuSwarmError(f"{option} of the job {name} is {shown}, but must be {rule}. {remedy}. {NOTHING}")
    return validation.validated_parameters[option]
