# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts the files of docs/examples into the pages that show them."""

from __future__ import annotations

from pathlib import Path

from .blocks import fill

DOCS = Path(__file__).resolve().parents[2] / "docs"
# The pages, by their paths in docs/, and the files that they show.
SHOWN = {
    "run/vllm.md": ("examples/stacks/vllm.yml", "examples/stacks/vllm_two_gpus.yml"),
    "run/ollama.md": ("examples/stacks/ollama.yml",),
    "run/jupyterhub.md": ("examples/stacks/jupyterhub.yml",),
    "run/ffmpeg.md": ("examples/jobs/ffmpeg.yml",),
    "run/nightly.md": ("examples/jobs/nightly.yml", "examples/stacks/nightly_cron.yml"),
    "run/models.md": ("examples/jobs/download_model.yml", "examples/stacks/models_nfs.yml"),
    "run/registry.md": ("examples/stacks/registry.yml",),
}


def page(name: str) -> str:
    """Return the page with the current text of its files."""
    return fill((DOCS / name).read_text(encoding="utf-8"), {path: _block(path) for path in SHOWN[name]})


def _block(path: str) -> str:
    return f"```yaml\n{(DOCS / path).read_text(encoding='utf-8')}```\n"
