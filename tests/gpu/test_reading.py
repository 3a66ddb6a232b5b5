# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares gpu_info with nvidia-smi on the same machine."""

from __future__ import annotations

import pytest

NONE = ("N/A", "Requested functionality has been deprecated", "")


def value(of, path):
    text = (of.findtext(path) or "").strip()
    return None if text in NONE else text


def number(of, path):
    text = value(of, path)
    return None if text is None else float(text.split()[0])


def switch(of, path):
    text = value(of, path)
    return None if text is None else text == "Enabled"


def both(found, smi):
    cards = {value(card, "uuid"): card for card in smi.findall("gpu")}
    assert cards
    assert {gpu["uuid"] for gpu in found["gpus"]} == set(cards)
    return [(gpu, cards[gpu["uuid"]]) for gpu in found["gpus"]]


def test_the_driver_has_the_version_of_nvidia_smi(found, smi):
    assert found["driver_version"] == value(smi, "driver_version")
    assert found["cuda_version"] == value(smi, "cuda_version")
    assert found["nvml_version"].endswith(found["driver_version"])


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (lambda gpu: gpu["name"], lambda card: value(card, "product_name")),
        (lambda gpu: gpu["pci_bus_id"].lower(), lambda card: value(card, "pci/pci_bus_id").lower()),
        (lambda gpu: gpu["minor_number"], lambda card: number(card, "minor_number")),
        (lambda gpu: gpu["memory_mib"], lambda card: number(card, "fb_memory_usage/total")),
        (lambda gpu: gpu["architecture"], lambda card: value(card, "product_architecture").split()[0].lower()),
        (lambda gpu: gpu["mig"]["mode"], lambda card: value(card, "mig_mode/current_mig") and value(card, "mig_mode/current_mig").lower()),
        (lambda gpu: gpu["mig"]["pending"], lambda card: value(card, "mig_mode/pending_mig") and value(card, "mig_mode/pending_mig").lower()),
        (lambda gpu: gpu["health"]["ecc_mode"], lambda card: switch(card, "ecc_mode/current_ecc")),
        (lambda gpu: gpu["power"]["persistence_mode"], lambda card: switch(card, "persistence_mode")),
        (lambda gpu: gpu["power"]["limit_w"], lambda card: number(card, "gpu_power_readings/current_power_limit")),
    ],
    ids=["name", "PCI address", "minor number", "memory", "architecture", "MIG", "MIG pending", "ECC", "persistence mode", "power limit"],
)
def test_a_card_has_the_values_of_nvidia_smi(found, smi, field, shown):
    for gpu, card in both(found, smi):
        assert field(gpu) == shown(card)


def test_remapped_rows_are_those_of_nvidia_smi(found, smi):
    for gpu, card in both(found, smi):
        rows = gpu["health"]["remapped_rows"]
        if rows is None:
            assert number(card, "remapped_rows/remapped_row_unc") is None
            continue
        assert rows["correctable"] == number(card, "remapped_rows/remapped_row_corr")
        assert rows["uncorrectable"] == number(card, "remapped_rows/remapped_row_unc")
        assert rows["failure"] == (value(card, "remapped_rows/remapped_row_failure") == "Yes")


def test_mig_devices_are_those_of_nvidia_smi(found, smi):
    for gpu, card in both(found, smi):
        devices = [(number(one, "gpu_instance_id"), number(one, "compute_instance_id")) for one in card.findall("mig_devices/mig_device")]
        assert [(one["gpu_instance_id"], one["compute_instance_id"]) for one in gpu["mig_devices"]] == devices


def test_a_working_card_is_healthy(found):
    assert [(gpu["health"]["state"], gpu["health"]["reasons"]) for gpu in found["gpus"]] == [("ok", [])] * len(found["gpus"])
    assert {gpu["health"]["recovery_action"] for gpu in found["gpus"]} <= {"none", None}
