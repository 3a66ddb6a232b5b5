# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import binding


def _init():
    """Imitate NVML's init function in a binding that uses /lib/used.so."""


@pytest.fixture
def nvml(monkeypatch):
    home = ModuleType("pynvml_of_this_test")
    home.nvmlLib = SimpleNamespace(_name="/lib/used.so", _handle=1)
    monkeypatch.setitem(sys.modules, home.__name__, home)
    monkeypatch.setattr(_init, "__module__", home.__name__)
    return SimpleNamespace(nvmlInit=_init)


@pytest.mark.parametrize(("path", "loaded"), [("/lib/used.so", []), ("/lib/other.so", ["/lib/other.so"])])
def test_a_library_in_use_is_not_loaded_again(nvml, path, loaded, monkeypatch):
    """Loading a library creates a class of functions. This takes a twentieth of the time for reading eight GPUs."""
    calls = []
    monkeypatch.setattr(binding.ctypes, "CDLL", lambda name: calls.append(name) or SimpleNamespace(_name=name, _handle=2))
    binding.choose_library(nvml, path)
    assert calls == loaded
    assert sys.modules["pynvml_of_this_test"].nvmlLib._name == path
