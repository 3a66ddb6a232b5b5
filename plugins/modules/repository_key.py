#!/usr/bin/python
# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: repository_key
short_description: Installs the key that signs a repository, if it is the expected one
version_added: 0.2.0
description:
  - Compares the fingerprint of an OpenPGP key with the expected one before the key is where a package manager trusts it. Every key in the
    file has to be that one; its subkeys are its own affair. A file with anything besides keys, such as text around the armor, is refused.
  - What is installed is written anew from what was compared, not the fetched bytes.
  - Where the right key is installed already, nothing is fetched. Needs no gpg.
options:
  path:
    description: Where the key is to lie on the node. It is armored if this ends in C(.asc), binary if in C(.gpg), and else as it came.
    type: path
    required: true
  url:
    description: Where the node fetches the key.
    type: str
  src:
    description: A file on the node with the key, which is removed.
    type: path
  fingerprint:
    description:
      - The key's fingerprint, 40 or 64 hexadecimal digits, blanks and colons aside.
      - If it is empty, any key is taken, but none over O(url) with C(http), nor where C(https) redirects to that.
    type: str
    required: true
  timeout:
    description: For so many seconds the server may be silent.
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
  description: Of what kind the problem is, V(url) if the key could not be fetched, V(fingerprint) if it is another one or none.
  returned: failure
  type: str
"""

import os
import tempfile
from urllib.parse import urljoin

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

from ..module_utils._errors import GpuSwarmError
from ..module_utils._mask import mask
from ..module_utils._openpgp import encoded, normalized, parsed

LIMIT = 1 << 20  # bytes; a key has a few thousand
HOPS = 10  # as urllib
REDIRECTIONS = (301, 302, 303, 307, 308)


def read(path):
    try:
        with open(path, "rb") as key:
            return key.read(LIMIT + 1)
    except FileNotFoundError:
        return None


def fetch(module, url):
    """The key's bytes, from where it is to come."""
    if not url:
        return read(module.params["src"])
    response, info = fetched(module, url) if module.params["fingerprint"] else fetched_encrypted(module, url)
    if info["status"] != 200:
        raise GpuSwarmError("cannot fetch the repository's key from %s: %s" % (url, info["msg"]), problem="url")
    return response.read(LIMIT + 1)


def fetched(module, url):
    return fetch_url(module, url, timeout=module.params["timeout"])


def fetched_encrypted(module, url):
    """As fetched(), but each URL on the way is judged: whoever can change one answer of a redirection names the next URL."""
    module.params["follow_redirects"] = "none"  # of fetch_url
    for _hop in range(HOPS):
        if not url.lower().startswith("https:"):
            text = "%s is read without encryption, so that anybody on the way could replace the key. Set its fingerprint, or use https."
            raise GpuSwarmError(text % url, problem="fingerprint")
        response, info = fetched(module, url)
        if info["status"] not in REDIRECTIONS or not info.get("location"):
            break
        url = urljoin(url, info["location"])
    return response, info


def checked(data, wanted, source):
    """The keys in a file. Raises GpuSwarmError unless all are the one that is wanted."""
    try:
        if len(data or b"") > LIMIT:
            raise GpuSwarmError("it is longer than %d bytes" % LIMIT)
        keys = parsed(data or b"")
    except GpuSwarmError as problem:
        raise GpuSwarmError("%s is not taken for the repository's key: %s" % (source, problem.message), problem="fingerprint") from problem
    if wanted and set(keys.fingerprints) != {wanted}:
        text = "%s is not taken for the repository's key: its fingerprint is %s, and not %s"
        raise GpuSwarmError(text % (source, ", ".join(keys.fingerprints), wanted), problem="fingerprint")
    return keys


def is_armored(path, keys):
    """Whether a file there has to be: apt goes by the ending, and ignores what is otherwise."""
    return {".asc": True, ".gpg": False}.get(os.path.splitext(path)[1], keys.armored)


def installed(path, wanted):
    """The keys that are there, whoever put them there and however he broke their lines; None where they are not as they have to be."""
    try:
        keys = checked(read(path), wanted, path)
    except GpuSwarmError:
        return None
    return keys if keys.armored == is_armored(path, keys) else None


def install(module, data):
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(temporary, 0o644)  # apt reads it as a user of its own
    module.atomic_move(temporary, module.params["path"])


def converge(module, url):
    path, src = module.params["path"], module.params["src"]
    wanted = normalized(module.params["fingerprint"])
    if module.params["fingerprint"] and not wanted:
        text = "%r is no fingerprint of a key: that has 40 hexadecimal digits"
        raise GpuSwarmError(text % module.params["fingerprint"], problem="fingerprint")
    there = installed(path, wanted)
    if wanted and there and not src:
        return {"changed": False, "fingerprints": there.fingerprints}
    keys = checked(fetch(module, url), wanted, url or src)
    changed = there is None or there.blocks != keys.blocks
    if changed and not module.check_mode:
        install(module, encoded(keys, is_armored(path, keys)))
    return {"changed": changed, "fingerprints": keys.fingerprints}


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "url": {"type": "str"},
            "src": {"type": "path"},
            "fingerprint": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 30},
        },
        mutually_exclusive=[("url", "src")],
        required_one_of=[("url", "src")],
        supports_check_mode=True,
    )
    url = module.params["url"]
    module.params["url"] = url and mask(url)  # what was given is returned too, and shown with -vvv
    try:
        result = converge(module, url)
    except GpuSwarmError as problem:
        module.fail_json(msg=mask(problem.message), **problem.details)
    except OSError as problem:
        module.fail_json(msg="%s: %s" % (problem.filename, problem.strerror), problem="file")
    finally:
        if module.params["src"] and not module.check_mode and os.path.exists(module.params["src"]):
            os.remove(module.params["src"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
