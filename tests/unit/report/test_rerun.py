# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex

import pytest
from ansible.cli.playbook import PlaybookCLI
from ansible.constants import config
from ansible.parsing.splitter import parse_kv

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report.rerun import CONFIG_NAMES, rerun_command

DEFAULTS = {"forks": 5, "become_method": "sudo", "private_key_file": None, "remote_user": None, "diff": False}
GIVEN = dict(DEFAULTS, inventory=("i.yml",), args=("fleet.gpu_swarm.provision",), extra_vars=())


def said(**given):
    return rerun_command(dict(GIVEN, **given), DEFAULTS, ["g1", "g2"])


def test_the_command_is_repeated_as_typed():
    assert said() == ("ansible-playbook -i i.yml fleet.gpu_swarm.provision --limit g1,g2", [])
    options = dict(inventory=("a b/i.yml", "h,"), become_ask_pass=True, remote_user="root", forks=50, vault_ids=("prod@ask",), subset="gpu_nodes")
    words = shlex.split(said(**options).command)
    assert words[:-3] == ["ansible-playbook", "-K", "-i", "a b/i.yml", "-i", "h,", "-u", "root", "-f", "50", "--vault-id", "prod@ask"]


def test_options_of_connections_and_tasks_are_repeated():
    """The options have the form in which Ansible stores them after it has parsed its command line."""
    words = ["-c", "paramiko", "-T", "30", "--ssh-common-args=-o ProxyJump=bastion -o 'User=a b'", "--ssh-extra-args=-R 1", "--scp-extra-args=-l 9"]
    words += ["--sftp-extra-args=-f", "-M", "/opt/modules:/srv/modules", "--tags", "always,gpu", "--skip-tags", "motd,slow"]
    assert read_again(*words) == ["ansible-playbook", *words, "x.yml"]
    assert read_again("--tags", "gpu", "-t", "always")[1:3] == ["--tags", "always,gpu"]


def test_nothing_else_is_added():
    assert read_again() == ["ansible-playbook", "x.yml"]


def test_no_password_of_a_proxy_is_shown():
    assert read_again("--ssh-common-args=-o X=http://svc:s3cret@proxy")[1] == "--ssh-common-args=-o X=http://svc:***@proxy"


def read_again(*words):
    cli = PlaybookCLI(["ansible-playbook", *words, "x.yml"])
    cli.init_parser()
    given = vars(cli.post_process_args(cli.parser.parse_args([*words, "x.yml"])))
    defaults = {key: config.get_config_value(name) for key, name in CONFIG_NAMES.items()}
    return shlex.split(rerun_command(dict(given, inventory=None), defaults).command)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("provision_wait=5", ["provision_wait=5"]),
        ("provision_wait=5 provision_disrupt=all", ["provision_wait=5", "provision_disrupt=all"]),
        ('{"provision_batch": [1, "25%"]}', ['{"provision_batch": [1, "25%"]}']),
        ("{gpu_node_expect: 7}", ['{"gpu_node_expect": 7}']),
        ('maintain_tasks="my tasks.yml"', ['{"maintain_tasks": "my tasks.yml"}']),
        ("@settings.yml", ["@settings.yml"]),
    ],
)
def test_settings_are_shown_in_a_form_to_paste(text, shown):
    command, others = said(extra_vars=(text,))
    words = shlex.split(command)
    assert [words[at + 1] for at, word in enumerate(words) if word == "-e"] == shown
    assert others == []
    for one in shown:
        if "=" in one:
            assert parse_kv(one)


@pytest.mark.parametrize(
    "text",
    [
        "ansible_become_password=s3cret provision_wait=5",
        '{"token": "s3cret", "provision_wait": "5"}',
        "swarm_member_docker_sdk_package=http://user:s3cret@mirror/x provision_wait=5",
    ],
)
def test_possible_secrets_are_only_named(text):
    command, others = said(extra_vars=(text,))
    assert "s3cret" not in command
    assert "-e provision_wait=5" in command
    assert len(others) == 1


@pytest.mark.parametrize("text", ["", "{", "[1]", "nothing", '"'])
def test_unreadable_settings_are_skipped(text):
    assert said(extra_vars=(text,)) == said()
