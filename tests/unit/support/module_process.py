# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a module as a separate process with JSON arguments, as the wrapper on a node does.

Each run is forked from a process that has only imported the module, because a new interpreter would take longer than the module.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import checkout
from ansible.module_utils.common.parameters import PASS_VARS

# Since ansible-core 2.21, a result contains the arguments only if the controller requests them.
SHOWN = {"_ansible_inject_invocation": True} if "inject_invocation" in PASS_VARS else {}
# The parent of all runs of one module. A run writes stdout and stderr to two files. With pipes, the parent would have to read them.
PARENT = """
import atexit, importlib, json, os, sys
sys.path.insert(0, sys.argv[1])
import checkout
from ansible.module_utils import basic
basic._ANSIBLE_PROFILE = "legacy"
module = importlib.import_module("ansible_collections.fleet.gpu_swarm.plugins.modules." + sys.argv[2])

def run(request):
    for number, path in enumerate(request["files"]):
        handle = os.open(path, os.O_RDWR)
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(request["env"])
    exec(request["before"], {})
    basic._ANSIBLE_ARGS = request["args"].encode()
    module.main()

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            run(json.loads(line))
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 1
        atexit._run_exitfuncs()  # its temporary directory's removal, for one; os._exit runs none
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    dummy_pid, status = os.waitpid(child, 0)
    print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), flush=True)
"""


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@functools.cache
def parent(module):
    command = [sys.executable, "-c", PARENT, checkout.SUPPORT, module]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    atexit.register(process.communicate)  # the parent ends when its input ends
    return process


def run(module, arguments, env=None, before=""):
    """Run the module. Its process first executes the Python code ``before``."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        for path in files:
            path.touch()
        args = json.dumps({"ANSIBLE_MODULE_ARGS": {**SHOWN, **arguments}})
        request = {"files": [*map(str, files)], "args": args, "env": dict(os.environ if env is None else env), "before": before}
        process = parent(module)
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        said = [path.read_text() for path in files[1:]]
    return Done(code, *said)
