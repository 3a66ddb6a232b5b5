#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_packages
short_description: Finds and downloads packages of a repository that may be unknown to the node
version_added: 0.3.0
description:
  - Searches packages with the node's package manager, in one given repository or in the node's own repositories. The node needs neither a definition
    of the given repository nor its key.
  - The package manager uses its own settings, such as proxies. Definitions, lists, logs, locks and trusted keys are in a temporary directory, which
    the module removes afterwards.
  - The module compares the key with its fingerprint before the package manager reads the repository, as M(fleet.gpu_swarm.repository_key) does.
  - zypper also writes its cookies to C(/var/lib/YaST2/cookies), as it always does.
options:
  manager:
    description: The package manager.
    type: str
    choices: [apt, dnf, zypper]
    required: true
  packages:
    description: The packages' names.
    type: list
    elements: str
    required: true
  version:
    description: The required version of each package, with its release, such as V(1.20.0-1).
    type: str
    required: true
  definition:
    description:
      - The repository's definition, in the format of the package manager's files. For C(dnf) and C(zypper), this is the section
        C(nvidia-container-toolkit).
      - If the definition is empty, the module searches the node's own repositories. C(apt) uses the lists on the node. C(dnf) and C(zypper)
        use a copy of their lists, and refresh the copy if it is too old.
    type: str
    default: ""
  key_path:
    description: The path of the key in O(definition). If this path already has the right key, the module uses that key.
    type: path
  key_url:
    description: The URL from which the module fetches the key if O(key_path) does not have the right key.
    type: str
  key_content:
    description: The key itself, encoded in base64. It takes precedence over O(key_path) and O(key_url).
    type: str
  fingerprint:
    description: The key's fingerprint. If it is empty, the module accepts any key, except from an O(key_url) with C(http).
    type: str
    default: ""
  directory:
    description:
      - An existing directory to download the packages to, under their file names in the repository.
        The package manager compares the checksums of the packages with the repository's signed lists. With dnf 4, the download needs the plugin
        C(download) of C(dnf-plugins-core).
      - In check mode, the module downloads nothing.
    type: path
  timeout:
    description: How many seconds the server of the key may take to answer.
    type: int
    default: 30
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
attributes:
  check_mode:
    support: full
    details: Without O(directory), the module does the same in check mode as otherwise.
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: Check whether a mirror has the required version
  fleet.gpu_swarm.repository_packages:
    manager: apt
    packages: [nvidia-container-toolkit]
    version: 1.20.0-1
    definition: deb [signed-by=/usr/share/keyrings/nvidia.asc] https://mirror.example.com/libnvidia-container/stable/deb/$(ARCH) /
    key_path: /usr/share/keyrings/nvidia.asc
    key_url: https://mirror.example.com/libnvidia-container/gpgkey
    fingerprint: C95B321B61E88C1809C4F759DDCAE044F796ECB0
"""

RETURN = r"""
versions:
  description: The versions of each package, the newest first.
  returned: success
  type: dict
  sample: {nvidia-container-toolkit: [1.20.0-1, 1.19.1-1]}
files:
  description: The names of the files in O(directory).
  returned: with O(directory), except in check mode
  type: list
  elements: str
  sample: [nvidia-container-toolkit_1.20.0-1_amd64.deb]
problem:
  description: >-
    The type of problem. V(url) means that the key could not be fetched. V(fingerprint) means that the content is another key or no key. V(repository)
    means that the repository could not be read. V(version) means that the repository does not have a package in this version.
  returned: failure
  type: str
"""

import base64
import os
import shutil
import tempfile
from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._errors import GpuSwarmError
from ..module_utils._machine.repository import MANAGERS, MANAGERS_OF_NODE, download, query, require_version, with_directory
from ..module_utils._machine.signing_key import check_key, encode_for, fetch_key, read_installed, required_fingerprint
from ..module_utils._mask import mask


def write_key(module, work):
    """Write the key into the work directory after checking it, and return its path. The path in the definition decides on the format."""
    params = module.params
    wanted, path, armored = required_fingerprint(params["fingerprint"]), params["key_path"], params["manager"] != "apt"
    keys = read_installed(path, wanted, armored) if wanted and not params["key_content"] else None
    if not keys:
        content = base64.b64decode(params["key_content"]) if params["key_content"] else fetch_key(module, module.key_url)
        keys = check_key(content, wanted, module.key_url if not params["key_content"] else "the key from the controller")
    file = os.path.join(work, "key" + os.path.splitext(path)[1])
    write(file, encode_for(path, keys, armored), 0o644)  # apt reads the key as another user than root
    if file != os.path.join(work, "key"):
        os.symlink(file, os.path.join(work, "key"))
    return file


def write(path, content, mode=0o600):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def copy(source, target):
    """Copy a directory of lists. If a file changes meanwhile, drop the copy: the package manager fetches the lists again."""
    try:
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("packages", "S.*"))  # S.* are sockets
    except FileNotFoundError:  # the source directory does not exist
        return
    except shutil.Error:
        shutil.rmtree(target, ignore_errors=True)


def search(module, work):
    definition = module.definition
    manager = (MANAGERS if definition else MANAGERS_OF_NODE)[module.params["manager"]]
    for folder in manager.folders:
        os.mkdir(with_directory(folder, work))
    for path, content in manager.files.items():
        write(with_directory(path, work), with_directory(content, work).encode())
    for source, target in manager.copied_directories.items():
        copy(source, with_directory(target, work))
    if definition:
        definition = definition.replace(module.params["key_path"], write_key(module, work))
        write(with_directory(manager.definition_path, work), definition.encode() + b"\n")
    environment = {name: with_directory(value, work) for name, value in manager.environment.items()}
    run = partial(module.run_command, environ_update={"LC_ALL": "C", **environment}, expand_user_and_vars=False, handle_exceptions=False)
    packages = module.params["packages"]
    versions = query(manager, work, packages, run)
    require_version(versions, packages, module.params["version"])
    if not module.params["directory"] or module.check_mode:
        return {"changed": False, "versions": versions}
    os.mkdir(os.path.join(work, "packages"))
    download(manager, work, packages, module.params["version"], run)
    names = move_files(os.path.join(work, "packages"), module.params["directory"])
    return {"changed": bool(names), "versions": versions, "files": names}


def move_files(source, target):
    """Move all files below ``source`` to ``target`` and return their names. zypper puts packages into subfolders."""
    paths = [os.path.join(folder, name) for folder, _folders, names in os.walk(source) for name in names]
    for path in paths:
        shutil.move(path, os.path.join(target, os.path.basename(path)))
    return sorted(map(os.path.basename, paths))


def main():
    module = AnsibleModule(
        argument_spec={
            "manager": {"type": "str", "required": True, "choices": ["apt", "dnf", "zypper"]},
            "packages": {"type": "list", "elements": "str", "required": True},
            "version": {"type": "str", "required": True},
            "definition": {"type": "str", "default": ""},
            "key_path": {"type": "path"},
            "key_url": {"type": "str", "no_log": False},  # a password in the URL is masked below
            "key_content": {"type": "str", "no_log": False},
            "fingerprint": {"type": "str", "default": ""},
            "directory": {"type": "path"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    if module.params["definition"] and not (module.params["key_path"] and (module.params["key_url"] or module.params["key_content"])):
        module.fail_json(msg="definition is set without a key. Also set key_path, and key_url or key_content.")
    # Ansible returns the options too, and shows them with -vvv. The URL of a mirror can contain a password.
    module.definition, module.key_url = module.params["definition"], module.params["key_url"]
    module.params.update(definition=mask(module.definition), key_url=module.key_url and mask(module.key_url))
    work = tempfile.mkdtemp(prefix="gpu-swarm-packages-")
    try:
        if module.params["manager"] == "apt":
            os.chmod(work, 0o755)  # apt reads files as another user than root, who cannot enter Ansible's directories
        result = search(module, work)
    except GpuSwarmError as problem:
        module.fail_json(msg=mask(problem.message.replace(work, "")).rstrip("."), **problem.details)
    except OSError as problem:
        module.fail_json(msg="%s: %s" % (os.fsdecode(problem.filename or ""), problem.strerror), problem="file")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
