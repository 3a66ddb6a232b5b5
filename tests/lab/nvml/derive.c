/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Derives values that the text file leaves out, always the same ones: UUIDs from seed and index, PCI addresses from
 * the index, the architecture from the compute capability. */
#include "machine.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

static uint64_t digest(const char *seed, const char *what, long number)
{
    uint64_t hash = 0xcbf29ce484222325ULL;
    char text[400];
    snprintf(text, sizeof text, "%s/%s/%ld", seed, what, number);
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3ULL;
    return mix(hash);
}

/* GPUs of one board share the first eight digits, like the two halves of a K80. */
static void derive_uuid(struct unit *unit, const char *prefix, const char *seed, long number, long board)
{
    uint64_t high = digest(seed, prefix, number), low = mix(high ^ 0x9e3779b97f4a7c15ULL);
    uint32_t first = (uint32_t)(board >= 0 ? digest(seed, "board", board) : high >> 32);
    if (!*unit->uuid)
        snprintf(unit->uuid, sizeof unit->uuid, "%s-%08x-%04x-%04x-%04x-%012llx", prefix, first,
                 (unsigned)(high >> 16) & 0xffff, ((unsigned)high & 0x0fff) | 0x5000, (unsigned)(low >> 50) | 0x8000,
                 (unsigned long long)(low & 0xffffffffffffULL));
}

static long architecture_of(int major, int minor)
{
    static const long BY_MAJOR[] = {0, 0, 0, 2, 0, 3, 4, 5, 7, 9, 10, 10, 10};
    if (major == 7 && minor >= 5)
        return 6;
    if (major == 8 && minor == 9)
        return 8;
    if (major < 0 || major >= (int)(sizeof BY_MAJOR / sizeof *BY_MAJOR) || !BY_MAJOR[major])
        return UNSUPPORTED;
    return BY_MAJOR[major];
}

static void derive_gpu(struct machine *machine, struct unit *gpu)
{
    int major = 0, minor = 0;
    long index = gpu->index;
    if (!*gpu->name)
        strcpy(gpu->name, "NVIDIA Graphics Device");
    derive_uuid(gpu, "GPU", machine->seed, index, gpu->board);
    if (!*gpu->serial && gpu->ecc != UNSUPPORTED) /* only cards for servers have one */
        snprintf(gpu->serial, sizeof gpu->serial, "13%011llu", (unsigned long long)(digest(machine->seed, "serial", index) % 100000000000ULL));
    if (!*gpu->pci)
        snprintf(gpu->pci, sizeof gpu->pci, "00000000:%02lX:00.0", 0x17 + 0x11 * (index % 13) + index / 13);
    if (gpu->minor == DERIVED)
        gpu->minor = index;
    if (sscanf(gpu->compute, "%d.%d", &major, &minor) == 2 && gpu->architecture == DERIVED)
        gpu->architecture = architecture_of(major, minor);
    if (gpu->architecture == DERIVED)
        gpu->architecture = UNSUPPORTED;
    /* Since Ampere, row remapping replaces page retirement. Both exist only with ECC. */
    if (gpu->remapped == DERIVED)
        gpu->remapped = gpu->ecc != UNSUPPORTED && major >= 8 ? 1 : UNSUPPORTED;
    if (gpu->retired == DERIVED)
        gpu->retired = gpu->ecc != UNSUPPORTED && major < 8 ? 1 : UNSUPPORTED;
    if (gpu->recovery_action == DERIVED)
        gpu->recovery_action = major >= 8 ? 0 : UNSUPPORTED;
    if (gpu->throttle == DERIVED)
        gpu->throttle = gpu->utilisation ? 0 : 1; /* an idle card says so */
    long from_card_to_card = 0;
    for (int i = 0; i < machine->gpu_count; i++)
        from_card_to_card += i == index ? 0 : machine->nvlinks[index][i];
    if (!gpu->nvlinks)
        gpu->nvlinks = from_card_to_card;
    if (gpu->nvlinks_active == DERIVED)
        gpu->nvlinks_active = gpu->nvlinks;
    if (gpu->mig_pending == DERIVED)
        gpu->mig_pending = gpu->mig;
    for (int i = 0; i < gpu->mig_count; i++) {
        struct unit *mig = &gpu->mig_devices[i];
        snprintf(mig->name, sizeof mig->name, "%.60s MIG %.30s", gpu->name, mig->profile);
        derive_uuid(mig, "MIG", machine->seed, index * MAX_MIG + i, -1);
    }
}

void machine_derive(struct machine *machine)
{
    if (!*machine->seed && gethostname(machine->seed, sizeof machine->seed - 1))
        strcpy(machine->seed, "lab");
    if (!*machine->nvml) /* NVIDIA's form: CUDA's major version before the driver's version */
        snprintf(machine->nvml, sizeof machine->nvml, "%.*s.%.60s", (int)strcspn(machine->cuda, "."), machine->cuda,
                 machine->driver);
    for (int i = 0; i < machine->gpu_count; i++)
        derive_gpu(machine, &machine->gpus[i]);
}
