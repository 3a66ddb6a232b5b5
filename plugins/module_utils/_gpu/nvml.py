# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads all GPUs from NVML and returns plain records. :mod:`.binding` imports pynvml.

A value is None if the card does not support it (NotSupported) or the driver does not know it (FunctionNotFound). If a GPU fails, the records of the
other GPUs are still complete.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Collection, Sequence

from .. import _bounded
from .._machine import slots
from . import cards
from . import record as gpu_record
from .binding import NvmlFailed, NvmlHangs, choose_library, find_binding, init_error
from .record import Gpu

_UNKNOWN_TO_CARD = (3, 13)  # NOT_SUPPORTED, FUNCTION_NOT_FOUND
_END_OF_LINKS = (2, 3, 13)  # 2 is INVALID_ARGUMENT: no such link
_NOT_FOUND = 6
_NUMA_WORDS = 4  # masks of 64 bits each, so 256 nodes
_RECOVERY_ACTION = (230,)  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, which has no name in older bindings
_P2P_BY_NVLINK, _P2P_OK = 2, 0  # NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK
_UNKNOWN_FIELD = (*_UNKNOWN_TO_CARD, 2)  # 2 is INVALID_ARGUMENT: the driver is older than the field


def read_within(limit_s: float, nvml_path: str | None = None, library_path: str | None = None) -> dict[str, Any]:
    """Run read_all() in a child process and return its result. Raises NvmlHangs and abandons the child if NVML does not answer in time."""
    find_binding(library_path)  # imported in this process too, because callers look up the path of pynvml
    try:
        return _bounded.in_child(lambda: read_all(nvml_path, library_path), limit_s)
    except TimeoutError as timeout:
        raise NvmlHangs(
            "NVML gave no answer within %d s on this node: the driver waits for a GPU, or is still starting it. The process that queried "
            "it was abandoned; %s. Check 'dmesg | grep -i -e nvrm -e xid'. If a GPU hangs, reboot the node. If the driver is only slow, "
            "enable its persistence mode or raise nvml_timeout (gpu_node_nvml_timeout of the role)." % (limit_s, timeout),
            hangs="nvml",
        ) from None


def open_nvml(nvml_path: str | None = None, library_path: str | None = None) -> Any:
    """Open NVML and return the binding. While NVML is open, a driver without persistence mode does not restart its cards for each read."""
    nvml = find_binding(library_path)
    choose_library(nvml, nvml_path)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as exc:
        raise init_error(exc, nvml_path) from exc
    return nvml


def read_all(nvml_path: str | None = None, library_path: str | None = None) -> dict[str, Any]:
    """Return all data about this machine's GPUs. A machine without GPUs is not an error."""
    nvml = open_nvml(nvml_path, library_path)
    try:
        return _read_machine(nvml)
    except nvml.NVMLError as exc:
        raise NvmlFailed("NVML: %s. Check 'nvidia-smi' and 'dmesg | grep -i nvrm' on this node." % exc) from exc
    finally:
        _shutdown(nvml)


def _shutdown(nvml: Any) -> None:
    # The data is complete. If a GPU was lost meanwhile, this shutdown may fail.
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


# -- the machine -------------------------------------------------------------------------------------------------


def _read_machine(nvml: Any) -> dict[str, Any]:
    calls = _Calls(nvml)
    gpus = [_Gpu(calls, index) for index in range(nvml.nvmlDeviceGetCount())]
    for gpu in gpus:
        gpu.read()
    cards.fill_addresses([gpu.record for gpu in gpus], slots.driver_addresses())
    _read_topology(nvml, [gpu for gpu in gpus if not gpu.is_failed()])
    _read_nvlink_peers([gpu for gpu in gpus if not gpu.is_failed() and gpu.record["links"]["nvlink_active"]])
    return {
        "driver_version": _text(nvml.nvmlSystemGetDriverVersion()),
        "nvml_version": _text(nvml.nvmlSystemGetNVMLVersion()),
        "cuda_version": _cuda_version(nvml),
        "gpus": [gpu.record for gpu in gpus],
    }


def _cuda_version(nvml: Any) -> str | None:
    query = getattr(nvml, "nvmlSystemGetCudaDriverVersion_v2", nvml.nvmlSystemGetCudaDriverVersion)
    try:
        number = query()
    except nvml.NVMLError:
        return None  # a driver older than CUDA 9.2, or without its CUDA part
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def _text(value: str | bytes) -> str:
    """Return the text as str. Bindings before 11.515 return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _read_topology(nvml: Any, gpus: Sequence[_Gpu]) -> None:
    query, error = nvml.nvmlDeviceGetTopologyCommonAncestor, nvml.NVMLError
    for index, gpu in enumerate(gpus):
        topology, uuid, handle = gpu.record["links"]["topology"], gpu.record["uuid"], gpu.handle
        for other in gpus[index + 1 :]:
            try:
                level = gpu_record.TOPOLOGY.get(query(handle, other.handle))
            except error as exc:
                if exc.value in gpu_record.GONE:
                    gpu.fail_if_gone()
                    other.fail_if_gone()
                continue
            topology[other.record["uuid"]] = other.record["links"]["topology"][uuid] = level


def _read_nvlink_peers(gpus: Sequence[_Gpu]) -> None:
    """Record which cards reach each other over NVLink, and the number of direct links. Cards behind NVSwitches have 0 direct links."""
    addresses = {gpu.address for gpu in gpus}
    ends = [gpu.find_far_ends(addresses) for gpu in gpus]
    for index, card in enumerate(gpus):
        peers, uuid, own_ends = card.record["links"]["nvlink_peers"], card.record["uuid"], ends[index]
        for other_index, other in enumerate(gpus[index + 1 :], index + 1):
            reached = card.reaches(other)
            if reached is False:
                continue
            links = max(own_ends.count(other.address), ends[other_index].count(card.address))
            if reached or links:
                peers[other.record["uuid"]] = other.record["links"]["nvlink_peers"][uuid] = links


class _Gone(Exception):
    """The GPU no longer answers."""


class _Calls(dict):
    """The binding's functions. The key "UUID" has the function nvmlDeviceGetUUID. Each function is looked up only once."""

    def __init__(self, nvml: Any) -> None:
        super().__init__()
        self.nvml = nvml
        self.error = nvml.NVMLError

    def __missing__(self, name: str) -> Callable[..., Any]:
        self[name] = function = getattr(self.nvml, "nvmlDeviceGet" + name, _unknown_to_binding)
        return function


def _unknown_to_binding(*dummy: Any) -> None:
    """Replaces a function that an older binding lacks. Returns None."""


class _Device:
    """Queries one GPU or MIG device. If a query fails, the other queries still work."""

    def __init__(self, calls: _Calls, handle: Any, record: Gpu) -> None:
        self.calls = calls
        self.error = calls.error
        self.handle = handle
        self.record = record

    def query(self, name: str, *more: Any) -> Any:
        """Return the answer, or None if the card, the driver or the binding does not know it."""
        try:
            return self.calls[name](self.handle, *more)
        except self.error as exc:
            if exc.value not in _UNKNOWN_TO_CARD:
                self.handle_error(name, exc)
            return None

    def handle_error(self, name: str, exc: Any) -> None:
        """Handle an error other than 'not supported': raise _Gone if the GPU no longer answers, or else record a warning."""
        if exc.value in gpu_record.GONE:
            raise _Gone(str(exc)) from exc
        gpu_record.mark_warning(self.record, "%s: %s" % (name, exc))


class _Gpu(_Device):
    """One GPU, by its index in NVML."""

    def __init__(self, calls: _Calls, index: int) -> None:
        super().__init__(calls, None, gpu_record.empty_record(index))
        self.address: tuple[int, int, int] | None = None  # domain, bus and device on PCI
        self.links_up: list[int] = []

    def read(self) -> None:
        """Fill the record with all values that the GPU reports."""
        try:
            self._read_essentials()
            self._read_properties()
            self._read_mig()
            self._read_health()
            self._read_links_and_power()
        except _Gone as exc:
            gpu_record.mark_failed(self.record, str(exc))
        else:
            gpu_record.rate_health(self.record)

    def is_failed(self) -> bool:
        return self.record["health"]["state"] == "failed"

    def fail_if_gone(self) -> None:
        """Mark this GPU as failed if it no longer answers. Called after a failed query about two GPUs."""
        try:
            self.calls["UUID"](self.handle)
        except self.error as exc:
            gpu_record.mark_failed(self.record, str(exc))

    def _read_essentials(self) -> None:
        """Read the values that advertising needs. Any error here marks the GPU as failed."""
        calls, record = self.calls, self.record
        try:
            self.handle = calls["HandleByIndex"](record["index"])
            record["uuid"] = _text(calls["UUID"](self.handle))
            record["name"] = _text(calls["Name"](self.handle))
        except self.error as exc:
            raise _Gone(str(exc)) from exc
        record["model"] = gpu_record.label_safe(record["name"])

    def _read_properties(self) -> None:
        record, query = self.record, self.query
        pci = query("PciInfo")
        record["pci_bus_id"] = pci and _text(pci.busId)
        self.address = pci and _address(pci)
        record["serial"] = self._serial()
        record["minor_number"] = query("MinorNumber")
        memory = query("MemoryInfo")
        record["memory_mib"] = memory and memory.total >> 20
        capability = query("CudaComputeCapability")
        record["compute_capability"] = capability and "%d.%d" % tuple(capability)
        # An older driver does not report the architecture. In that case, the compute capability decides.
        architecture = gpu_record.ARCHITECTURES.get(query("Architecture"))
        record["architecture"] = architecture or (capability and gpu_record.architecture_of(capability))
        record["numa_node"] = gpu_record.lowest_numa_node(query("MemoryAffinity", _NUMA_WORDS, 0) or ())

    def _serial(self) -> str | None:
        """Return the serial number. None without a warning if the driver does not know it."""
        try:
            return _text(self.calls["Serial"](self.handle))
        except self.error as exc:
            if exc.value in gpu_record.GONE:
                self.handle_error("Serial", exc)
            return None

    def _read_mig(self) -> None:
        mode = self.query("MigMode")
        if mode is None:
            return
        now, pending = ["enabled" if value == 1 else "disabled" for value in mode]
        self.record["mig"] = {"mode": now, "pending": pending}
        if now == "enabled":
            for mig_index in range(self.query("MaxMigDeviceCount") or 0):
                self._read_mig_device(mig_index)

    def _read_mig_device(self, mig_index: int) -> None:
        try:
            handle = self.calls["MigDeviceHandleByIndex"](self.handle, mig_index)
        except self.error as exc:
            if exc.value != _NOT_FOUND:  # no device has this index
                self.handle_error("MigDeviceHandleByIndex", exc)
            return
        query = _Device(self.calls, handle, self.record).query
        attributes, memory = query("Attributes"), query("MemoryInfo")
        slices = (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount, attributes.memorySizeMB) if attributes else (None,) * 3
        self.record["mig_devices"].append(
            {
                "uuid": _text(query("UUID")),
                "profile": gpu_record.profile_of(_text(query("Name")), *slices, self.record["memory_mib"]),
                "memory_mib": memory.total >> 20 if memory else slices[2],
                "gpu_instance_id": query("GpuInstanceId"),
                "compute_instance_id": query("ComputeInstanceId"),
            }
        )

    def _read_health(self) -> None:
        health, query = self.record["health"], self.query
        mode = query("EccMode")
        if mode is not None:
            health["ecc_mode"] = mode[0] == 1
            health["ecc_errors_corrected"] = query("TotalEccErrors", 0, 0)
            health["ecc_errors_uncorrected"] = query("TotalEccErrors", 1, 0)
        rows = query("RemappedRows")
        if rows is not None:
            corrected, uncorrected, pending, failure = rows
            health["remapped_rows"] = {
                "correctable": corrected,
                "uncorrectable": uncorrected,
                "pending": bool(pending),
                "failure": bool(failure),
            }
        single_bit = query("RetiredPages", 0)
        if single_bit is not None:
            health["retired_pages"] = {
                "single_bit": len(single_bit),
                "double_bit": len(query("RetiredPages", 1) or ()),
                "pending": query("RetiredPagesPendingStatus") == 1,
            }

        health["recovery_action"] = self._recovery_action()

    def _recovery_action(self) -> str | None:
        try:
            fields = self.calls["FieldValues"](self.handle, _RECOVERY_ACTION)
        except self.error as exc:
            if exc.value not in _UNKNOWN_FIELD:
                self.handle_error("FieldValues", exc)
            return None
        if not fields or fields[0].nvmlReturn != 0:
            return None
        return gpu_record.RECOVERY_ACTIONS.get(fields[0].value.uiVal, "unknown")

    def _read_links_and_power(self) -> None:
        links, power = self.record["links"], self.record["power"]
        links["nvlink_active"], links["nvlink_total"] = self._nvlinks()
        limit = self.query("PowerManagementLimit")
        power["limit_w"] = None if limit is None else limit / 1000
        mode = self.query("PersistenceMode")
        power["persistence_mode"] = None if mode is None else mode == 1

    def _nvlinks(self) -> tuple[int | None, int | None]:
        """Return the number of active links and of all links; both None for a card without NVLink."""
        query, handle = self.calls["NvLinkState"], self.handle
        states = []
        try:
            for link in range(self.calls.nvml.NVML_NVLINK_MAX_LINKS):
                states.append(query(handle, link))
        except self.error as exc:
            if exc.value not in _END_OF_LINKS:
                self.handle_error("NvLinkState", exc)
        self.links_up = [link for link, state in enumerate(states) if state]
        return (len(self.links_up), len(states)) if states else (None, None)

    def find_far_ends(self, addresses: Collection[Any]) -> list[Any]:
        """Return the card at the other end of each active link. Stop at a link to an NVSwitch, because all other links lead to NVSwitches too."""
        ends: list[Any] = []
        try:
            for link in self.links_up:
                pci = self.calls["NvLinkRemotePciInfo"](self.handle, link)
                end = pci and _address(pci)
                if end is None or end not in addresses:
                    break
                ends.append(end)
        except self.error as exc:
            if exc.value in gpu_record.GONE:
                self.fail_if_gone()
        return ends

    def reaches(self, other: _Gpu) -> bool | None:
        """Return whether tasks can use NVLink between the two cards; None if that is unknown."""
        try:
            status = self.calls["P2PStatus"](self.handle, other.handle, _P2P_BY_NVLINK)
        except self.error as exc:
            if exc.value in gpu_record.GONE:
                self.fail_if_gone()
                other.fail_if_gone()
                return False
            return None
        return None if status is None else status == _P2P_OK


def _address(pci: Any) -> tuple[int, int, int]:
    # Avoid the slow __getattribute__ of pynvml's structures, which decodes texts. These values are numbers, and are read for each card and link.
    number = object.__getattribute__
    return number(pci, "domain"), number(pci, "bus"), number(pci, "device")
