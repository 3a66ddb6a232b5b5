# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prometheus' tool for metrics and rules: make promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROMTOOL = Path(__file__).resolve().parents[2] / "build" / "promtool"


def promtool(*words: str, text: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL.exists(), f"{PROMTOOL} is not there: make promtool"
    return subprocess.run([str(PROMTOOL), *words], input=text, cwd=cwd, capture_output=True, text=True, check=False)


def accepts(text: str) -> None:
    """Check that promtool accepts a file of metrics, without complaints about names and types."""
    done = promtool("check", "metrics", text=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
