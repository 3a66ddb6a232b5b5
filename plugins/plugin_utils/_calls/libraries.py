# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends what a node lacks along with a module: pure Python libraries of the controller, in one zip file.

Private to this collection: no stability is promised to others.
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
from .become import explained
from .delegation import answered, refuse_facts

# Runs a module with these arguments.
Run = Callable[[Mapping[str, Any]], dict[str, Any]]

# The host's own assessment, as the roles register it earlier in the run.
ASSESSED = "gpu_node_assessed"


class CarryingAction(ActionBase):
    """Runs MODULE; where it fails for want of libraries that the controller has, again with those."""

    MODULE = ""
    # What a host lacks in all probability: it is sent at once if the controller has it.
    likely: tuple[str, ...] = ()

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        refuse_facts(self._task, task_vars)
        known = at_hand(self.likely) if self._task.check_mode else lacking(task_vars)
        answer = carry(partial(self._run_module, task_vars), self._task.args, known)
        return merge_hash(result, self.finish(answer, self._task.delegate_to or task_vars["inventory_hostname"]))

    def finish(self, answer: dict[str, Any], host: str) -> dict[str, Any]:
        """What the controller makes of the answer of this host."""
        return answer

    def _run_module(self, task_vars: Any, args: Mapping[str, Any]) -> dict[str, Any]:
        def call() -> dict[str, Any]:
            return self._execute_module(module_name=self.MODULE, module_args=dict(args), task_vars=task_vars)

        # A host that is delegated to answers for itself alone.
        return answered(call, self._task.delegate_to, None) if self._task.delegate_to else explained(plain(call()), task_vars["inventory_hostname"])


def lacking(task_vars: Mapping[str, Any]) -> list[str]:
    """What the host lacks by its assessment, so that the run that acts on it need not fail for that first."""
    return [name for name in (task_vars.get(ASSESSED) or {}).get("missing") or () if name in LIBRARIES]


def at_hand(names: Iterable[str]) -> list[str]:
    """Those that the controller has."""
    found = []
    for name in names:
        with suppress(AnsibleActionFail):
            LIBRARIES[name]()
            found.append(name)
    return found


def carry(run: Run, args: Mapping[str, Any], known: Iterable[str] = ()) -> dict[str, Any]:
    """The answer of ``run(args)``; as long as it fails for want of something new that can be sent, run again with it.

    It goes along in the module's own arguments, which with pipelining costs no further round trip. A module stops at
    the first thing that it lacks, so a node can need a second round. What is ``known`` to be lacking goes along at
    once. Nothing is sent against the user's own ``library_path``.
    """
    if args.get("library_path"):
        return run(args)
    sent = list(known)
    answer = run(dict(args, libraries=pack(sent)) if sent else args)
    while more := [name for name in wanted(answer) if name not in sent]:
        sent += more
        answer = run(dict(args, libraries=pack(sent)))
    return answer


def wanted(answer: Mapping[str, Any]) -> list[str]:
    """What to send, by the module's own answer. One that did its work is never run twice."""
    return [name for name in answer.get("missing") or () if name in LIBRARIES] if answer.get("failed") else []


def pack(names: Iterable[str]) -> str:
    """The zip file with the libraries ``names`` as text; the same for the same libraries."""
    files = {inside: source.read_bytes() for name in sorted(names) for inside, source in LIBRARIES[name]().items()}
    return base64.b64encode(zip_file(files)).decode("ascii")


def zip_file(files: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same files."""
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
            f"The controller's pynvml at {source.parent} is not the one of nvidia-ml-py but an old package. "
            "Replace it: 'pip uninstall pynvml' and 'pip install nvidia-ml-py' into the Python that runs Ansible."
        )
    return {"pynvml.py": source}


def _toml_parser() -> dict[str, Path]:
    """tomli, or the standard library's copy of it under that name."""
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


# By the words that the modules use in ``missing``.
LIBRARIES: dict[str, Callable[[], dict[str, Path]]] = {
    "nvml_binding": _binding,
    "toml_parser": _toml_parser,
}
