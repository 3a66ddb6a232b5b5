# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds a command that repeats this run. It can be pasted and shows no value that may be a secret.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible import context
from ansible.constants import config
from ansible.errors import AnsibleError
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.splitter import parse_kv
from yaml import YAMLError

from ...module_utils._mask import mask

# Keys are the names in Ansible's record of its command line. A flag that asks for a password is no secret, nor is the path of a password file.
FLAGS = {"ask_pass": "-k", "become_ask_pass": "-K", "ask_vault_pass": "-J", "become": "-b", "diff": "-D"}
VALUES = {
    "inventory": "-i", "remote_user": "-u", "private_key_file": "--private-key", "forks": "-f", "become_user": "--become-user",
    "become_method": "--become-method", "connection_password_file": "--connection-password-file", "become_password_file": "--become-password-file",
    "vault_ids": "--vault-id", "vault_password_files": "--vault-password-file", "connection": "-c", "timeout": "-T",
}  # fmt: skip
# The values of these options begin with a dash, so option and value must be one word.
SSH = ("ssh_common_args", "ssh_extra_args", "scp_extra_args", "sftp_extra_args")
# Several values of these options are joined into one word.
JOINED = {"module_path": ("-M", ":"), "tags": ("--tags", ","), "skip_tags": ("--skip-tags", ",")}
# The default of each option, by its name in Ansible's configuration.
CONFIG_NAMES = {
    "forks": "DEFAULT_FORKS", "remote_user": "DEFAULT_REMOTE_USER", "private_key_file": "DEFAULT_PRIVATE_KEY_FILE", "become": "DEFAULT_BECOME",
    "become_method": "DEFAULT_BECOME_METHOD", "diff": "DIFF_ALWAYS", "ask_pass": "DEFAULT_ASK_PASS", "become_ask_pass": "DEFAULT_BECOME_ASK_PASS",
    "ask_vault_pass": "DEFAULT_ASK_VAULT_PASS", "become_password_file": "BECOME_PASSWORD_FILE", "connection": "DEFAULT_TRANSPORT",
    "timeout": "DEFAULT_TIMEOUT", "vault_ids": "DEFAULT_VAULT_IDENTITY_LIST",
    "connection_password_file": "CONNECTION_PASSWORD_FILE",
}  # fmt: skip
# Variables with these prefixes are no secrets. The values of other variables are not shown.
SHOWN = ("provision_", "maintain_", "deprovision_", "verify_", "gpu_node_", "swarm_member_", "gpu_swarm_isolation", "gpu_swarm_dedicated")


class Again(NamedTuple):
    command: str
    others: list[str]  # the names of further variables on the command line


def rerun_command(options: Mapping[str, Any], defaults: Mapping[str, Any], hosts: Iterable[str] = ()) -> Again:
    """Return the command for ``hosts``. ``options`` is Ansible's record of the command line, ``defaults`` has the default of each option."""
    chosen = {key: value for key, value in options.items() if value != defaults.get(key)}
    words = [flag for key, flag in FLAGS.items() if chosen.get(key)]
    words += [word for key, option in VALUES.items() for value in _as_list(chosen.get(key)) for word in (option, str(value))]
    words += [f"--{key.replace('_', '-')}={mask(str(chosen[key]))}" for key in SSH if chosen.get(key)]
    words += [word for key, (option, between) in JOINED.items() for word in _joined(option, between, chosen.get(key))]
    shown, others = _variables(options.get("extra_vars") or ())
    names = [word for host in [",".join(hosts)] if host for word in ("--limit", host)]
    return Again(shlex.join(["ansible-playbook", *words, *options.get("args", ()), *shown, *names]), others)


def this_command(hosts: Iterable[str]) -> Again:
    """Return the command that repeats this run for ``hosts``."""
    return rerun_command(context.CLIARGS, {key: config.get_config_value(name) for key, name in CONFIG_NAMES.items()}, hosts)


def _as_list(value: Any) -> Sequence[Any]:
    if value in (None, "", False):
        return ()
    return value if isinstance(value, (list, tuple)) else [value]


def _joined(option: str, between: str, value: Any) -> list[str]:
    """Return the option and its joined values. Ansible keeps tags unordered, and the tag 'all' if there are none."""
    many = [str(one) for one in _as_list(value)]
    many = many if between == ":" else sorted(many)
    return [option, between.join(many)] if many and many != ["all"] else []


def _variables(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words for ``--extra-vars`` that may be shown, and the names of the variables that may not."""
    words, others = [], []
    for text in map(str, texts):
        if text.startswith("@"):  # a file: it can be read again
            words += ["-e", text]
            continue
        for name, value in _parse_extra_vars(text):
            secret = not name.startswith(SHOWN) or mask(json.dumps(value, default=str)) != json.dumps(value, default=str)
            if secret:
                others.append(name)
            else:
                words += ["-e", _assignment(name, value)]
    return words, list(dict.fromkeys(others))


def _parse_extra_vars(text: str) -> list[tuple[str, Any]]:
    """The variables that an ``--extra-vars`` text sets. An unreadable text has none; Ansible has already refused it."""
    try:
        found = yaml_load(text) if text.lstrip()[:1] in ("{", "[") else parse_kv(text)
    except (AnsibleError, YAMLError):
        return []
    return [(str(name), value) for name, value in found.items() if name != "_raw_params"] if isinstance(found, Mapping) else []


def _assignment(name: str, value: Any) -> str:
    """Return NAME=VALUE for simple text, else JSON. Ansible reads NAME=VALUE as text that ends at a blank."""
    if isinstance(value, str) and value and not set(value) & set(" \t\n\"'\\{}"):
        return f"{name}={value}"
    return json.dumps({name: value}, ensure_ascii=False, default=str)
