# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the action plugin with real Ansible over a local connection, with a Python that has only its standard library."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import nvml_lab
import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls import libraries


def names(bundle):
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(bundle))) as archive:
        assert archive.testzip() is None
        return sorted(archive.namelist())


def test_a_bundle_has_the_missing_libraries_and_is_the_same_each_time():
    assert names(libraries.pack(["nvml_binding"])) == ["pynvml.py"]
    both = names(libraries.pack(["toml_parser", "nvml_binding"]))
    assert both[0] == "pynvml.py"
    assert {"tomli/__init__.py", "tomli/_parser.py"} < set(both)
    assert all(name.endswith(".py") for name in both)
    assert libraries.pack(["nvml_binding"]) == libraries.pack(["nvml_binding"])


@pytest.mark.parametrize("hidden", [None, "tomli"])
def test_the_toml_parser_of_the_bundle_works_in_a_bare_python(tmp_path, monkeypatch, hidden):
    find = libraries.importlib.util.find_spec
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None if name == hidden else find(name))
    bundle = tmp_path / "b.zip"
    bundle.write_bytes(base64.b64decode(libraries.pack(["toml_parser"])))
    code = "_libraries.add_to_path(sys.argv[1], '/nonexistent'); import tomli; print(json.dumps([tomli.loads('a = 1'), tomli.__file__]))"
    parsed, where = nvml_lab.bare_python(code, str(bundle))
    assert parsed == {"a": 1}
    assert where.startswith(str(bundle))


def test_libraries_that_the_controller_lacks_are_not_sent_with_the_first_call(monkeypatch):
    assert libraries.available_libraries(["nvml_binding"]) == ["nvml_binding"]
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda _name: None)
    assert libraries.available_libraries(["nvml_binding"]) == []


def test_a_controller_without_the_libraries_says_what_to_install(monkeypatch):
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(libraries.sysconfig, "get_path", lambda name: "/nonexistent")
    with pytest.raises(AnsibleActionFail, match="pip install nvidia-ml-py"):
        libraries.pack(["nvml_binding"])
    with pytest.raises(AnsibleActionFail, match="pip install tomli"):
        libraries.pack(["toml_parser"])


def test_an_old_package_of_that_name_is_recognised(monkeypatch, tmp_path):
    old = tmp_path / "pynvml"
    old.mkdir()
    (old / "__init__.py").touch()
    spec = libraries.importlib.util.spec_from_file_location("pynvml", old / "__init__.py")
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(AnsibleActionFail, match="old package"):
        libraries.pack(["nvml_binding"])


def failed(*missing):
    return {"failed": True, "missing": list(missing)}


def bundle(args):
    """Return the libraries that are sent with a call."""
    text = args.get("libraries")
    return sorted({name.split("/")[0] for name in names(text)}) if text else None


DONE = {"changed": True, "missing": ["nvml_binding"]}


@pytest.mark.parametrize(
    ("args", "answers", "sent"),
    [
        ({}, [DONE], []),  # the module did its work, so the action does not call the module again
        ({}, [failed("nvml_binding"), DONE], [["pynvml.py"]]),
        ({}, [failed("toolkit", "nvml_binding"), DONE], [["pynvml.py"]]),
        ({}, [failed("nvml_binding"), failed("toml_parser"), DONE], [["pynvml.py"], ["pynvml.py", "tomli"]]),
        ({}, [failed("nvml_binding", "toml_parser"), DONE], [["pynvml.py", "tomli"]]),
        ({}, [failed("nvml_binding"), failed("nvml_binding")], [["pynvml.py"]]),
        ({}, [failed("toolkit")], []),
        ({}, [{"failed": True, "msg": "no GPU"}], []),
        ({"library_path": "/opt/lib"}, [failed("nvml_binding")], []),
    ],
)
def test_a_missing_library_is_sent_with_a_second_call(args, answers, sent):
    runs = []

    def run(given):
        runs.append(given)
        return answers[len(runs) - 1]

    assert libraries.carry(run, args) == answers[-1]
    assert [bundle(given) for given in runs] == [None, *sent]
    assert len(runs) == len(answers)


@pytest.mark.parametrize(
    ("args", "answers", "sent"),
    [
        ({}, [DONE], [["pynvml.py"]]),
        ({}, [failed("nvml_binding")], [["pynvml.py"]]),  # the same libraries are not sent twice
        ({}, [failed("toml_parser"), DONE], [["pynvml.py"], ["pynvml.py", "tomli"]]),
        ({"library_path": "/opt/lib"}, [failed("nvml_binding")], []),
    ],
)
def test_libraries_that_are_known_to_be_missing_are_sent_with_the_first_call(args, answers, sent):
    runs, left = [], list(answers)

    def run(given):
        runs.append(given)
        return left.pop(0)

    assert libraries.carry(run, args, ["nvml_binding"]) == answers[-1]
    assert [bundle(given) for given in runs] == (sent or [None])
    assert left == []


@pytest.mark.parametrize(
    ("assessed", "lacking"),
    [
        (None, []),
        ({}, []),
        ({"missing": []}, []),
        ({"missing": ["toolkit", "nvml_binding"]}, ["nvml_binding"]),
        ({"missing": ["toml_parser"]}, ["toml_parser"]),
        ({"unreachable": True}, []),
    ],
)
def test_the_assessment_says_which_libraries_are_missing(assessed, lacking):
    assert libraries.missing_libraries({} if assessed is None else {"gpu_node_assessed": assessed}) == lacking


# -- real runs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def ansible(tmp_path):
    """Run gpu_info on localhost. Returns the result and the files in the remote temporary folder."""
    home = tmp_path / "collections" / "ansible_collections" / "fleet"
    home.mkdir(parents=True)
    (home / "gpu_swarm").symlink_to(nvml_lab.ROOT)
    remote = tmp_path / "remote"

    def run(interpreter, *more, library=None, pipelining="True", fleet="t4x4"):
        environment = dict(
            os.environ,
            ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
            ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
            ANSIBLE_REMOTE_TEMP=str(remote),
            ANSIBLE_PIPELINING=pipelining,
            ANSIBLE_LOAD_CALLBACK_PLUGINS="True",
            ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
            ANSIBLE_INJECT_INVOCATION="True",  # from ansible-core 2.21 on, a result contains the arguments only on request
            GPU_LAB_NVML=nvml_lab.fleet(fleet),
        )
        command = [
            str(Path(sys.executable).parent / "ansible"),
            *("localhost", "--connection", "local", "--module-name", "fleet.gpu_swarm.gpu_info"),
            *("--args", f"nvml_path={library or nvml_lab.library()}"),
            *("--extra-vars", f"ansible_python_interpreter={interpreter}"),
            *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.stdout.lstrip().startswith("{"), done.stdout + done.stderr
        answer = json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"]["localhost"]
        left = [path.name for path in remote.glob("**/*") if path.is_file()] if remote.exists() else []
        return answer, left

    return run


@pytest.mark.parametrize(("more", "pipelining"), [((), "True"), ((), "False"), (("--check",), "True")])
def test_a_bare_node_is_read_and_nothing_remains_on_it(ansible, tmp_path, more, pipelining):
    answer, left = ansible(nvml_lab.bare_interpreter(tmp_path), *more, pipelining=pipelining)
    assert len(answer["gpus"]) == 4
    assert answer["changed"] is False
    assert answer["invocation"]["module_args"]["libraries"].startswith("VALUE_SPECIFIED_IN_NO_LOG")
    assert left == []


def test_a_node_with_the_binding_gets_nothing(ansible):
    answer, left = ansible(sys.executable)
    assert len(answer["gpus"]) == 4
    assert answer["invocation"]["module_args"]["libraries"] is None
    assert left == []


def test_the_module_s_warnings_are_passed_on(ansible, tmp_path):
    answer, left = ansible(nvml_lab.bare_interpreter(tmp_path), fleet="mismatch")
    assert answer["failed"] is True
    assert "Reboot the node" in answer["msg"]
    assert "missing" not in answer
    assert left == []
