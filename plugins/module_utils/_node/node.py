# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One node: inspects the node, decides its state, and changes the node.

:meth:`Node.inspect` reads, :mod:`.decision` decides, :mod:`.transaction` writes.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence

from .. import _libraries
from .._config import engine_labels
from .._dockerd import flags as dockerd_flags
from .._dockerd import loaded_unit
from .._dockerd.docker_unit import EngineError, Run
from .._dockerd.engine import SBIN, Engine, half_joined, swarm_without_engine
from .._dockerd.flags import UnitFile
from .._errors import GpuSwarmError
from .._files import Move, Snapshot
from .._gpu import binding, nvml
from .._gpu.cards import Card, card_of
from .._isolation_levels import OFF
from .._machine import addresses, hardware, packages, toolkit
from . import devices, devices_state, fault, guard_need, guard_runtime, guard_state, restore
from .card_record import CardRecord
from .decision import Decision, decide
from .devices import Devices
from .devices_state import DevicesState
from .guard_state import GuardState
from .journal import INSERTED, Record, State
from .observation import Observation
from .privilege import require_own_python, require_root
from .result import PRIVATE, result_of
from .transaction import apply, refuse, validate
from .watcher_state import HOME, WatcherState, is_wanted, reported_label

if TYPE_CHECKING:
    from .channel import Channel
    from .guard import Guard
    from .watcher import Watcher


def _editable_paths(units: Iterable[UnitFile]) -> list[str]:
    """Return the paths of an administrator's units."""
    return [unit.path for unit in units if unit.editable]


# The option of dockerd that names the address that other nodes get.
DEFAULT_ADDRESS = "swarm-default-advertise-addr"
# How long an inspection stays valid if the files are the same (seconds).
RECENT_S = 10.0


class Node:
    """The node that a module runs on.

    ``params`` are the options of the module gpu_node. ``run(argv)`` returns ``(rc, stdout, stderr)``. ``move(src,
    dest)`` replaces a file atomically. ``diff`` says whether the result shows how the files change.

    ``facts`` contains the data about the engine and its swarm. A module returns this data even if something else is wrong with the node.
    """

    root = "/"  # the root of the machine's files; tests have their own

    def __init__(self, params: Mapping[str, Any], run: Run, move: Move, diff: bool = False, load: Callable[[], Any] | None = None) -> None:
        self.params = params
        self.facts: dict[str, Any] = {}
        self.valid: bytes | None = None
        self.diff = diff
        self._run = run
        self.move = move
        self.engine = Engine(params["docker_socket"], params["docker_unit"], run)
        self.state = State(params["state_dir"], move)
        self._load = load

    @property
    def channel(self) -> Channel:
        from .channel import Channel  # imported here, because most nodes have no watcher

        return Channel(self.params, self.engine, self.state, self.move)

    @property
    def watcher(self) -> Watcher:
        from .watcher import Machine, Watcher  # imported here, because most nodes have no watcher

        data_root = (self.facts.get("engine") or {}).get("root_dir")
        return Watcher(self.params, self.state, Machine(self._run, self.move, str(self.root), self._load, data_root))

    @property
    def devices(self) -> Devices:
        return Devices(self.params, self._run, self.move, str(self.root))

    @property
    def guard(self) -> Guard:
        from .guard import Guard  # imported here, because most nodes have no guard

        return Guard(self.move, str(self.root))

    @property
    def _cards(self) -> CardRecord:
        return CardRecord(self.params["state_dir"], str(self.root))

    def assess(self) -> dict[str, Any]:
        """Compare the node with its wanted state without changing it. Return the module's result."""
        require_root(self.params)
        observed = self.inspect()
        require_own_python(self.params)
        decision = decide(self.params, observed)
        result = {**result_of(self, observed, decision, decision.changed), **self._try_cuda(observed)}
        # The plan lists the settings that a run will adopt. Warnings about these settings follow when the run adopts them.
        result["warnings"] = [text for text in result["warnings"] if text not in decision.adopted]
        return result

    def converge(self) -> dict[str, Any]:
        """Carry out the decision in one transaction. Return the module's result."""
        require_root(self.params)
        with self.state.lock(self.params["timeout"]):
            libraries_installed = self._install_libraries()
            observed, decision = self._inspect_and_decide()
            label_problem, watcher_removed = None, bool(observed.watcher.drift) and not is_wanted(self.params)
            if watcher_removed:
                refuse(self, observed, decision, decision.action)
                label_problem = self.watcher.remove(self.channel, any(item["service"] for item in observed.containers))
                observed, decision = self._inspect_and_decide()
            with self._guard_installed(observed, decision):
                outcome = apply(self, observed, decision)
            # A task may have started after the first adoption and before the reload.
            unadopted = self.guard.adopt(decision.guard) if decision.guard and decision.changed else []
            if decision.guard_drift and not decision.guard:
                self.guard.remove(self._former_program(observed), self._is_guard_called(outcome["restarted"]))
            observed = observed._replace(devices=self._converge_devices(observed.devices))
            if is_wanted(self.params) and observed.watcher.drift:
                self.watcher.install()
            devices.check(observed.devices)
            self._record_cards(observed)
            result = result_of(self, observed, decision, decision.changed or libraries_installed or watcher_removed)
            result["warnings"] = [*result["warnings"], *unadopted]
        if label_problem and not outcome["restarted"]:
            result["warnings"].append("the swarm's managers show this node's health label until dockerd restarts: %s." % label_problem)
        result.update(outcome)
        return result

    def _record_cards(self, observed: Observation) -> None:
        """Record where each card is, in case a card does not answer later."""
        if self.params["state"] == "absent":
            self._cards.remove()
        elif observed.gpus:
            self._cards.write(observed.cards)

    def _try_cuda(self, observed: Observation) -> dict[str, str | None]:
        """Return why CUDA does not start. Do not start CUDA if a device is missing: drift reports the missing device, and libcuda could create the
        device."""
        if not (self.params.get("try_cuda") and observed.gpus) or observed.devices.problem:
            return {}
        from .._gpu import cuda  # imported here, because only the role verify needs this file

        return {"cuda": cuda.cuda_problem(self.params["nvml_timeout"])}

    def _converge_devices(self, observed: DevicesState) -> DevicesState:
        """Install or remove the service for CUDA's devices if needed, and return the state afterwards."""
        if not observed.drift:
            return observed
        if devices_state.is_wanted(self.params):
            self.devices.install()
        else:
            self.devices.remove()
        return self.devices.inspect()

    @contextlib.contextmanager
    def _guard_installed(self, observed: Observation, decision: Decision) -> Iterator[None]:
        """Install the guard before daemon.json names it. If the change of daemon.json is undone, restore the guard, too."""
        if not (decision.guard and decision.changed):
            yield
            return
        refuse(self, observed, decision, decision.action)
        if not decision.guard_drift:
            self.guard.adopt(decision.guard)  # daemon.json no longer names the guard, and tasks may have started meanwhile
            yield
            return
        with self.guard.restored_on_failure():
            self.guard.install(decision.guard)
            yield

    def _inspect_and_decide(self) -> tuple[Observation, Decision]:
        """Inspect the node and decide. If dockerd must restart, first wait until a drain has moved the tasks that the restart would stop."""
        observed = self.inspect()
        require_own_python(self.params)
        decision = decide(self.params, observed)
        due = decision.action == "restart" and self.params["restart"] == "if_needed" and not decision.refused
        if due and self.params["drain_timeout"] and any(item["service"] for item in observed.containers):
            observed = self._wait_for_drain(observed, decision)
            decision = decide(self.params, observed)
        return observed, decision

    def _wait_for_drain(self, observed: Observation, decision: Decision) -> Observation:
        """Wait for the drain, and return the node's state afterwards. If nobody has edited the node's files meanwhile, read only the containers
        again, so that the node returns to service sooner."""
        began = time.monotonic()
        validate(self, decision)
        self.engine.await_drain(self.params["drain_timeout"])
        units = loaded_unit.read(self.engine.unit_files(), self._run)  # a new drop-in may have flags that conflict with daemon.json
        is_unchanged = units == observed.units and all(Snapshot.take(file.path).data == file.data for file in observed.files)
        if is_unchanged and time.monotonic() - began < RECENT_S:
            with contextlib.suppress(EngineError):
                self.facts["containers"] = self.engine.containers()
                return observed._replace(containers=self.facts["containers"])
        return self.inspect()

    # -- reading -------------------------------------------------------------------------------------------------

    def inspect(self) -> Observation:
        """Read everything once. Raises GpuSwarmError if only the user can fix a problem."""
        observed = self._inspect_all()
        return observed._replace(toolkit_problem=self._toolkit_problem(observed))

    def _inspect_all(self) -> Observation:
        if self.params.get("isolation") is None:
            self.params = {**self.params, "isolation": self._installed_level()}
        missing: list[str] = []
        self._use_libraries()
        engine, units = self._inspect_engine(missing)
        nvml_reading = self._read_gpus(missing)
        if _libraries.is_from_controller("tomli", self.params["library_path"]):
            missing.append("toml_parser")
        toolkit_version = toolkit.read_version(self._run, SBIN)
        daemon, runtime = (Snapshot.take(self.params[name]) for name in ("daemon_config", "runtime_config"))
        missing += self._missing_toolkit(toolkit_version, runtime)
        others = [Snapshot.take(path) for path in self._other_paths(units)]
        record = self.state.record_with_journal([daemon, runtime, *others])
        editable_units = [snapshot for snapshot in others if snapshot.path in _editable_paths(units) or restore.is_unit(record.get(snapshot.path))]
        former_files = [snapshot for snapshot in others if snapshot not in editable_units]
        guard = self._guard_state()
        return Observation(
            gpus=nvml_reading["gpus"],
            driver_version=nvml_reading["driver_version"],
            cuda_version=nvml_reading["cuda_version"],
            daemon=daemon,
            runtime=runtime,
            record=restore.with_copies(record, [daemon, runtime], former_files),
            engine=engine,
            containers=self.facts["containers"],
            toolkit_version=toolkit_version,
            missing=missing,
            system_memory_mib=hardware.system_memory_mib() if nvml_reading["gpus"] else None,
            cpu=hardware.cpu() if nvml_reading["gpus"] else None,
            units=units,
            unit_problem=loaded_unit.find_misread(units, engine, self._run) if engine and self.params["state"] == "present" else None,
            editable_units=editable_units,
            held_packages=packages.held_packages(self.root) if toolkit_version else [],
            unfinished=self.params["state"] != "gathered" and self.state.unfinished(),
            former_files=former_files,
            watcher=self._watcher_state(daemon, engine),
            guard=guard,
            devices=self.devices.inspect(),
            offered=self._offered(guard, engine),
            cards=self._located_cards(nvml_reading["gpus"], record),
        )

    def _located_cards(self, gpus: Sequence[Mapping[str, Any]], record: Record) -> Sequence[Card]:
        """Return the record of the node's cards, updated with the cards that NVML shows now."""
        if not gpus:
            return ()
        return self._cards.updated_with(list(map(card_of, gpus)), fault.advertised_on_record(record, self.params["daemon_config"]))

    def _toolkit_problem(self, observed: Observation) -> str | None:
        """Return why NVIDIA's toolkit cannot give GPUs to containers. Do not try the toolkit if a card has failed, because the decision says more
        about the card."""
        if not devices_state.is_wanted(self.params) or not observed.gpus or any(gpu["health"]["state"] == "failed" for gpu in observed.gpus):
            return None
        from . import trial  # imported here: most nodes have no GPUs

        command, digest = trial.trial_for_node(self.params, observed, self._advertised_uuids())
        last_result = (observed.watcher.status or {}).get("tried")
        return None if last_result == {"inputs": digest, "problem": None} else trial.find_problem(self._run, command)

    def _use_libraries(self) -> None:
        _libraries.add_to_path(self.params["library_path"], self.params["state_dir"])
        if self.params["advertise"] and self.params["state"] == "present" and not self.params["library_path"]:
            binding.find_binding()  # this raises an error if the library is missing; the controller then sends the library and calls the module again

    def _former_program(self, observed: Observation) -> str:
        """Return the program of the runtime nvidia before the guard."""
        return guard_runtime.former_program((observed.record.get(self.params["daemon_config"]) or {}).get(INSERTED, {}))

    def _is_guard_called(self, restarted: bool) -> bool:
        """Return whether dockerd or a container still uses the guard's path. Read the containers again, because a container may start at any
        moment."""
        engine = self.engine.inspect()
        if guard_runtime.names_guard(Snapshot.take(self.params["daemon_config"]).data) or guard_runtime.runs_program(engine, self._guard_program()):
            return True
        stopped = restarted and not (engine or {}).get("live_restore")  # containers that started after the restart do not use the guard
        return bool(engine and engine["running"] and not stopped and self.engine.containers())

    def _guard_program(self) -> str:
        return GuardState(os.path.join(str(self.root), guard_state.HOME)).program

    def _installed_level(self) -> str:
        """Return the level of the installed guard; ``off`` without a guard, ``reserved`` if its settings are unreadable."""
        report = self.guard.inspect().report() if os.path.lexists(os.path.join(str(self.root), guard_state.HOME)) else None
        return guard_state.level_of(report) or OFF

    def _guard_state(self) -> GuardState:
        home = os.path.join(str(self.root), guard_state.HOME)
        return self.guard.inspect() if guard_need.may_be_wanted(self.params) or os.path.lexists(home) else GuardState(home)

    def _offered(self, guard: GuardState, engine: Mapping[str, Any] | None) -> dict[str, list[str]]:
        """Return {name: paths} of the devices that a service gets now if it asks for the name. Raises GpuSwarmError if the setting is wrong.

        If this run may not change the guard, the installed guard decides.
        """
        installed = (guard.settings or {}).get(guard_state.OFFERED) if guard.front is not None and self.params["state"] != "absent" else None
        globs = (self.params.get("devices") if self.params["advertise"] else None) if guard_need.is_changeable(self.params) else installed
        if not globs:
            return {}
        from .._guard import engine_record, offered  # imported here, because most nodes offer no devices
        from .._policy import offered_devices

        where = "gpu_swarm_devices (gpu_node_devices)"
        try:
            offered_devices.check(globs, where)
            found = {name: [device.path for device in offered.expand(paths, str(self.root)).devices] for name, paths in globs.items()}
        except (GpuSwarmError, ValueError) as problem:
            if globs is installed:  # the guard refuses whoever asks
                return {}
            if isinstance(problem, GpuSwarmError):
                raise
            raise GpuSwarmError("%s: %s. Write paths that match fewer devices." % (where, problem)) from problem
        # The guard then gives no task a device.
        withheld = guard.turned_off or engine_record.is_remapped((engine or {}).get("root_dir") or "")
        return {name: [] for name in found} if withheld else found

    def _watcher_state(self, daemon: Snapshot, engine: Mapping[str, Any] | None) -> WatcherState:
        if is_wanted(self.params):
            return self.watcher.inspect(self.channel.blocked(daemon, engine), self.channel.shown_label(engine))
        return self.watcher.inspect(None) if self.state.contains(HOME) else WatcherState((), None, None)

    def _missing_toolkit(self, toolkit_version: str | None, runtime: Snapshot) -> list[str]:
        """Return the parts of the toolkit that the node lacks."""
        missing = []
        if toolkit_version is None and not runtime.existed and self.params["state"] != "absent":
            missing.append("toolkit")
        if toolkit_version and packages.is_half_installed(self.root):
            missing.append("toolkit_packages")
        return missing

    def _other_paths(self, units: Iterable[UnitFile]) -> list[str]:
        """Return the files that may be written besides the files in the options: an administrator's units, and files on record."""
        options = [os.path.realpath(self.params[name]) for name in ("daemon_config", "runtime_config")]
        recorded = [path for path in self.state.recorded_paths() if os.path.realpath(path) not in options]
        return list(dict.fromkeys(_editable_paths(units) + recorded))

    def _inspect_engine(self, missing: list[str]) -> tuple[dict[str, Any] | None, list[UnitFile]]:
        """Return the engine, and the files that decide how dockerd is started."""
        engine = self.engine.inspect()
        if engine is None:
            missing.append("engine")
            self.facts = {"engine": None, "swarm": swarm_without_engine(), "containers": []}
            return None, []
        units = loaded_unit.read(engine["unit_files"], self._run)
        engine["unit_flags"] = dockerd_flags.started_with(units, {})[1:]
        swarm = engine["swarm"]
        swarm["half_joined"] = half_joined(swarm["state"], engine["root_dir"])
        self.facts = {
            **({"images": self.engine.images()} if self.params.get("look_for_images") and engine["running"] else {}),
            "engine": {
                **{key: value for key, value in engine.items() if key not in PRIVATE},
                "lost_at_reload": engine_labels.blocking_flags(engine["flags"] or ()),
            },
            "swarm": swarm,
            "containers": self.engine.containers() if engine["running"] else [],
        }
        swarm.update(undecided=self._ambiguous_addresses(engine), addresses=addresses.addresses_by_interface())
        return engine, units

    def _ambiguous_addresses(self, engine: Mapping[str, Any]) -> list[str]:
        """Return the addresses that Docker cannot choose between. With such addresses, Docker refuses to start a swarm on this node."""
        settings = [*engine["flags"], *engine["unit_flags"], str(Snapshot.take(self.params["daemon_config"]).data)]
        if not engine["running"] or engine["swarm"]["state"] == "active" or any(DEFAULT_ADDRESS in str(text) for text in settings):
            return []
        return addresses.ambiguous_addresses()

    def _read_gpus(self, missing: list[str]) -> dict[str, Any]:
        if not self.params["advertise"] or self.params["state"] != "present":
            return {"gpus": [], "driver_version": None, "cuda_version": None}
        reading = self._read_nvml(retry=True)
        if _libraries.is_from_controller("pynvml", self.params["library_path"]):
            missing.append("nvml_binding")
        if not reading["gpus"]:
            raise GpuSwarmError(
                "NVML finds no GPU on this node, though driver %s is loaded. Check 'lspci -d 10de:' and "
                "'dmesg | grep -i nvrm', or remove the host from the group gpu_nodes." % reading["driver_version"],
                fault=fault.fault_from_gpus([], self._advertised_uuids(), ()),
            )
        return reading

    def _read_nvml(self, retry: bool, hung: bool = False) -> dict[str, Any]:
        """Read NVML. If ``retry`` is true, read a second time after a failure, so that one failure does not pause the node. If the watcher reports
        the same failure, one reading is enough. If NVML ``hung``, wait a shorter time."""
        limit_s = fault.nvml_limit_s(self.params["nvml_timeout"], hung, self._reported_label())
        try:
            return nvml.read_within(limit_s, self.params["nvml_path"], self.params["library_path"])
        except GpuSwarmError as problem:
            hung = bool(problem.details.get("hangs"))
            failure = fault.fault_from_error(problem.details, self._advertised_uuids(), hardware.uptime_s())
            if not (retry and failure) or fault.is_already_reported(failure, self._reported_label()):
                problem.details["fault"] = failure
                raise
        return self._read_nvml(retry=False, hung=hung)

    def _reported_label(self) -> str | None:
        """Return the label that the watcher reports."""
        return reported_label(str(self.root)) if is_wanted(self.params) or self.state.contains(HOME) else None

    def _advertised_uuids(self) -> list[str]:
        """Return the UUIDs that this node advertises."""
        path = self.params["daemon_config"]
        return fault.advertised_on_record(self.state.record_with_journal([Snapshot.take(path)]), path)

    # -- small parts ---------------------------------------------------------------------------------------------

    def _install_libraries(self) -> bool:
        """Install the libraries that the controller sent, so that the controller need not send them in later runs."""
        path = self.params["library_path"]
        return bool(path) and os.path.isfile(path) and _libraries.install(path, self.params["state_dir"])
