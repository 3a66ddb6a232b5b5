# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Uses the real pynvml with the lab's library. Each file in the lab's fleet folder is a machine."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import zipfile

import nvml_lab
import pynvml
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _libraries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import binding, nvml

MORE_CALLS_THAN_ONE_GPU_GETS = 60


def read(monkeypatch, name):
    monkeypatch.setenv("GPU_LAB_NVML", name if os.sep in name else nvml_lab.fleet(name))
    return nvml.read_all(nvml_lab.library())


def machine(tmp_path, text, base="h100x8"):
    file = tmp_path / "nvml.conf"
    file.write_text((nvml_lab.FLEET / f"{base}.conf").read_text() + text)
    return str(file)


@pytest.mark.parametrize(
    ("name", "count", "model", "memory_mib", "capability", "architecture"),
    [
        ("h200x8", 8, "NVIDIA-H200", 143771, "9.0", "hopper"),
        ("h100x8", 8, "NVIDIA-H100-80GB-HBM3", 81559, "9.0", "hopper"),
        ("a100", 1, "NVIDIA-A100-SXM4-80GB", 81920, "8.0", "ampere"),
        ("a100-sick", 3, "NVIDIA-A100-SXM4-40GB", 40960, "8.0", "ampere"),
        ("rtx4090x2", 2, "NVIDIA-GeForce-RTX-4090", 24564, "8.9", "ada"),
        ("l40s-t4", 2, "NVIDIA-L40S", 46068, "8.9", "ada"),
        ("t4x4", 4, "Tesla-T4", 15360, "7.5", "turing"),
        ("a6000x4", 4, "NVIDIA-RTX-A6000", 49140, "8.6", "ampere"),
        ("v100x4", 4, "Tesla-V100-SXM2-16GB", 16160, "7.0", "volta"),
        ("k80x2", 2, "Tesla-K80", 11441, "3.7", "kepler"),
        ("gb10", 1, "NVIDIA-GB10", None, "12.1", "blackwell"),
    ],
)
def test_memory_sizes_are_those_of_the_card(monkeypatch, name, count, model, memory_mib, capability, architecture):
    gpus = read(monkeypatch, name)["gpus"]
    first = gpus[0]
    assert len(gpus) == count
    assert [gpu["index"] for gpu in gpus] == list(range(count))
    assert (first["model"], first["memory_mib"]) == (model, memory_mib)
    assert (first["compute_capability"], first["architecture"]) == (capability, architecture)
    assert len({gpu["uuid"] for gpu in gpus}) == count
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", gpu["uuid"]) for gpu in gpus)


def test_versions_are_read(monkeypatch):
    answer = read(monkeypatch, "t4x4")
    assert answer["driver_version"] == "535.261.03"
    assert answer["nvml_version"] == "12.535.261.03"
    assert answer["cuda_version"] == "12.2"


def test_every_field_of_an_h100(monkeypatch):
    gpus = read(monkeypatch, "h100x8")["gpus"]
    links = gpus[0].pop("links")
    assert gpus[0] == {
        "index": 0,
        "uuid": gpus[0]["uuid"],
        "name": "NVIDIA H100 80GB HBM3",
        "model": "NVIDIA-H100-80GB-HBM3",
        "memory_mib": 81559,
        "compute_capability": "9.0",
        "architecture": "hopper",
        "pci_bus_id": "00000000:17:00.0",
        "serial": gpus[0]["serial"],
        "minor_number": 0,
        "numa_node": 0,
        "mig": {"mode": "disabled", "pending": "disabled"},
        "mig_devices": [],
        "health": {
            "state": "ok",
            "reasons": [],
            "ecc_mode": True,
            "ecc_errors_uncorrected": 0,
            "ecc_errors_corrected": 0,
            "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
            "retired_pages": None,
            "recovery_action": "none",
        },
        "power": {"limit_w": 700.0, "persistence_mode": True},
    }
    assert re.fullmatch("13[0-9]{11}", gpus[0]["serial"])
    assert (links["nvlink_active"], links["nvlink_total"]) == (18, 18)
    assert links["topology"] == {gpu["uuid"]: "node" if gpu["index"] < 4 else "system" for gpu in gpus[1:]}
    assert links["nvlink_peers"] == {gpu["uuid"]: 0 for gpu in gpus[1:]}  # these GPUs are connected through NVSwitches
    assert gpus[7]["numa_node"] == 1


CHAIN = "[gpu 0-3]\nnvlinks = 0\n[nvlink]\n0-3 = 0\n0,1 = 2\n1-3 = 1\n1,3 = 0"
NO_ENDS = "[gpu 0-3]\nfault = nvmlDeviceGetNvLinkRemotePciInfo_v2:not-supported"


@pytest.mark.parametrize(
    ("name", "more", "peers"),
    [
        pytest.param("a6000x4", "", [{2: 4}, {3: 4}, {0: 4}, {1: 4}], id="bridges"),
        pytest.param("v100x4", "", [{other: 2 for other in range(4) if other != one} for one in range(4)], id="each to each"),
        pytest.param("v100x4", CHAIN, [{1: 2}, {0: 2, 2: 1}, {1: 1, 3: 1}, {2: 1}], id="a chain"),
        pytest.param("a6000x4", "[gpu 2]\nnvlinks-active = 3", [{2: 4}, {3: 4}, {0: 4}, {1: 4}], id="one of four links down"),
        pytest.param("a6000x4", "[gpu 2]\nnvlinks-active = 0", [{}, {3: 4}, {}, {1: 4}], id="all links of a card down"),
        pytest.param("a6000x4", "[gpu 2]\nfault = lost", [{}, {3: 4}, {}, {1: 4}], id="a card lost"),
        pytest.param("t4x4", "", [{}] * 4, id="no NVLink"),
        pytest.param("a6000x4", "[gpu 0-3]\nfault = nvmlDeviceGetP2PStatus:function-not-found", [{2: 4}, {3: 4}, {0: 4}, {1: 4}], id="an old driver"),
        pytest.param("a6000x4", NO_ENDS, [{2: 0}, {3: 0}, {0: 0}, {1: 0}], id="no ends"),
    ],
)
def test_cards_linked_by_nvlink_are_found(monkeypatch, tmp_path, name, more, peers):
    gpus = read(monkeypatch, machine(tmp_path, f"\n{more}\n", base=name))["gpus"]
    index = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    assert [{index[uuid]: links for uuid, links in gpu["links"]["nvlink_peers"].items()} for gpu in gpus] == peers


def test_values_that_a_card_does_not_support_are_none(monkeypatch):
    gpu = read(monkeypatch, "gb10")["gpus"][0]
    assert gpu["memory_mib"] is None
    assert gpu["numa_node"] is None
    assert gpu["mig"] == {"mode": None, "pending": None}
    assert gpu["links"] == {"nvlink_active": None, "nvlink_total": None, "nvlink_peers": {}, "topology": {}}
    assert gpu["power"]["limit_w"] is None
    assert gpu["health"] == {
        "state": "ok",
        "reasons": [],
        "ecc_mode": None,
        "ecc_errors_uncorrected": None,
        "ecc_errors_corrected": None,
        "remapped_rows": None,
        "retired_pages": None,
        "recovery_action": "none",
    }


def test_old_cards_have_retired_pages_and_one_board_shares_a_prefix(monkeypatch):
    one, other = read(monkeypatch, "k80x2")["gpus"]
    assert one["health"]["retired_pages"] == {"single_bit": 2, "double_bit": 1, "pending": False}
    assert one["health"]["remapped_rows"] is None
    assert one["uuid"][:12] == other["uuid"][:12]
    assert one["links"]["topology"] == {other["uuid"]: "single"}


def test_mig_devices_are_read(monkeypatch):
    cut, whole = read(monkeypatch, "a100-mig")["gpus"]
    assert cut["mig"] == {"mode": "enabled", "pending": "enabled"}
    assert [(mig["profile"], mig["memory_mib"], mig["gpu_instance_id"]) for mig in cut["mig_devices"]] == [
        ("3g.40gb", 40192, 2),
        ("2g.20gb", 19968, 3),
        ("1g.10gb", 9728, 9),
    ]
    assert all(mig["uuid"].startswith("MIG-") for mig in cut["mig_devices"])
    assert whole["mig_devices"] == []


def test_faults_of_cards_are_read(monkeypatch):
    gpus = read(monkeypatch, "a100-sick")["gpus"]
    assert [gpu["health"]["state"] for gpu in gpus] == ["failed", "warning", "ok"]
    assert gpus[0]["health"]["ecc_errors_uncorrected"] == 3


# -- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "index", "reason"), [("h100x8-one-lost", 5, "GPU is lost"), ("h100x8-one-failing", 2, "Unknown Error")])
def test_one_failing_gpu_hides_no_other(monkeypatch, name, index, reason):
    gpus = read(monkeypatch, name)["gpus"]
    failed = gpus.pop(index)
    assert (failed["index"], failed["uuid"], failed["name"]) == (index, None, None)
    assert failed["health"]["state"] == "failed"
    assert failed["health"]["reasons"] == [reason]
    assert all(gpu["health"]["state"] == "ok" and len(gpu["links"]["topology"]) == 6 for gpu in gpus)


def test_a_gpu_lost_after_any_call_affects_no_other_gpu(monkeypatch, tmp_path):
    healthy = read(monkeypatch, "h100x8")["gpus"]
    states = []
    for calls in range(MORE_CALLS_THAN_ONE_GPU_GETS):
        gpus = read(monkeypatch, machine(tmp_path, f"\n[gpu 5]\nfault = lost-after:{calls}\n"))["gpus"]
        states.append(gpus[5]["health"]["state"])
        assert gpus[5]["health"]["reasons"] == ([] if states[-1] == "ok" else ["GPU is lost"])
        for now, before in zip(gpus, copy.deepcopy(healthy), strict=True):
            for peers in ("topology", "nvlink_peers"):
                assert now["links"].pop(peers).items() <= before["links"].pop(peers).items()
            assert now["index"] == 5 or now == before
    lost = states.index("ok")
    assert lost > 30  # the card is lost while NVML reads properties, health, links and topology
    assert states == ["failed"] * lost + ["ok"] * (len(states) - lost)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("nvmlDeviceGetMemoryInfo", lambda gpu: gpu["memory_mib"]),
        ("nvmlDeviceGetPciInfo_v3", lambda gpu: gpu["pci_bus_id"]),
        ("nvmlDeviceGetMinorNumber", lambda gpu: gpu["minor_number"]),
        ("nvmlDeviceGetCudaComputeCapability", lambda gpu: gpu["compute_capability"]),
        ("nvmlDeviceGetMemoryAffinity", lambda gpu: gpu["numa_node"]),
        ("nvmlDeviceGetMigMode", lambda gpu: gpu["mig"]["mode"]),
        ("nvmlDeviceGetEccMode", lambda gpu: gpu["health"]["ecc_mode"]),
        ("nvmlDeviceGetTotalEccErrors", lambda gpu: gpu["health"]["ecc_errors_uncorrected"]),
        ("nvmlDeviceGetFieldValues", lambda gpu: gpu["health"]["recovery_action"]),
        ("nvmlDeviceGetRemappedRows", lambda gpu: gpu["health"]["remapped_rows"]),
        ("nvmlDeviceGetNvLinkState", lambda gpu: gpu["links"]["nvlink_total"]),
        ("nvmlDeviceGetPowerManagementLimit", lambda gpu: gpu["power"]["limit_w"]),
        ("nvmlDeviceGetPersistenceMode", lambda gpu: gpu["power"]["persistence_mode"]),
    ],
)
def test_one_failing_call_costs_one_field(monkeypatch, tmp_path, call, field):
    plain = read(monkeypatch, "h100x8")["gpus"][3]
    assert field(plain) is not None
    for error, state in [("not-supported", "ok"), ("function-not-found", "ok"), ("unknown", "warning"), ("lost", "failed")]:
        gpu = read(monkeypatch, machine(tmp_path, f"\n[gpu 3]\nfault = {call}:{error}\n"))["gpus"][3]
        assert field(gpu) is None
        assert gpu["uuid"] == plain["uuid"]
        assert gpu["health"]["state"] == state
        assert bool(gpu["health"]["reasons"]) == (state != "ok")


@pytest.mark.parametrize(
    ("lines", "action", "state"),
    [
        ("recovery-action = none", "none", "ok"),
        ("recovery-action = gpu-reset", "gpu_reset", "warning"),
        ("recovery-action = system-reboot", "system_reboot", "warning"),
        ("recovery-action = another", "unknown", "warning"),
        ("recovery-action = unsupported", None, "ok"),
        ("fault = nvmlDeviceGetFieldValues:invalid-argument", None, "ok"),  # a driver that predates the field
    ],
)
def test_the_recovery_action_of_the_driver_is_read(monkeypatch, tmp_path, lines, action, state):
    health = read(monkeypatch, machine(tmp_path, f"\n[gpu 3]\n{lines}\n"))["gpus"][3]["health"]
    assert (health["recovery_action"], health["state"]) == (action, state)
    assert health["reasons"] == ([] if state == "ok" else [f"the driver requires a recovery action: {action}"])


def test_architecture_follows_from_the_capability_if_the_driver_does_not_know_it(monkeypatch, tmp_path):
    file = machine(tmp_path, "\n[gpu 0]\nfault = nvmlDeviceGetArchitecture:function-not-found\n")
    assert read(monkeypatch, file)["gpus"][0]["architecture"] == "hopper"


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("mismatch", binding.DriverMismatch, "Reboot the node"),
        ("nodriver", binding.NvmlFailed, "modprobe nvidia"),
        ("does-not-exist", binding.NvmlFailed, "Driver Not Loaded"),
    ],
)
def test_a_machine_that_cannot_be_read_says_why_and_what_to_do(monkeypatch, name, error, words):
    with pytest.raises(error, match=words):
        read(monkeypatch, name)


@pytest.mark.parametrize("where", ["init = hang\n[gpu 0]\nname = X", "[gpu 0]\nname = X\nfault = nvmlDeviceGetMigMode:hang"])
def test_a_hung_driver_is_given_up(monkeypatch, tmp_path, where):
    file = tmp_path / "nvml.conf"
    file.write_text(where + "\n")
    monkeypatch.setenv("GPU_LAB_NVML", str(file))
    with pytest.raises(binding.NvmlHangs, match=r"no answer within 1 s .* it was killed.*reboot the node.*gpu_node_nvml_timeout") as raised:
        nvml.read_within(1, nvml_lab.library())
    assert raised.value.details == {"hangs": "nvml"}


def test_reading_in_a_separate_process_gives_the_same_result(monkeypatch):
    """The answer and the errors are the same, and NVML is not loaded into this process."""
    alone = "print(json.dumps([reader.read_within(60, sys.argv[1]), 'libnvidia-ml' in open('/proc/self/maps').read()]))"
    assert nvml_lab.python(alone, nvml_lab.library(), GPU_LAB_NVML=nvml_lab.fleet("a100-mig")) == [read(monkeypatch, "a100-mig"), False]
    monkeypatch.setenv("GPU_LAB_NVML", nvml_lab.fleet("mismatch"))
    with pytest.raises(GpuSwarmError, match="Reboot the node"):
        nvml.read_within(60, nvml_lab.library())


def test_no_gpu_is_no_error(monkeypatch):
    answer = read(monkeypatch, "nogpu")
    assert answer["gpus"] == []
    assert answer["driver_version"] == "580.95.05"


# -- the library and the binding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["file", "directory"])
def test_the_library_is_found_by_path(monkeypatch, place):
    monkeypatch.setenv("GPU_LAB_NVML", nvml_lab.fleet("a100"))
    path = nvml_lab.library() if place == "file" else os.path.dirname(nvml_lab.library())
    assert len(nvml.read_all(path)["gpus"]) == 1


def test_the_library_is_found_by_the_loader():
    code = "print(json.dumps(reader.read_all()))"
    where = os.path.dirname(nvml_lab.library())
    answer = nvml_lab.python(code, LD_LIBRARY_PATH=where, GPU_LAB_NVML=nvml_lab.fleet("t4x4"))
    assert len(answer["gpus"]) == 4


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_a_missing_library_at_the_path_is_an_error(tmp_path, content):
    path = tmp_path / "libnvidia-ml.so.1"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(binding.LibraryMissing, match=re.escape(str(path))):
        nvml.read_all(str(path))


def test_a_missing_library_for_the_loader_is_an_error(monkeypatch):
    def init():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    with pytest.raises(binding.LibraryMissing, match="Install the driver"):
        nvml.read_all()


def test_a_missing_binding_is_an_error():
    code = """
try:
    reader.read_all()
except binding.BindingMissing as exc:
    print(json.dumps([exc.message, exc.details]))
"""
    message, details = nvml_lab.bare_python(code)
    assert "nvidia-ml-py" in message
    assert details == {"missing": ["nvml_binding"]}


BROKEN = {
    "Python 2": "print 'NVML'\n",
    "too old": "class NVMLError(Exception):\n    pass\n",
    "not for this Python": "import ctypes\nctypes.no_such_thing\n",
    "no file of it": "open('/nonexistent/nvml')\n",
    "half of it": "import no_such_module\n",
}
OWN_FIRST = """
sys.path.insert(0, sys.argv[1])
library, state = sys.argv[2] or None, sys.argv[3]
try:
    nvml = binding.find_binding(library, state)
    print(json.dumps([nvml.__file__, _libraries.is_from_controller("pynvml", library)]))
except binding.BindingMissing as exc:
    print(json.dumps([exc.message, exc.details]))
"""


@pytest.fixture(params=BROKEN)
def broken(request, tmp_path):
    """Return the folder of an unusable pynvml on the node."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "pynvml.py").write_text(BROKEN[request.param])
    return own


def test_a_broken_binding_is_named_and_the_one_of_this_collection_requested(tmp_path, broken):
    message, details = nvml_lab.bare_python(OWN_FIRST, str(broken), "", str(tmp_path / "state"))
    assert details == {"missing": ["nvml_binding"]}
    assert "install it on the node" in message
    assert str(broken / "pynvml.py") in message or "no_such_module" in message


@pytest.mark.parametrize("way", ["carried", "kept"])
def test_the_binding_of_this_collection_goes_before_a_broken_one(tmp_path, broken, way):
    bundle = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.write(pynvml.__file__, "pynvml.py")
    state, library = tmp_path / "state", str(bundle)
    if way == "kept":
        _libraries.install(str(bundle), str(state))
        library = ""
    file, carried = nvml_lab.bare_python(OWN_FIRST, str(broken), library, str(state))
    assert file.startswith(str(bundle if way == "carried" else state))
    assert carried is (way == "carried")


def test_old_bindings_return_bytes_and_have_fewer_calls(monkeypatch):
    plain = read(monkeypatch, "t4x4")
    for name in ("nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlSystemGetDriverVersion"):
        new = getattr(pynvml, name)
        monkeypatch.setattr(pynvml, name, lambda *given, new=new: new(*given).encode())
    for name in ("nvmlDeviceGetArchitecture", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode"):
        monkeypatch.delattr(pynvml, name)
    assert read(monkeypatch, "t4x4") == plain


@pytest.mark.parametrize("broken", [None, "nvmlDeviceGetCount", "nvmlSystemGetDriverVersion"])
def test_nvml_is_always_shut_down(monkeypatch, broken):
    def fails():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    stopped, shutdown = [], pynvml.nvmlShutdown
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: stopped.append(shutdown()))
    if broken:
        monkeypatch.setattr(pynvml, broken, fails)
        with pytest.raises(binding.NvmlFailed, match="Unknown Error"):
            read(monkeypatch, "t4x4")
    else:
        read(monkeypatch, "t4x4")
    assert stopped == [None]


def test_shutdown_that_fails_loses_nothing(monkeypatch):
    shutdown = pynvml.nvmlShutdown

    def fails():
        shutdown()
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    monkeypatch.setattr(pynvml, "nvmlShutdown", fails)
    assert len(read(monkeypatch, "t4x4")["gpus"]) == 4


# -- the lab's own tools -----------------------------------------------------------------------------------------


def smi(*arguments, **environment):
    program = os.path.join(os.path.dirname(nvml_lab.library()), "nvidia-smi")
    return subprocess.run([program, *arguments], capture_output=True, text=True, env=dict(os.environ, **environment), check=False)


def test_nvidia_smi_shows_the_values_of_the_library(monkeypatch):
    gpus = read(monkeypatch, "a100-mig")["gpus"]
    shown = smi("-L").stdout
    assert all(unit["uuid"] in shown for gpu in gpus for unit in [gpu, *gpu["mig_devices"]])
    csv = smi("--query-gpu=index,uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits").stdout
    assert csv.splitlines()[1] == f"1, {gpus[1]['uuid']}, {gpus[1]['name']}, 81920, 570.195.03"
    assert f"GPU UUID                              : {gpus[0]['uuid']}" in smi("-a").stdout


@pytest.mark.parametrize(("name", "code"), [("mismatch", 18), ("nodriver", 9), ("nogpu", 6), ("h100x8-one-lost", 15)])
def test_nvidia_smi_fails_like_the_real_one(name, code):
    assert smi("-L", GPU_LAB_NVML=nvml_lab.fleet(name)).returncode == code


def test_only_existing_device_nodes_count(tmp_path):
    file = tmp_path / "nvml.conf"
    file.write_text("devices = present\nseed = node1\n" + (nvml_lab.FLEET / "t4x4.conf").read_text())
    (tmp_path / "nvidia2").touch()
    shown = smi("-L", GPU_LAB_NVML=str(file), GPU_LAB_DEV=str(tmp_path)).stdout
    assert shown.startswith("GPU 0: Tesla T4")
    assert len(shown.splitlines()) == 1


def test_a_container_sees_only_its_own_mig_devices(tmp_path, monkeypatch):
    cut = read(monkeypatch, "a100-mig")["gpus"][0]
    given = cut["mig_devices"][1]["uuid"]
    file = tmp_path / "nvml.conf"
    file.write_text(f"mig-visible = {given}\n" + (nvml_lab.FLEET / "a100-mig.conf").read_text())
    shown = smi("-L", GPU_LAB_NVML=str(file)).stdout
    assert re.findall(r"MIG .* Device +(\d+): \(UUID: (\S+)\)", shown) == [("0", given)]


@pytest.mark.parametrize("line", ["colour = red", "[gpu x]\n", "[gpu 0]\nmemory = much", "[gpu 0]\nfault = sad", "[topology]\n0-3 = far", "init"])
def test_an_unknown_line_is_reported(tmp_path, line):
    file = tmp_path / "nvml.conf"
    file.write_text("cuda = 13.0\n" + line)
    answer = smi("-L", GPU_LAB_NVML=str(file))
    assert answer.returncode
    assert re.search(rf"{re.escape(str(file))}:[23]: not understood", answer.stderr)
