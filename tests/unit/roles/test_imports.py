# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
BY_HOST = re.compile(r"\b(\w+_)\{\{[^}]+\}\}\.yml")


def test_a_file_included_by_a_host_variable_imports_nothing():
    """ansible-core 2.16 resolves an import before it knows the host's variables. The include then fails, and the whole run ends."""
    files = [*ROOT.glob("roles/*/tasks/**/*.yml"), *ROOT.glob("playbooks/tasks/**/*.yml")]
    included = {other for path in files for prefix in BY_HOST.findall(path.read_text()) for other in path.parent.glob(f"{prefix}*.yml")}
    included.add(ROOT / "roles/nvidia_container_toolkit/tasks/remove_rpm.yml")  # a variable of the distribution includes this file
    assert {"install_apt.yml", "install_zypper.yml", "install_dnf.yml", "remove_dnf.yml"} <= {path.name for path in included}
    assert sorted(path.name for path in included if ".import_tasks:" in path.read_text()) == []
