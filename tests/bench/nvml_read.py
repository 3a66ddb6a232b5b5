# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures reading eight GPUs with _gpu/nvml.py, compared with a bare loop over pynvml that reads the same fields.

``python -m tests.bench.nvml_read`` prints only this, with eight GPUs of the lab's stand-in. With ``--driver`` it reads this machine's GPUs,
and compares with nvidia-smi. Times are taken in one interpreter, alternately. Memory is measured in a separate process for each reader, as the module
runs on a node.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import collection
from .memory import peak_mib, print_peak_at_exit
from .table import row, table

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "tests" / "lab" / "nvml"
ROUNDS = 300
MEMORY_ROUNDS = 5
SMI_ROUNDS = 15
GOAL = 1.3


def bare_loop(nvml):
    """Read every field of gpu_info one after the other into a list, as a script would."""
    error = nvml.NVMLError
    nvml.nvmlInit()
    out = [nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetNVMLVersion(), nvml.nvmlSystemGetCudaDriverVersion_v2()]
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    queried = (
        (nvml.nvmlDeviceGetUUID,),
        (nvml.nvmlDeviceGetName,),
        (nvml.nvmlDeviceGetSerial,),
        (nvml.nvmlDeviceGetMinorNumber,),
        (nvml.nvmlDeviceGetCudaComputeCapability,),
        (nvml.nvmlDeviceGetArchitecture,),
        (nvml.nvmlDeviceGetMemoryAffinity, 4, 0),
        (nvml.nvmlDeviceGetMigMode,),
        (nvml.nvmlDeviceGetEccMode,),
        (nvml.nvmlDeviceGetTotalEccErrors, 0, 0),
        (nvml.nvmlDeviceGetTotalEccErrors, 1, 0),
        (nvml.nvmlDeviceGetRemappedRows,),
        (nvml.nvmlDeviceGetRetiredPages, 0),
        (nvml.nvmlDeviceGetRetiredPages, 1),
        (nvml.nvmlDeviceGetPowerManagementLimit,),
        (nvml.nvmlDeviceGetPersistenceMode,),
    )
    for handle in handles:
        out.append(nvml.nvmlDeviceGetPciInfo(handle).busId)
        out.append(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        recovery = nvml.nvmlDeviceGetFieldValues(handle, (nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,))[0]
        out.append((recovery.nvmlReturn, recovery.value.uiVal))
        for query, *more in queried:
            try:
                out.append(query(handle, *more))
            except error:
                out.append(None)
        with contextlib.suppress(error):
            for link in range(nvml.NVML_NVLINK_MAX_LINKS):
                out.append(nvml.nvmlDeviceGetNvLinkState(handle, link))
        with contextlib.suppress(error):
            out.append(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0).busId)
    for place, one in enumerate(handles):
        for other in handles[place + 1 :]:
            out.append(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other))
            out.append(nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK))
    nvml.nvmlShutdown()
    return out


def _seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _time(library):
    nvml, own = __import__("pynvml"), collection.module("module_utils._gpu.nvml")
    held = own.open_nvml(library)  # loads the library for both readers, so that the driver does not start its cards each time
    assert len(bare_loop(nvml)) > 19 * held.nvmlDeviceGetCount()
    gc.disable()
    rounds = [(_seconds(lambda: own.read_all(library)), _seconds(lambda: bare_loop(nvml))) for dummy_round in range(ROUNDS)]
    gc.enable()
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def _memory(library):
    rounds = [[peak_mib("tests.bench.nvml_read", kind, library) for kind in PROCESSES] for dummy_round in range(MEMORY_ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def measure_driver():
    """Measure the same with this machine's GPUs, and the module's whole reading in a child, compared with nvidia-smi."""
    nvml = collection.module("module_utils._gpu.nvml")
    count = len(nvml.read_within(60)["gpus"])
    rounds = [(_seconds(lambda: nvml.read_within(60)), _seconds(_nvidia_smi)) for dummy_round in range(SMI_ROUNDS)]
    child, smi = [statistics.median(column) for column in zip(*rounds, strict=True)]
    own, bare = _time(None)  # last, because NVML refuses the children of a process that has opened NVML
    return [
        row(f"read {count} GPUs / bare pynvml loop (s)", own, bare, GOAL),
        row(f"read {count} GPUs in a child, with NVML's start / nvidia-smi -q -x (s)", child, smi, None),
    ]


def _nvidia_smi():
    subprocess.run(["nvidia-smi", "-q", "-x"], check=True, stdout=subprocess.DEVNULL)


def measure():
    """Return [{name, value, reference, ratio, goal}]: seconds, then MiB."""
    with tempfile.TemporaryDirectory() as built:
        subprocess.run(["make", "-s", "-C", LAB, f"OUT={built}"], check=True)
        os.environ["GPU_LAB_NVML"] = str(LAB / "fleet" / "h100x8.conf")
        library = os.path.join(built, "libnvidia-ml.so.1")
        own, bare = _time(library)
        module, bare_module, process = _memory(library)
    return [
        row("read 8 GPUs / bare pynvml loop (s)", own, bare, GOAL),
        row("peak memory of gpu_info / the loop in a bare module (MiB)", module, bare_module, GOAL),
        row("peak memory of gpu_info / the loop in a bare process (MiB)", module, process, None),
    ]


def _as_module(library, body):
    """Pass arguments to ``body``, like Ansible's wrapper of a module on a node."""
    from ansible.module_utils import basic

    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {"nvml_path": library}}).encode()
    basic._ANSIBLE_PROFILE = "legacy"  # ansible-core 2.19
    body()


def _gpu_info():
    collection.module("modules.gpu_info").main()


def _bare_module():
    """The smallest possible Ansible module with that loop."""
    import pynvml
    from ansible.module_utils.basic import AnsibleModule

    module = AnsibleModule(argument_spec={"nvml_path": {"type": "path"}})
    ctypes.CDLL(module.params["nvml_path"])
    module.exit_json(out=[str(item) for item in bare_loop(pynvml)])


def _bare(library):
    import pynvml

    ctypes.CDLL(library)
    print(bare_loop(pynvml))


PROCESSES = {
    "--module": lambda library: _as_module(library, _gpu_info),
    "--bare-module": lambda library: _as_module(library, _bare_module),
    "--bare": _bare,
}


def main(arguments):
    if arguments == ["--driver"]:
        print(table(measure_driver()))
        return
    if arguments:
        print_peak_at_exit()
        PROCESSES[arguments[0]](arguments[1])
        return
    print(table(measure()))


if __name__ == "__main__":
    main(sys.argv[1:])
