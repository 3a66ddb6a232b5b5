# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One node: inspects it, decides its state, and changes it.

:meth:`Node.inspect` reads, :mod:`.decision` decides, :mod:`.transaction` writes.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping

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
from .._gpu.cards import card_of
from .._isolation_levels import OFF
from .._machine import addresses, hardware, packages, toolkit
from . import devices, devices_state, fault, guard_need, guard_runtime, guard_state, restore
from .card_record import CardRecord
from .decision import Decision, decide
from .devices import Devices
from .devices_state import DevicesSeen
from .guard_state import GuardSeen
from .journal import INSERTED, State
from .observation import Observation
from .privilege import require_own_python, require_root
from .result import PRIVATE, result_of
from .transaction import apply, refuse, validate
from .watcher_state import HOME, WatcherSeen, is_wanted, reported

if TYPE_CHECKING:
    from .channel import Channel
    from .guard import Guard
    from .watcher import Watcher


def _own(units: Iterable[UnitFile]) -> list[str]:
    """Return the paths of an administrator's units."""
    return [one.path for one in units if one.editable]


# The option of dockerd that names the address that other nodes get.
DEFAULT_ADDRESS = "swarm-default-advertise-addr"
# How long an inspection stays valid if the files are the same (seconds).
RECENT_S = 10.0


class Node:
    """The node that a module runs on.

    ``params`` are the options of the module gpu_node, ``run(argv)`` returns ``(rc, stdout, stderr)``, ``move(src,
    dest)`` replaces a file atomically, ``diff`` says whether the result shows how the files change.

    ``facts`` is what is known about the engine and its swarm. It is returned even if something else is wrong with the node.
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
        from .channel import Channel  # imported here: most nodes have no watcher and need not load it

        return Channel(self.params, self.engine, self.state, self.move)

    @property
    def watcher(self) -> Watcher:
        from .watcher import Machine, Watcher  # as above

        data_root = (self.facts.get("engine") or {}).get("root_dir")
        return Watcher(self.params, self.state, Machine(self._run, self.move, str(self.root), self._load, data_root))

    @property
    def devices(self) -> Devices:
        return Devices(self.params, self._run, self.move, str(self.root))

    @property
    def guard(self) -> Guard:
        from .guard import Guard  # as above

        return Guard(self.move, str(self.root))

    @property
    def _cards(self) -> CardRecord:
        return CardRecord(self.params["state_dir"], str(self.root))

    def assess(self) -> dict[str, Any]:
        """Compare the node with its wanted state, and change nothing. Return the module's result."""
        require_root(self.params)
        seen = self.inspect()
        require_own_python(self.params)
        decision = decide(self.params, seen)
        result = {**result_of(self, seen, decision, decision.changed), **self._cuda(seen)}
        # The plan lists adopted settings. They become warnings once they are adopted.
        result["warnings"] = [text for text in result["warnings"] if text not in decision.adopted]
        return result

    def converge(self) -> dict[str, Any]:
        """Carry out the decision in one transaction. Return the module's result."""
        require_root(self.params)
        with self.state.lock(self.params["timeout"]):
            installed = self._install_libraries()
            seen, decision = self._decided()
            left, removed = None, bool(seen.watcher.drift) and not is_wanted(self.params)
            if removed:
                refuse(self, seen, decision, decision.act)
                left = self.watcher.remove(self.channel, any(item["service"] for item in seen.containers))
                seen, decision = self._decided()
            with self._guard_installed(seen, decision):
                done = apply(self, seen, decision)
            # A task may have started after the others were read and before the reload.
            unread = self.guard.adopt(decision.guard) if decision.guard and decision.changed else []
            if decision.guard_drift and not decision.guard:
                self.guard.remove(self._program_before(seen), self._guard_called(done["restarted"]))
            seen = seen._replace(devices=self._devices_made(seen.devices))
            if is_wanted(self.params) and seen.watcher.drift:
                self.watcher.install()
            devices.check(seen.devices)
            self._keep_cards(seen)
            result = result_of(self, seen, decision, decision.changed or installed or removed)
            result["warnings"] = [*result["warnings"], *unread]
        if left and not done["restarted"]:
            result["warnings"].append("the swarm's managers show this node's health label until dockerd starts anew: %s." % left)
        result.update(done)
        return result

    def _keep_cards(self, seen: Observation) -> None:
        """Record where each card is, in case one does not answer later."""
        if self.params["state"] == "absent":
            self._cards.remove()
        elif seen.gpus:
            self._cards.write(seen.cards)

    def _cuda(self, seen: Observation) -> dict[str, str | None]:
        """Return why CUDA does not start. Not tried if a device is missing: drift reports that, and libcuda could create the device."""
        if not (self.params.get("try_cuda") and seen.gpus) or seen.devices.problem:
            return {}
        from .._gpu import cuda  # only for the role verify

        return {"cuda": cuda.cuda_problem(self.params["nvml_timeout"])}

    def _devices_made(self, seen: DevicesSeen) -> DevicesSeen:
        """Install or remove the service for CUDA's devices if needed, and return the state afterwards."""
        if not seen.drift:
            return seen
        if devices_state.is_wanted(self.params):
            self.devices.install()
        else:
            self.devices.remove()
        return self.devices.inspect()

    @contextlib.contextmanager
    def _guard_installed(self, seen: Observation, decision: Decision) -> Iterator[None]:
        """Install the guard before daemon.json names it. If that change is undone, restore the guard as well."""
        if not (decision.guard and decision.changed):
            yield
            return
        refuse(self, seen, decision, decision.act)
        if not decision.guard_drift:
            self.guard.adopt(decision.guard)  # only daemon.json lost it: tasks that started since hold their GPUs before the guard is called again
            yield
            return
        with self.guard.restored_on_failure():
            self.guard.install(decision.guard)
            yield

    def _decided(self) -> tuple[Observation, Decision]:
        """Inspect and decide. If a restart is due, first wait until a drain has ended the tasks that it would stop."""
        seen = self.inspect()
        require_own_python(self.params)
        decision = decide(self.params, seen)
        due = decision.act == "restart" and self.params["restart"] == "if_needed" and not decision.refused
        if due and self.params["drain_timeout"] and any(item["service"] for item in seen.containers):
            seen = self._drained(seen, decision)
            decision = decide(self.params, seen)
        return seen, decision

    def _drained(self, seen: Observation, decision: Decision) -> Observation:
        """Return the node once its tasks have ended. If nobody has edited its files meanwhile, only its containers are read again, so that it is
        back in service sooner."""
        began = time.monotonic()
        validate(self, decision)
        self.engine.await_drain(self.params["drain_timeout"])
        units = loaded_unit.read(self.engine.unit_files(), self._run)  # a new drop-in may have flags that conflict with the file
        same = units == seen.units and all(Snapshot.take(one.path).data == one.data for one in seen.files)
        if same and time.monotonic() - began < RECENT_S:
            with contextlib.suppress(EngineError):
                self.facts["containers"] = self.engine.containers()
                return seen._replace(containers=self.facts["containers"])
        return self.inspect()

    # -- reading -------------------------------------------------------------------------------------------------

    def inspect(self) -> Observation:
        """Read everything once. Raises GpuSwarmError if only the user can fix a problem."""
        seen = self._inspect()
        return seen._replace(tried=self._tried(seen))

    def _inspect(self) -> Observation:
        if self.params.get("isolation") is None:
            self.params = {**self.params, "isolation": self._level_there()}
        missing: list[str] = []
        self._use_libraries()
        engine, units = self._engine(missing)
        read = self._gpus(missing)
        if _libraries.is_from_controller("tomli", self.params["library_path"]):
            missing.append("toml_parser")
        version = toolkit.read_version(self._run, SBIN)
        daemon, runtime = (Snapshot.take(self.params[name]) for name in ("daemon_config", "runtime_config"))
        missing += self._lacking(version, runtime)
        others = [Snapshot.take(path) for path in self._other_paths(units)]
        record = self.state.record_of([daemon, runtime, *others])
        own = [one for one in others if one.path in _own(units) or restore.is_unit(record.get(one.path))]
        left = [one for one in others if one not in own]
        return Observation(
            gpus=read["gpus"],
            driver_version=read["driver_version"],
            cuda_version=read["cuda_version"],
            daemon=daemon,
            runtime=runtime,
            record=restore.with_copies(record, [daemon, runtime], left),
            engine=engine,
            containers=self.facts["containers"],
            toolkit_version=version,
            missing=missing,
            system_memory_mib=hardware.system_memory_mib() if read["gpus"] else None,
            cpu=hardware.cpu() if read["gpus"] else None,
            units=units,
            misread=loaded_unit.misread(units, engine, self._run) if engine and self.params["state"] == "present" else None,
            own=own,
            held=packages.held_packages(self.root) if version else [],
            unfinished=self.params["state"] != "gathered" and self.state.unfinished(),
            left=left,
            watcher=self._watcher_seen(daemon, engine),
            guard=self._guard_seen(),
            devices=self.devices.inspect(),
            cards=self._cards.after(list(map(card_of, read["gpus"])), fault.expected(record, self.params["daemon_config"])) if read["gpus"] else (),
        )

    def _tried(self, seen: Observation) -> str | None:
        """Return why NVIDIA's toolkit gives GPUs to no container. Not tried if a card has failed: the decision says more about that."""
        if not devices_state.is_wanted(self.params) or not seen.gpus or any(gpu["health"]["state"] == "failed" for gpu in seen.gpus):
            return None
        from . import trial  # imported here: most nodes have no GPUs

        one, inputs = trial.of_node(self.params, seen, self._expected())
        known = (seen.watcher.status or {}).get("tried")
        return None if known == {"inputs": inputs, "problem": None} else trial.problem(self._run, one)

    def _use_libraries(self) -> None:
        _libraries.add_to_path(self.params["library_path"], self.params["state_dir"])
        if self.params["advertise"] and self.params["state"] == "present" and not self.params["library_path"]:
            binding.find_binding()  # if it is missing, stop here: the controller sends it and calls again

    def _program_before(self, seen: Observation) -> str:
        """Return the program of the runtime nvidia before the guard."""
        return guard_runtime.former_program((seen.record.get(self.params["daemon_config"]) or {}).get(INSERTED, {}))

    def _guard_called(self, restarted: bool) -> bool:
        """Return whether dockerd or a container still uses the guard's path. Called last, because containers start at any moment."""
        engine = self.engine.inspect()
        if guard_runtime.names_guard(Snapshot.take(self.params["daemon_config"]).data) or guard_runtime.runs_program(engine, self._guard_program()):
            return True
        stopped = restarted and not (engine or {}).get("live_restore")  # containers started since the restart do not use it
        return bool(engine and engine["running"] and not stopped and self.engine.containers())

    def _guard_program(self) -> str:
        return GuardSeen(os.path.join(str(self.root), guard_state.HOME)).program

    def _level_there(self) -> str:
        """Return the level of the installed guard, ``off`` without one. If its settings cannot be read, it stays and hides GPUs."""
        there = self.guard.inspect().report() if os.path.lexists(os.path.join(str(self.root), guard_state.HOME)) else None
        return guard_state.level_of(there) or OFF

    def _guard_seen(self) -> GuardSeen:
        home = os.path.join(str(self.root), guard_state.HOME)
        return self.guard.inspect() if guard_need.may_be_wanted(self.params) or os.path.lexists(home) else GuardSeen(home)

    def _watcher_seen(self, daemon: Snapshot, engine: Mapping[str, Any] | None) -> WatcherSeen:
        if is_wanted(self.params):
            return self.watcher.inspect(self.channel.blocked(daemon, engine), self.channel.shown(engine))
        return self.watcher.inspect(None) if self.state.has(HOME) else WatcherSeen((), None, None)

    def _lacking(self, toolkit_version: str | None, runtime: Snapshot) -> list[str]:
        """Return what the node lacks of the toolkit."""
        lacking = []
        if toolkit_version is None and not runtime.existed and self.params["state"] != "absent":
            lacking.append("toolkit")
        if toolkit_version and packages.is_half_installed(self.root):
            lacking.append("toolkit_packages")
        return lacking

    def _other_paths(self, units: Iterable[UnitFile]) -> list[str]:
        """Return the files that may be written besides those in the options: an administrator's units, and files on record."""
        options = [os.path.realpath(self.params[name]) for name in ("daemon_config", "runtime_config")]
        known = [path for path in self.state.known() if os.path.realpath(path) not in options]
        return list(dict.fromkeys(_own(units) + known))

    def _engine(self, missing: list[str]) -> tuple[dict[str, Any] | None, list[UnitFile]]:
        """Return the engine, and the files that decide how it is started."""
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
        swarm.update(undecided=self._undecided(engine), addresses=addresses.addresses_by_interface())
        return engine, units

    def _undecided(self, engine: Mapping[str, Any]) -> list[str]:
        """Return the addresses between which Docker could not choose, if this node may start a swarm."""
        settled = [*engine["flags"], *engine["unit_flags"], str(Snapshot.take(self.params["daemon_config"]).data)]
        if not engine["running"] or engine["swarm"]["state"] == "active" or any(DEFAULT_ADDRESS in str(text) for text in settled):
            return []
        return addresses.ambiguous_addresses()

    def _gpus(self, missing: list[str]) -> dict[str, Any]:
        if not self.params["advertise"] or self.params["state"] != "present":
            return {"gpus": [], "driver_version": None, "cuda_version": None}
        found = self._read_nvml(again=True)
        if _libraries.is_from_controller("pynvml", self.params["library_path"]):
            missing.append("nvml_binding")
        if not found["gpus"]:
            raise GpuSwarmError(
                "NVML finds no GPU on this node, though driver %s is loaded. Check 'lspci -d 10de:' and "
                "'dmesg | grep -i nvrm', or take the host out of the group gpu_nodes." % found["driver_version"],
                fault=fault.of_node([], self._expected(), ()),
            )
        return found

    def _read_nvml(self, again: bool, hung: bool = False) -> dict[str, Any]:
        """Read NVML. After a failure that the watcher does not report too, read ``again``, so that one failure does not pause the node. If NVML
        ``hung``, it gets less time."""
        limit_s = fault.limit_s(self.params["nvml_timeout"], hung, self._reported())
        try:
            return nvml.read_within(limit_s, self.params["nvml_path"], self.params["library_path"])
        except GpuSwarmError as problem:
            hung = bool(problem.details.get("hangs"))
            found = fault.of_error(problem.details, self._expected(), hardware.uptime_s())
            if not (again and found) or fault.is_reported(found, self._reported()):
                problem.details["fault"] = found
                raise
        return self._read_nvml(again=False, hung=hung)

    def _reported(self) -> str | None:
        """Return the label that the watcher reports."""
        return reported(str(self.root)) if is_wanted(self.params) or self.state.has(HOME) else None

    def _expected(self) -> list[str]:
        """Return the UUIDs that this node advertises."""
        path = self.params["daemon_config"]
        return fault.expected(self.state.record_of([Snapshot.take(path)]), path)

    # -- small parts ---------------------------------------------------------------------------------------------

    def _install_libraries(self) -> bool:
        """Install the libraries that the controller sent, so that it need not send them again."""
        path = self.params["library_path"]
        return bool(path) and os.path.isfile(path) and _libraries.install(path, self.params["state_dir"])
