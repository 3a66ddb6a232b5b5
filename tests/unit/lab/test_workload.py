# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that stands for the images of recipes finds what is missing, drains after SIGTERM, and starts a notebook for each person."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from docker_daemon import Daemon

from tests.lab.workload import workload
from tests.lab.workload.workload import Need

PROGRAM = Path(workload.__file__)
STACKS = Path(__file__).parents[3] / "docs/examples/stacks"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A container's file system with two GPUs."""
    for folder in ("dev/shm", "data", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    smi = tmp_path / "bin/nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: Tesla T4 (UUID: GPU-0)'; echo 'GPU 1: Tesla T4 (UUID: GPU-1)'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    return tmp_path


@pytest.mark.parametrize(
    ("need", "missing"),
    [
        (Need(), ""),
        (Need(gpus=2, writes=("/data",)), ""),
        (Need(gpus=1), "sees 2 GPUs and needs 1"),
        (Need(gpus=0), "sees 2 GPUs and needs 0"),
        (Need(shared_memory=1), ""),
        (Need(shared_memory=2**62), "/dev/shm has "),
        (Need(capabilities=("compute", "utility")), ""),
        (Need(capabilities=("utility", "video")), "NVIDIA_DRIVER_CAPABILITIES is 'compute,utility', and needs utility,video"),
        (Need(variables=("KEY",)), ""),
        (Need(variables=("KEY", "EMPTY", "NONE")), "the variable EMPTY is not set; the variable NONE is not set"),
        (Need(files=("/bin", "/bin/nvidia-smi")), ""),
        (Need(files=("/data", "/none")), "/data is missing or empty; /none is missing or empty"),
        (Need(writes=("/none",)), "/none is not writable"),
    ],
)
def test_a_missing_thing_is_named(root: Path, need: Need, missing: str) -> None:
    found = "; ".join(workload.wrong(need, {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility", "KEY": "x", "EMPTY": ""}, str(root)))
    assert found.startswith(missing)
    assert bool(found) is bool(missing)


def test_a_container_without_a_gpu_has_no_nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert workload.wrong(Need(gpus=0)) == []
    assert workload.wrong(Need(gpus=1)) == ["sees 0 GPUs and needs 1"]


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import workload; workload.serve({port}, '/health')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == f"lab: serves port {port}\n"
        yield process, port
        process.kill()


def test_a_server_answers_open_requests_after_sigterm_and_refuses_new_ones(server: tuple[subprocess.Popen[str], int]) -> None:
    process, port = server
    assert urlopen(f"http://127.0.0.1:{port}/health").read() == b"ok"
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
    # The second request shows that the server has accepted the first one.
    assert urlopen(f"http://127.0.0.1:{port}/health").read() == b"ok"
    process.send_signal(signal.SIGTERM)
    answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.endswith(b"done")
    assert process.wait(10) == 0
    assert process.stdout
    assert process.stdout.read() == "lab: drained\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_the_hub_starts_a_notebook_for_each_person_with_the_settings_of_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml.safe_load((STACKS / "jupyterhub.yml").read_text())["configs"]["config"]["content"].replace("$$", "$")
    (tmp_path / "config.py").write_text(text.replace('"/homes', f'"{tmp_path}').replace('f"/homes', f'f"{tmp_path}'))
    monkeypatch.setenv("HUB_ADMIN", "ada")
    monkeypatch.setenv("NFS_SERVER", "192.0.2.5")
    monkeypatch.setattr("os.chown", lambda *_arguments: None)
    monkeypatch.setattr(workload, "SOCKET", f"{tmp_path}/docker.sock")
    monkeypatch.setattr(workload, "check", lambda need: None)
    monkeypatch.setattr(workload, "serve", lambda *_arguments: None)
    answers = {"/services/create": {"ID": "s1"}, "/info": {"CpuCfsQuota": True}, "/services": [{"Spec": {"Name": "hub_hub"}}]}
    daemon = Daemon(f"{tmp_path}/docker.sock", {}, answers)
    try:
        workload.jupyterhub(["-f", str(tmp_path / "config.py")])
    finally:
        daemon.close()
    created: list[Any] = [body for body in daemon.bodies if body]
    assert [one["Name"] for one in created] == [f"jupyter-{person}" for person in workload.PEOPLE]
    task = created[0]["TaskTemplate"]
    assert created[0]["Labels"] == {"gpu-swarm.owner": "ada"}
    assert task["Resources"]["Reservations"] == {"GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-SLOT", "Value": 1}}]}
    assert task["Networks"] == [{"Target": "jupyterhub"}]
    home, memory = task["ContainerSpec"]["Mounts"]
    assert home["VolumeOptions"]["DriverConfig"]["Options"]["device"] == ":/export/homes/ada"
    assert memory["TmpfsOptions"] == {"SizeBytes": 2 * workload.GIB}
    assert all((tmp_path / person).is_dir() for person in workload.PEOPLE)


def test_the_cronjob_starts_the_services_that_ask_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"swarm.cronjob.enable": "true", "swarm.cronjob.schedule": "0 2 * * *"}
    spec = {"Name": "train", "Labels": labels, "Mode": {"Replicated": {"Replicas": 0}}, "TaskTemplate": {}}
    monkeypatch.setattr(workload, "SOCKET", f"{tmp_path}/docker.sock")
    monkeypatch.setattr(workload, "check", lambda need: None)
    monkeypatch.setattr(threading.Event, "wait", lambda _self: True)
    monkeypatch.setattr(signal, "signal", lambda *_arguments: None)
    answers = {"/services": [{"ID": "s1", "Version": {"Index": 7}, "Spec": spec}], "/services/s1/update": {}}
    daemon = Daemon(f"{tmp_path}/docker.sock", {}, answers)
    try:
        workload.cronjob([])
    finally:
        daemon.close()
    assert daemon.bodies[-1]["Mode"] == {"Replicated": {"Replicas": 1}}
    assert capsys.readouterr().out == "lab: started 1\n"


def test_the_image_has_python_the_tools_and_each_name(tmp_path: Path) -> None:
    """The file system is complete: each library that Python needs is in it."""
    archive = tmp_path / "image.tar"
    with archive.open("wb") as stream:
        subprocess.run(["sh", PROGRAM.with_name("build.sh"), PROGRAM, *workload.PROGRAMS], stdout=stream, check=True)
    names = subprocess.run(["tar", "-tf", archive], capture_output=True, text=True, check=True).stdout.splitlines()
    assert {f"./usr/local/bin/{name}" for name in workload.PROGRAMS} <= set(names)
    assert {"./usr/bin/python3", "./usr/bin/sh", "./usr/bin/bash", "./usr/bin/seq", "./start.sh"} <= set(names)
    assert any("libc.so.6" in name for name in names)
    assert any("ld-linux" in name for name in names)
