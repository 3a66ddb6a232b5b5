# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds a command that repeats this run. The user can paste the command. It shows no value that may be a secret.

Private to this collection; it may change without notice.
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

# Keys are the names in Ansible's record of its command line. A flag that asks for a password and the path of a password file are not secret.
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
SHOWN = (
    "provision_", "maintain_", "deprovision_", "verify_", "gpu_node_", "swarm_member_", "gpu_swarm_isolation", "gpu_swarm_dedicated",
    "gpu_swarm_devices", "gpu_swarm_queues",
)  # fmt: skip


class RerunCommand(NamedTuple):
    """The command to paste."""

    command: str
    hidden: list[str]  # the names of variables on the command line whose values are not shown


def rerun_command(options: Mapping[str, Any], defaults: Mapping[str, Any], hosts: Iterable[str] = ()) -> RerunCommand:
    """Return the command for ``hosts``. ``options`` is Ansible's record of the command line, ``defaults`` has the default of each option."""
    chosen = {key: value for key, value in options.items() if value != defaults.get(key)}
    words = [flag for key, flag in FLAGS.items() if chosen.get(key)]
    words += [word for key, option in VALUES.items() for value in _as_list(chosen.get(key)) for word in (option, str(value))]
    words += [f"--{key.replace('_', '-')}={mask(str(chosen[key]))}" for key in SSH if chosen.get(key)]
    words += [word for key, (option, separator) in JOINED.items() for word in _joined(option, separator, chosen.get(key))]
    shown, hidden = _variables(options.get("extra_vars") or ())
    names = [word for host in [",".join(hosts)] if host for word in ("--limit", host)]
    return RerunCommand(shlex.join(["ansible-playbook", *words, *options.get("args", ()), *shown, *names]), hidden)


def this_command(hosts: Iterable[str]) -> RerunCommand:
    """Return the command that repeats this run for ``hosts``."""
    return rerun_command(context.CLIARGS, {key: config.get_config_value(name) for key, name in CONFIG_NAMES.items()}, hosts)


def _as_list(value: Any) -> Sequence[Any]:
    if value in (None, "", False):
        return ()
    return value if isinstance(value, (list, tuple)) else [value]


def _joined(option: str, separator: str, value: Any) -> list[str]:
    """Return the option and its joined values. Ansible keeps tags unordered, and the tag 'all' if there are none."""
    items = [str(item) for item in _as_list(value)]
    items = items if separator == ":" else sorted(items)
    return [option, separator.join(items)] if items and items != ["all"] else []


def _variables(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the words for ``--extra-vars`` that may be shown, and the names of the variables that must not be shown."""
    words, hidden = [], []
    for text in map(str, texts):
        if text.startswith("@"):  # a file: it can be read again
            words += ["-e", text]
            continue
        for name, value in _parse_extra_vars(text):
            secret = not name.startswith(SHOWN) or mask(json.dumps(value, default=str)) != json.dumps(value, default=str)
            if secret:
                hidden.append(name)
            else:
                words += ["-e", _assignment(name, value)]
    return words, list(dict.fromkeys(hidden))


def _parse_extra_vars(text: str) -> list[tuple[str, Any]]:
    """Return the variables that an ``--extra-vars`` text sets; {} for an unreadable text, which Ansible has already refused."""
    try:
        variables = yaml_load(text) if text.lstrip()[:1] in ("{", "[") else parse_kv(text)
    except (AnsibleError, YAMLError):
        return []
    return [(str(name), value) for name, value in variables.items() if name != "_raw_params"] if isinstance(variables, Mapping) else []


def _assignment(name: str, value: Any) -> str:
    """Return NAME=VALUE for simple text, else JSON. Ansible reads NAME=VALUE as text that ends at a blank."""
    if isinstance(value, str) and value and not set(value) & set(" \t\n\"'\\{}"):
        return f"{name}={value}"
    return json.dumps({name: value}, ensure_ascii=False, default=str)
