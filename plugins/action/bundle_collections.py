# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._errors import GpuSwarmError
from ..plugin_utils._bundle import collection_archive

OWN, COLLECTIONS, SUMS = "fleet.gpu_swarm", "collections", "SHA256SUMS"


def installed(name):
    """Return the folder where Ansible finds a collection, or None. Ansible's module finder knows all configured paths."""
    try:
        spec = importlib.util.find_spec(f"ansible_collections.{name}")
    except ModuleNotFoundError:  # the namespace of the collection is not installed
        spec = None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


class ActionModule(ActionBase):
    """Runs on the controller only; see the documentation of the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, args = self.validate_argument_spec(argument_spec={"directory": {"type": "path", "required": True}})
        folder = Path(args["directory"])
        try:
            collections = collection_archive.with_dependencies(OWN, installed)
            result.update(
                changed=False,
                collections=[{"name": collection.name, "version": collection.version, "file": collection.archive} for collection in collections],
            )
            if not self._task.check_mode:
                result.update(changed=_write(folder, collections))
        except GpuSwarmError as problem:
            raise AnsibleActionFail(problem.message) from problem
        except OSError as problem:
            raise AnsibleActionFail(f"{problem.filename}: {problem.strerror}") from problem
        return result


def _write(folder, collections):
    (folder / COLLECTIONS).mkdir(exist_ok=True)
    changed = [collection.name for collection in collections if collection_archive.put(collection, folder / COLLECTIONS)]
    sums = collection_archive.checksums(folder, SUMS)
    before = (folder / SUMS).read_text() if (folder / SUMS).exists() else None
    if sums != before:
        (folder / SUMS).write_text(sums)
    return bool(changed) or sums != before
