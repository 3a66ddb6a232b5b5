# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends a module together with the Python libraries that the node lacks, as one zip file. The libraries are pure Python and come from the controller.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import os
import sysconfig
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import merge_hash

from .._answers.answer import plain
from .become import explain_become_failure
from .delegation import answer_of, refuse_facts

# Runs a module with these arguments.
Run = Callable[[Mapping[str, Any]], dict[str, Any]]

# The host's own assessment, as the roles register it earlier in the run.
ASSESSED = "gpu_node_assessed"


class CarryingAction(ActionBase):
    """Runs MODULE. If it fails because of missing libraries that the controller has, runs it again with these libraries."""

    MODULE = ""
    # Libraries that a host probably lacks. They are sent at once if the controller has them.
    likely: tuple[str, ...] = ()

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        refuse_facts(self._task, task_vars)
        libraries = available_libraries(self.likely) if self._task.check_mode else missing_libraries(task_vars)
        answer = carry(partial(self._run_module, task_vars), self._task.args, libraries)
        return merge_hash(result, self.finish(answer, self._task.delegate_to or task_vars["inventory_hostname"]))

    def finish(self, answer: dict[str, Any], host: str) -> dict[str, Any]:
        """Return the result of the task for this answer of the host. Subclasses change it."""
        return answer

    def _run_module(self, task_vars: Any, args: Mapping[str, Any]) -> dict[str, Any]:
        def call() -> dict[str, Any]:
            return self._execute_module(module_name=self.MODULE, module_args=dict(args), task_vars=task_vars)

        # If the task is delegated, only the delegated host fails.
        return (
            answer_of(call, self._task.delegate_to, None)
            if self._task.delegate_to
            else explain_become_failure(plain(call()), task_vars["inventory_hostname"])
        )


def missing_libraries(task_vars: Mapping[str, Any]) -> list[str]:
    """Return the libraries that the host lacks according to its assessment. Sending them at once avoids a failing first call."""
    return [name for name in (task_vars.get(ASSESSED) or {}).get("missing") or () if name in LIBRARIES]


def available_libraries(names: Iterable[str]) -> list[str]:
    """Return the libraries among ``names`` that the controller has."""
    available = []
    for name in names:
        with suppress(AnsibleActionFail):
            LIBRARIES[name]()
            available.append(name)
    return available


def carry(run: Run, args: Mapping[str, Any], known: Iterable[str] = ()) -> dict[str, Any]:
    """Return the answer of ``run(args)``. While the call fails because of a missing library that can be sent, repeat the call with that library.

    The libraries are part of the module's arguments. With pipelining, this costs no further round trip. A module stops at the first missing library,
    so a node can need a second call. The libraries in ``known`` are sent with the first call. If the user set ``library_path``, no library is sent.
    """
    if args.get("library_path"):
        return run(args)
    sent = list(known)
    answer = run(dict(args, libraries=pack(sent)) if sent else args)
    while missing := [name for name in libraries_to_send(answer) if name not in sent]:
        sent += missing
        answer = run(dict(args, libraries=pack(sent)))
    return answer


def libraries_to_send(answer: Mapping[str, Any]) -> list[str]:
    """Return the libraries to send according to the module's answer. A module that succeeded is never run twice."""
    return [name for name in answer.get("missing") or () if name in LIBRARIES] if answer.get("failed") else []


def pack(names: Iterable[str]) -> str:
    """Return the zip file with these libraries as base64 text. The same libraries give the same text."""
    files = {inside: source.read_bytes() for name in sorted(names) for inside, source in LIBRARIES[name]().items()}
    return base64.b64encode(zip_file(files)).decode("ascii")


def zip_file(files: Mapping[str, bytes]) -> bytes:
    """Return a zip file of these files. The same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, content in files.items():
            archive.writestr(zipfile.ZipInfo(inside), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _binding() -> dict[str, Path]:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or not spec.origin:
        raise AnsibleActionFail(
            "The node has no pynvml, and the controller has none to send. Install it on the controller: "
            "'pip install nvidia-ml-py' into the Python that runs Ansible, or add it to the execution environment."
        )
    source = Path(spec.origin)
    if source.name != "pynvml.py":
        raise AnsibleActionFail(
            f"The controller's pynvml at {source.parent} is from an old package, not from nvidia-ml-py. "
            "Replace it: 'pip uninstall pynvml' and 'pip install nvidia-ml-py' into the Python that runs Ansible."
        )
    return {"pynvml.py": source}


def _toml_parser() -> dict[str, Path]:
    """Return the files of tomli, or else the files of the standard library's copy under the name tomli."""
    spec = importlib.util.find_spec("tomli")
    home = Path(spec.origin).parent if spec and spec.origin else Path(sysconfig.get_path("stdlib"), "tomllib")
    sources = sorted(home.glob("*.py"))
    if not sources:
        raise AnsibleActionFail(
            "The node's Python is older than 3.11 and has no tomli, and the controller has none to send. Install it on "
            "the controller: 'pip install tomli' into the Python that runs Ansible, or add it to the execution "
            "environment."
        )
    return {os.path.join("tomli", source.name): source for source in sources}


# The keys are the names that modules use in ``missing``.
LIBRARIES: dict[str, Callable[[], dict[str, Path]]] = {
    "nvml_binding": _binding,
    "toml_parser": _toml_parser,
}
