# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx's settings for the documentation site. tests/site/__main__.py makes the source tree."""

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))

project = f"{GALAXY['namespace']}.{GALAXY['name']}"
version = release = GALAXY["version"]
language = "en"

extensions = ["myst_parser", "sphinx.ext.intersphinx", "sphinx_antsibull_ext", "sphinx_copybutton"]
root_doc = "index"
antsibull_ext_color_scheme = "none"  # site.css has a style that follows the theme
nitpicky = True
myst_heading_anchors = 6
# The labels of Ansible's documentation, from a file: a build needs no network.
intersphinx_mapping = {"ansible": ("https://docs.ansible.com/ansible/latest/", str(ROOT / "build" / "docs" / "objects.inv"))}

html_theme = "furo"
html_title = f"{project} {release}"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_last_updated_fmt = None

copybutton_prompt_text = r"[$#] "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
