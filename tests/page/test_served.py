# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page as a web server serves it: Debian's nginx and Caddy, with the files of docs/examples/stacks/page/."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.support.certificates import Authority

from .conftest import BUILD, Opened
from .fleets import busy, calm

EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples/stacks/page"
# The password "secret" as bcrypt, with the lowest cost.
HASHED = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
LOGIN = {"username": "alice", "password": "secret"}
UNVERIFIED = ssl._create_unverified_context()  # the authority of the test's certificate is unknown
START_S = 60


def confined(capability: str) -> list[str]:
    """Return the beginning of a command that has only this capability, as in the containers of the examples."""
    return ["setpriv", "--inh-caps=-all", f"--bounding-set=-all,+{capability}"]


class Server(NamedTuple):
    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    def write(self, text: str) -> None:
        """Replace the page as the managers' service does."""
        new = self.folder / "new"
        new.write_text(text, encoding="utf-8")
        new.chmod(0o640)
        new.replace(self.folder / "index.html")

    def answer(self, login: str | None = None) -> int:
        """Return the HTTP status for a login such as name:password."""
        headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=10, context=UNVERIFIED) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def is_up(self) -> bool:
        assert self.process.poll() is None, "the web server has ended"
        try:
            return self.answer() == 401
        except OSError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)


def nginx(folder: Path, config: str) -> list[str]:
    """Return the command. The files of the package nginx-common are missing, and its temporary folders belong to root."""
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(config.replace("include mime.types;", f"types {{ text/html html; }} {paths}"))
    (folder / "secrets/users").write_text(f"alice:{HASHED}\n")
    options = f"daemon off; pid {folder}/pid; error_log stderr;"
    return [*confined("setgid"), str(BUILD / "nginx"), "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf"), "-g", options]


def caddy(folder: Path, config: str) -> list[str]:
    (folder / "Caddyfile").write_text(config)
    (folder / "secrets/users").write_text(f"alice {HASHED}\n")
    return [*confined("net_bind_service"), str(BUILD / "caddy"), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


SERVERS = {"nginx.conf": nginx, "Caddyfile": caddy}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(params=SERVERS)
def server(request, tmp_path):
    for name in ("page", "secrets"):
        (tmp_path / name).mkdir(mode=0o750)
    for name, file in zip(("certificate", "key"), Authority(tmp_path).pair("localhost"), strict=True):
        Path(file).rename(tmp_path / "secrets" / name)
    port = free_port()
    config = (EXAMPLES / request.param).read_text()
    for old, new in (("/page", f"{tmp_path}/page"), ("/run/secrets", f"{tmp_path}/secrets"), ("8443", str(port))):
        assert old in config
        config = config.replace(old, new)
    command = SERVERS[request.param](tmp_path, config)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HOME": str(tmp_path)})
    found = Server(f"https://localhost:{port}/", tmp_path / "page", process)
    found.write(calm().html())
    try:
        wait_until(found.is_up)
        yield found
    finally:
        found.stop()


def wait_until(condition):
    end = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_only_people_with_a_password_see_the_page(server):
    assert [server.answer(login) for login in (None, "alice:wrong", "alice:secret")] == [401, 401, 200]
    assert "emerg" not in (server.folder.parent / "log").read_text(encoding="utf-8")  # a web server that lacks a capability says so


def test_an_open_page_follows_the_fleet_and_becomes_stale_without_its_server(server, context):
    page = context(ignore_https_errors=True, http_credentials=LOGIN).new_page()
    opened = Opened(page)
    now = time.time()  # the page follows the clock of the server
    server.write(calm().html(now))
    page.clock.install(time=now + 5)
    page.goto(f"{server.url}#sort=problems")
    assert page.locator("#headline").inner_text() == "All is well"
    server.write(busy().html(now + 10))
    page.clock.run_for(60_000)
    page.get_by_text("2 wrong, 2 waiting").first.wait_for()
    assert (page.title(), page.locator(".node b").first.inner_text()) == ("✕ 2 wrong, 2 waiting – GPU fleet", "gpu-06")
    assert {url.partition("#")[0] for url in opened.requests if not url.startswith("data:")} == {server.url}
    assert opened.errors == []
    server.stop()
    page.clock.run_for(300_000)
    page.locator("body.stale").wait_for()
    assert page.locator("#headline").inner_text() == "2 wrong, 2 waiting"
