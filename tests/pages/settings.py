# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/reference/settings.md from the declarations of the playbooks and roles, and the headers of the playbooks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from plugins.plugin_utils._settings import declaration, roles, validation

from .blocks import table

DOCS = Path(__file__).resolve().parents[2] / "docs"
HEAD = """\
<!-- Made by `python -m tests.pages` from plugins/plugin_utils/_settings/declaration.py and roles/*/meta/argument_specs.yml; edit those. -->
# Settings

Every variable that the playbooks and roles read. Set them where Ansible finds variables: in `group_vars`, in `host_vars`, at an
`import_playbook`, or with `-e`.

- Settings of **the whole run** must be identical on all hosts, also on managers. Set them in `group_vars/all.yml` or with `-e`.
  Different values are an error.
- A wrong value, or a misspelt name such as `provison_batch`, is an error before any host is contacted. One message lists
  all errors of all hosts: the hosts, the variable, its value, and what to write instead.
- The same holds for the short names after `-e`: `-e servise=train` gets the answer *Did you mean service?* You can use variables of your own. But if
  a name is one letter away from a short name, and no template of your inventory uses it, you must rename it.
- The playbooks read all settings once, when they plan. Facts that a host returns later do not change them.
"""
COLUMNS = ("setting", "value", "default", "of", "what it means")
ROLES = (*roles.ROLES, "verify", "gpu_stack")


def page() -> str:
    titles = [("The playbooks", declaration.PLAYBOOKS), *((f"The role {role}", roles.settings_of_roles([role])) for role in ROLES)]
    return "\n".join([HEAD, *(f"## {title}\n\n" + table(COLUMNS, map(_row, settings)) for title, settings in titles)])


def in_header(setting: Any) -> str:
    """Return the line about a setting in the header of a playbook."""
    unit = setting.unit.removesuffix("s") if setting.default == 1 else setting.unit
    default = "" if setting.default in (None, "") else f" ({f'{_plain(setting.default)} {unit}'.rstrip()})"
    sentence = markdown(setting.meaning).split(". ")[0].rstrip(".")
    return f"#   {setting.name}{default}: {sentence.replace('`', '')}"


def markdown(text: str) -> str:
    """Turn Ansible's markup for code, modules, options and values into Markdown, and names of pages into links with the headings of the pages."""
    text = re.sub(r"\b[BCEIMOPV]\(([^()#]*)(?:#[^()]*)?\)", r"`\1`", text)
    return re.sub(r"`?docs/([\w/-]+\.md)`?", lambda found: f"[{_heading(found[1])}](../{found[1]})", text)


def _heading(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _row(setting: Any) -> tuple[str, ...]:
    default = "not set" if setting.default is None else f"`{_plain(setting.default)}`" if setting.default != "" else "empty"
    meaning = f"{setting.meaning[0].upper()}{setting.meaning[1:].rstrip('.')}. {setting.details}".rstrip()
    counts = "the whole swarm" if setting.swarm else "the whole run" if setting.once else "each host"
    return f"`{setting.name}`", validation.describe_values(setting), default, counts, markdown(meaning)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else json.dumps(value)
