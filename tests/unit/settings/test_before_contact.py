# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each playbook reports all errors in settings in one message, before it contacts a host. The hosts here cannot be contacted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
ANSIBLE = os.environ.get("ANSIBLE_PLAYBOOK") or str(Path(sys.executable).parent / "ansible-playbook")
# Each module that starts with this Python creates the file .called.
PYTHON = '#!/bin/sh\ntouch "$0.called"\nexit 1\n'


class Run(NamedTuple):
    rc: int
    failures: list[str]  # the messages of all failed tasks on all hosts
    contacted: bool


def run_playbook(folder: Path, playbook: str, extra: str, variables: dict[str, dict[str, Any]]) -> Run:
    """Run a playbook on a manager and three nodes. ``variables`` maps a host to its variables."""
    home = folder / "collections" / "ansible_collections" / "fleet"
    home.mkdir(parents=True)
    (home / "gpu_swarm").symlink_to(ROOT)
    python = folder / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    everywhere = {"ansible_connection": "local", "ansible_python_interpreter": str(python), "ansible_become": False}
    groups = {"swarm_managers": ["m1"], "gpu_nodes": ["g1", "g2", "g3"]}
    children = {group: {"hosts": {name: variables.get(name, {}) for name in names}} for group, names in groups.items()}
    (folder / "hosts.json").write_text(json.dumps({"all": {"vars": everywhere, "children": children}}))
    (folder / "policy.yml").write_text("gpu_node_advertise: [{as: gpu}]\n")
    environment = dict(
        os.environ,
        PWD=str(folder),
        ANSIBLE_COLLECTIONS_PATH=str(folder / "collections"),
        ANSIBLE_LOCAL_TEMP=str(folder / "local"),
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
    )
    command = [ANSIBLE, "-i", str(folder / "hosts.json"), f"fleet.gpu_swarm.{playbook}", "-e", extra]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=folder)
    assert "{" in done.stdout, done.stdout + done.stderr
    plays = json.loads(done.stdout[done.stdout.index("{") :])["plays"]
    answers = [answer for play in plays for task in play["tasks"] for answer in task["hosts"].values()]
    return Run(done.returncode, [answer["msg"] for answer in answers if answer.get("failed")], Path(f"{python}.called").exists())


# playbook -> (a command line with wrong arguments, texts that the message must contain about these arguments and about variables of hosts)
MISSPELT = "is not a variable of this playbook. Did you mean"
HOSTS = {
    "g1": {"gpu_node_isolation": "strict", "maintain_timeout": "soon"},
    "g2": {"gpu_node_isolation": "strict", "gpu_node_advertize": []},
    "g3": {"gpu_node_advertise": [{"as": "gpus"}], "gpu_node_accept_risks": ["all"], "gpu_swarm_devices": {"fuse": ["/dev/fuse", "/etc/passwd"]}},
}
OF_HOSTS = [
    "g1, g2: gpu_node_isolation is 'strict', but must be off, audit, reserved or exclusive.",
    "g1: maintain_timeout is 'soon', but must be a whole number of seconds, 1 or more.",
    "g2: gpu_node_advertize is not a setting. Write gpu_node_advertise,",
    "g3: gpu_node_advertise[0].as: 'gpus' is not known; use one of: ",
    "g3: gpu_node_accept_risks: 'all' cannot be accepted; use only: ",
    "g3: gpu_swarm_devices.fuse[1] is '/etc/passwd', but must be an absolute path below /dev, without",
]
WRONG = {
    "provision": ("gpu_swarm_isolation=strict provision_wait=soon", ["gpu_swarm_isolation is 'strict',", "provision_wait is 'soon',", *OF_HOSTS]),
    "maintain": ("provision_batc=2 provision_wait=soon", ["provision_batc is not a setting", "provision_wait is 'soon',", *OF_HOSTS]),
    "deprovision": ("deprovision_package=true", ["deprovision_package is not a setting. Write deprovision_packages,", *OF_HOSTS]),
    "verify": ("verify_timeout=soon verify_sampel=1", ["verify_timeout is 'soon',", "Write verify_sample,", *OF_HOSTS]),
    "status": ("servise=x what=fre", [f"servise {MISSPELT} service?", "what is 'fre', but must be all, free,"]),
    "status -e plan": ("plan=policy.yml owner_lable=x what=fre", [f"owner_lable {MISSPELT} owner_label?", "what is 'fre',", *OF_HOSTS[:3]]),
    "deploy": ("stak=x stat=absent gpu_stack_prun=yes", [f"stak {MISSPELT} stack?", f"stat {MISSPELT} state?", "Write gpu_stack_prune,"]),
    "preflight": ("stak=x legder=y gpu_stack_prun=yes", [f"legder {MISSPELT} ledger?", f"stak {MISSPELT} stack?", "Write gpu_stack_prune,"]),
    "job": ("jobb=x wait=perhaps", [f"jobb {MISSPELT} job?", "wait is 'perhaps', but must be true or false."]),
    "prune_jobs": ("older-than=7d timer=maybe", [f"older-than {MISSPELT} older_than?", "timer is 'maybe', but must be true or false."]),
    "bundle": ("bundel=/tmp/x python=three", [f"bundel {MISSPELT} bundle?", "python is 'three', but must be a version such as 3.12."]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_one_message_has_all_errors_before_a_host_is_contacted(case: str, tmp_path: Path) -> None:
    extra, texts = WRONG[case]
    run = run_playbook(tmp_path, case.split()[0], extra, HOSTS if texts[-1] in OF_HOSTS else {})
    assert (run.rc, len(run.failures), run.contacted) == (2, 1, False), run
    assert [text for text in texts if text not in run.failures[0]] == []
    assert run.failures[0].endswith(" Nothing was changed.")


def test_valid_settings_are_followed_by_a_contact(tmp_path: Path) -> None:
    """This shows that the test above would notice a contact. Variables of the user and of AWX are not errors."""
    run = run_playbook(tmp_path, "status", "service=x stage=prod region=eu awx_job_id=7 tower_job=8 ansible_wait=9", {})
    assert run.contacted
    assert not any("variable of this playbook" in text for text in run.failures)
