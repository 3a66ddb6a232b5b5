# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the lab's image for the recipes of docs/run: it runs in place of vLLM, Ollama, JupyterHub and the others.

The name with which it is called decides what it stands for. It checks what the real program needs: its GPUs, the size of /dev/shm, variables, options
and directories. Then it serves the same port and health endpoint, or works and ends. After SIGTERM, a server answers the requests that it has
accepted, and ends. It needs only Python's standard library, in any version from 3.9.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

GIB = 1024**3
PEOPLE = ("ada", "ben", "cleo", "dan", "eve")
SOCKET = "/var/run/docker.sock"


class Need(NamedTuple):
    """What a program needs. ``gpus`` is None if the program does not care."""

    gpus: int | None = None
    shared_memory: int = 0  # bytes
    capabilities: tuple[str, ...] = ()  # of NVIDIA_DRIVER_CAPABILITIES
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()  # directories


def wrong(need: Need, environment: dict[str, str] | None = None, root: str = "/") -> list[str]:
    """Return what is missing, one line for each."""
    variables = dict(os.environ) if environment is None else environment
    found = []
    if need.gpus is not None and len(visible := gpus()) != need.gpus:
        found.append(f"sees {len(visible)} GPUs and needs {need.gpus}")
    if need.shared_memory and (size := shared_memory(root)) < need.shared_memory:
        found.append(f"/dev/shm has {size} bytes, and needs {need.shared_memory}")
    given = variables.get("NVIDIA_DRIVER_CAPABILITIES", "").split(",")
    if need.capabilities and given != ["all"] and set(need.capabilities) - set(given):
        found.append(f"NVIDIA_DRIVER_CAPABILITIES is {','.join(given)!r}, and needs {','.join(need.capabilities)}")
    found += [f"the variable {name} is not set" for name in need.variables if not variables.get(name)]
    found += [f"{path} is missing or empty" for path in need.files if not is_filled(Path(root, path.lstrip("/")))]
    found += [f"{path} is not writable" for path in need.writes if not is_writable(Path(root, path.lstrip("/")))]
    return found


def gpus() -> list[str]:
    """Return the lines of nvidia-smi. A container without a GPU has no nvidia-smi."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return [line for line in done.stdout.splitlines() if line.startswith("GPU ")]


def shared_memory(root: str = "/") -> int:
    found = os.statvfs(Path(root, "dev/shm"))
    return found.f_blocks * found.f_frsize


def is_filled(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


def is_writable(path: Path) -> bool:
    try:
        (path / ".lab-write").write_text("x")
        (path / ".lab-write").unlink()
    except OSError:
        return False
    return True


def check(need: Need) -> None:
    """End with a line for each missing thing, or say that nothing is missing."""
    found = wrong(need)
    for line in found:
        print(f"lab: {line}", flush=True)
    if found:
        sys.exit(1)
    print("lab: has everything", flush=True)


# -- servers -----------------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers each path with the text of ``answers``. /slow takes two seconds."""

    daemon_threads = False  # so that server_close waits for open requests
    allow_reuse_address = True
    answers: dict[str, str]


class Handler(BaseHTTPRequestHandler):
    timeout = 10  # a client that sends nothing must not keep the server from ending

    def do_GET(self) -> None:
        server: Any = self.server
        if self.path == "/slow":
            time.sleep(2)
        text = "done" if self.path == "/slow" else server.answers.get(self.path)
        body = (text if text is not None else "not found").encode()
        self.send_response(404 if text is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(port: int, *paths: str, address: str = "", text: str = "ok") -> None:
    """Serve until SIGTERM. Then answer the requests that are open, and end."""
    server = Server((address, port), Handler)
    server.answers = dict.fromkeys(paths, text)
    signal.signal(signal.SIGTERM, lambda _number, _frame: threading.Thread(target=server.shutdown).start())
    print(f"lab: serves port {port}", flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    print("lab: drained", flush=True)


def option(words: list[str], name: str, default: str = "") -> str:
    """Return the value of --name=value."""
    return next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), default)


def vllm(words: list[str]) -> None:
    """The real program needs as many GPUs as its tensors are split for, and shared memory if there are several."""
    number = int(option(words, "--tensor-parallel-size", "1"))
    offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    cache = os.environ.get("HF_HUB_CACHE", "/root/.cache/huggingface")
    token = os.environ.get("HF_TOKEN_PATH")
    need = Need(
        gpus=number,
        shared_memory=8 * GIB if number > 1 else 0,
        variables=("VLLM_API_KEY",),
        files=(*((f"{cache}/{words[1]}",) if offline else ()), *((token,) if token else ())),
        writes=("/root/.cache/vllm",) if offline else (cache,),
    )
    if words[0] != "serve" or not option(words, "--shutdown-timeout"):
        sys.exit(f"lab: vllm serve MODEL --shutdown-timeout=… is expected, and not {' '.join(words)}")
    check(need)
    serve(8000, "/health", "/v1/models", text=f"{socket.gethostname()} {os.environ.get('REVISION', 'first')}")


def ollama(words: list[str]) -> None:
    if words == ["serve"]:
        check(Need(gpus=1, variables=("OLLAMA_KEEP_ALIVE",), writes=("/root/.ollama",)))
        serve(11434, "/", "/api/tags", "/api/pull")
        return
    host, _colon, port = os.environ.get("OLLAMA_HOST", "127.0.0.1:11434").partition(":")
    path = {"ls": "/api/tags", "pull": "/api/pull"}[words[0]]
    if words[0] == "pull":
        check(Need(gpus=0))
    answer = ask(host, int(port), path)
    print(f"lab: {' '.join(words)}: {answer}", flush=True)


def ask(host: str, port: int, path: str) -> str:
    """Return the answer of a server in the swarm. The virtual address of a service needs IPVS, which the lab's kernel may not have."""
    error: Exception = OSError("no address")
    for name in (host,) if host[0].isdigit() else (f"tasks.{host}", host):
        try:
            with urlopen(f"http://{name}:{port}{path}", timeout=4) as answer:
                return str(answer.read().decode())
        except OSError as problem:
            error = problem
    sys.exit(f"lab: {host}:{port} does not answer: {error}")


def webui(_words: list[str]) -> None:
    check(Need(gpus=0, variables=("WEBUI_SECRET_KEY", "OLLAMA_BASE_URL"), writes=("/app/backend/data",)))
    serve(8080, "/health")


def registry(_words: list[str]) -> None:
    prefixes = ("REGISTRY_HTTP_TLS_CERTIFICATE", "REGISTRY_HTTP_TLS_KEY", "REGISTRY_AUTH_HTPASSWD_PATH")
    check(Need(gpus=0, variables=prefixes, files=tuple(os.environ.get(name, "/none") for name in prefixes), writes=("/var/lib/registry",)))
    address, _colon, port = os.environ["REGISTRY_HTTP_DEBUG_ADDR"].partition(":")
    serve(int(port), "/debug/health", address=address)


def get(words: list[str]) -> None:
    """Stands for curl and wget: exit status 0 if the last word answers."""
    with urlopen(words[-1], timeout=4):
        pass


# -- programs that control the swarm ----------------------------------------------------------------------------------------------


def docker(method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("docker")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(SOCKET)
    connection.request(method, path, body=None if body is None else json.dumps(body), headers={"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status >= 400:
        sys.exit(f"lab: {method} {path}: {text}")
    return json.loads(text or "{}")


def jupyterhub(words: list[str]) -> None:
    """Read the recipe's settings as JupyterHub does, start a notebook for each person as SwarmSpawner does, and serve."""
    check(Need(gpus=0, variables=("HUB_ADMIN", "NFS_SERVER"), writes=("/data", "/homes")))
    settings = read_settings(Path(words[1]).read_text())
    spawner = settings.SwarmSpawner
    existing = {service["Spec"]["Name"] for service in docker("GET", "/services")}
    for person in (person for person in PEOPLE if f"jupyter-{person}" not in existing):
        notebook = types.SimpleNamespace(escaped_name=person, user=types.SimpleNamespace(name=person))
        spawner.pre_spawn_hook(notebook)
        service = notebook_service(person, spawner, notebook)
        if not docker("GET", "/info")["CpuCfsQuota"]:  # nodes of the lab whose kernel cannot limit CPUs would refuse the task
            del service["TaskTemplate"]["Resources"]["Limits"]["NanoCPUs"]
        docker("POST", "/services/create", service)
    print(f"lab: {len(PEOPLE)} notebooks", flush=True)
    serve(8000, "/hub/health", "/hub/api")


def read_settings(text: str) -> Any:
    """Execute a file of settings, with stand-ins for the modules that it imports."""
    settings = Settings()
    native: Any = types.ModuleType("nativeauthenticator")
    native.__file__ = "/nativeauthenticator/__init__.py"
    api: Any = types.ModuleType("docker.types")
    api.DriverConfig = lambda name, options: {"Name": name, "Options": options}
    api.Mount = mount
    package: Any = types.ModuleType("docker")
    package.types = api
    sys.modules.update({"nativeauthenticator": native, "docker": package, "docker.types": api})
    exec(compile(text, "jupyterhub_config.py", "exec"), {"get_config": lambda: settings})
    return settings


class Settings:
    """An object of which each attribute exists."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = Settings()
        return self.__dict__[name]


def mount(target: str, source: str | None, type: str, driver_config: Any = None, tmpfs_size: int = 0) -> dict[str, Any]:
    """Return a mount of Docker's API, as docker.types.Mount does."""
    found: dict[str, Any] = {"Target": target, "Source": source, "Type": type}
    if driver_config:
        found["VolumeOptions"] = {"DriverConfig": driver_config}
    return {**found, "TmpfsOptions": {"SizeBytes": tmpfs_size}} if tmpfs_size else found


def notebook_service(person: str, spawner: Any, notebook: Any) -> dict[str, Any]:
    """Return the service that SwarmSpawner creates for a person."""
    reserved = [{"DiscreteResourceSpec": {"Kind": kind, "Value": value}} for kind, value in spawner.extra_resources_spec["generic_resources"].items()]
    # Docker refuses a limit of more CPUs than the node has, and the lab's nodes have few.
    cpus = min(spawner.cpu_limit, os.cpu_count() or 1)
    limits = {"MemoryBytes": int(spawner.mem_limit.rstrip("G")) * GIB, "NanoCPUs": cpus * 10**9}
    return {
        "Name": f"jupyter-{person}",
        **{key.capitalize(): value for key, value in notebook.extra_create_kwargs.items()},
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": spawner.image,
                "Args": spawner.cmd,
                "Env": [f"JUPYTERHUB_USER={person}", "JUPYTERHUB_API_URL=http://hub:8081/hub/api"],
                "Mounts": notebook.extra_container_spec["mounts"],
            },
            "Resources": {"Limits": limits, "Reservations": {"GenericResources": reserved}},
            "Networks": [{"Target": spawner.network_name}],
        },
        "Mode": {"Replicated": {"Replicas": 1}},
    }


def notebook(_words: list[str]) -> None:
    check(Need(gpus=1, shared_memory=2 * GIB, variables=("JUPYTERHUB_USER",), writes=("/home/jovyan/work",)))
    (Path("/home/jovyan/work") / os.environ["JUPYTERHUB_USER"]).write_text("mine")
    serve(8888, "/api")


def cronjob(_words: list[str]) -> None:
    """Start each service whose labels ask for it, at once, as swarm-cronjob does at the time of its schedule."""
    check(Need(gpus=0, variables=("TZ",)))
    while not (found := docker("GET", "/services?filters=%7B%22label%22%3A%5B%22swarm.cronjob.enable%3Dtrue%22%5D%7D")):
        time.sleep(0.5)  # Docker creates the services of a stack one after the other
    for service in found:
        spec = service["Spec"]
        if len(spec["Labels"]["swarm.cronjob.schedule"].split()) != 5:
            sys.exit(f"lab: the schedule of {spec['Name']} has no five fields")
        spec["Mode"]["Replicated"]["Replicas"] = 1
        spec["TaskTemplate"]["ForceUpdate"] = spec["TaskTemplate"].get("ForceUpdate", 0) + 1
        docker("POST", f"/services/{service['ID']}/update?version={service['Version']['Index']}", spec)
    print(f"lab: started {len(found)}", flush=True)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    stopped.wait()


# -- work that ends --------------------------------------------------------------------------------------------------------------


def train(words: list[str]) -> None:
    check(Need(gpus=1, writes=("/checkpoints",)))
    (Path("/checkpoints") / "last.pt").write_text(" ".join(words))
    print("lab: trained", flush=True)


def ffmpeg(words: list[str]) -> None:
    """Encode: write the last word. The encoder needs a card with NVENC and the video libraries of the driver."""
    if not {"h264_nvenc", "-hwaccel", "cuda"} <= set(words):
        sys.exit(f"lab: no encoder of the card: {' '.join(words)}")
    check(Need(gpus=1, capabilities=("compute", "utility", "video"), files=(words[words.index("-i") + 1],)))
    Path(words[-1]).write_text("encoded")


def client(words: list[str]) -> None:
    """Send requests to the tasks of a service, each over a new connection, until SIGTERM. Print how many were answered, by answer, and each error."""
    host, port, path = words[0], int(words[1]), words[2]
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    answers: dict[str, int] = {}
    errors: list[str] = []
    number = 0
    while not stopped.wait(0.05):
        try:
            found = sorted({info[4][0] for info in socket.getaddrinfo(f"tasks.{host}", port, socket.AF_INET, socket.SOCK_STREAM)})
            number += 1
            with urlopen(f"http://{found[number % len(found)]}:{port}{path}", timeout=10) as answer:
                text = answer.read().decode()
            answers[text] = answers.get(text, 0) + 1
        except (OSError, http.client.HTTPException) as problem:
            errors += [f"{time.time():.2f} {problem}"] if answers else []  # this container may not be in the network yet
        if number % 20 == 0:
            print(json.dumps({"answers": answers, "errors": errors}), flush=True)
    print(json.dumps({"answers": answers, "errors": errors}), flush=True)


PROGRAMS: dict[str, Callable[[list[str]], None]] = {
    "vllm": vllm,
    "ollama": ollama,
    "webui": webui,
    "registry": registry,
    "curl": get,
    "wget": get,
    "jupyterhub": jupyterhub,
    "start-singleuser.py": notebook,
    "swarm-cronjob": cronjob,
    "python": train,
    "ffmpeg": ffmpeg,
    "client": client,
}


def main(name: str, words: list[str]) -> None:
    PROGRAMS[Path(name).name](words)


if __name__ == "__main__":
    main(sys.argv[0], sys.argv[1:])
