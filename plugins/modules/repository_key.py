#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_key
short_description: Installs the key that signs a repository, if it is the expected key
version_added: 0.2.0
description:
  - Compares the fingerprint of an OpenPGP key with the expected fingerprint before a package manager can trust the key. All keys in the
    file must be the expected key. It may have any subkeys. A file with other content, such as text around the armor, is refused.
  - A file with a subkey that its key has not signed is refused, because the fingerprint does not cover subkeys. RSA and Ed25519 signatures are
    supported.
  - The module generates the installed file from the checked keys. It does not copy the fetched bytes.
  - If the right key is already installed, the module fetches nothing. It does not need gpg.
  - The directory of O(path) is created if it is missing.
options:
  path:
    description:
      - The path of the key on the node. The file is armored if the path ends in C(.asc), and binary if it ends in C(.gpg). Otherwise it has the
        form of the source, unless O(armored) is set.
    type: path
    required: true
  armored:
    description: Whether the file is armored, regardless of O(path). C(rpm --import) requires an armored file.
    type: bool
    default: false
    version_added: 0.3.0
  url:
    description: The URL that the node fetches the key from.
    type: str
  src:
    description: A file on the node with the key. The module removes it.
    type: path
  content:
    description: The key itself, encoded in base64.
    type: str
    version_added: 0.3.0
  fingerprint:
    description:
      - The key's fingerprint, 40 or 64 hexadecimal digits. Blanks and colons are ignored.
      - If the fingerprint is empty, the module accepts any key, except from an O(url) that starts with C(http://) or redirects to C(http).
    type: str
    required: true
  timeout:
    description: How many seconds the server may take to answer.
    type: int
    default: 30
extends_documentation_fragment:
  - fleet.gpu_swarm.attributes
  - fleet.gpu_swarm.attributes.no_diff
author:
  - The fleet.gpu_swarm authors (@fleet)
"""

EXAMPLES = r"""
- name: NVIDIA's key
  fleet.gpu_swarm.repository_key:
    path: /usr/share/keyrings/nvidia-container-toolkit-keyring.asc
    url: https://nvidia.github.io/libnvidia-container/gpgkey
    fingerprint: C95B321B61E88C1809C4F759DDCAE044F796ECB0
"""

RETURN = r"""
fingerprints:
  description: The fingerprints of the keys in the file.
  returned: success
  type: list
  elements: str
  sample: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
problem:
  description: The type of problem. V(url) means that the key could not be fetched. V(fingerprint) means that the content is another key or no key.
  returned: failure
  type: str
"""

import base64
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import _zip_import  # noqa: F401  # pylint: disable=unused-import  # imported for its side effect
from ..module_utils._errors import GpuSwarmError
from ..module_utils._files import make_directory
from ..module_utils._machine.signing_key import check_key, encode_for, fetch_key, read_file, read_installed, required_fingerprint
from ..module_utils._mask import mask


def install(module, data):
    make_directory(os.path.dirname(os.path.abspath(module.params["path"])))
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(temporary, 0o644)  # apt reads the key as another user than root
    module.atomic_move(temporary, module.params["path"])


def converge(module, url):
    path, src, content, armored = (module.params[name] for name in ("path", "src", "content", "armored"))
    wanted = required_fingerprint(module.params["fingerprint"])
    installed = read_installed(path, wanted, armored)
    if wanted and installed and url:
        return {"changed": False, "fingerprints": installed.fingerprints}
    if content:
        keys = check_key(base64.b64decode(content), wanted, "the key from the controller")
    else:
        keys = check_key(fetch_key(module, url) if url else read_file(src), wanted, url or src)
    changed = installed is None or installed.blocks != keys.blocks
    if changed and not module.check_mode:
        install(module, encode_for(path, keys, armored))
    return {"changed": changed, "fingerprints": keys.fingerprints}


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "armored": {"type": "bool", "default": False},
            "url": {"type": "str"},
            "src": {"type": "path"},
            "content": {"type": "str", "no_log": False},  # a public key
            "fingerprint": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 30},
        },
        mutually_exclusive=[("url", "src", "content")],
        required_one_of=[("url", "src", "content")],
        supports_check_mode=True,
    )
    url = module.params["url"]
    module.params["url"] = url and mask(url)  # Ansible returns the options too, and shows them with -vvv
    try:
        result = converge(module, url)
    except GpuSwarmError as problem:
        module.fail_json(msg=mask(problem.message), **problem.details)
    except OSError as problem:
        module.fail_json(msg="%s: %s" % (problem.filename, problem.strerror), problem="file")
    except ValueError as problem:
        module.fail_json(msg="content is not valid base64: %s. Encode the key in base64." % problem, problem="fingerprint")
    finally:
        if module.params["src"] and not module.check_mode and os.path.exists(module.params["src"]):
            os.remove(module.params["src"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
