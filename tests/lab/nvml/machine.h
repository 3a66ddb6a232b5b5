/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The content of the text file: one struct machine, filled by machine_read(). */
#ifndef LAB_MACHINE_H
#define LAB_MACHINE_H

#include "nvml.h"

#define MAX_GPUS 32
#define MAX_MIG 8
#define MAX_FAULTS 16
#define MAX_XIDS 64
#define UNSUPPORTED (-1L) /* NVML answers NotSupported */
#define DERIVED (-2L)     /* not in the file: derived from other values */
#define HANGS (-3L)       /* instead of an error: the call never returns */

enum kind { GPU = 0x67707531, MIG_DEVICE = 0x6d696731 }; /* also distinguishes a handle from any other pointer */

struct fault {
    char function[64];
    long error;
};

/* A GPU or a MIG device. Handles point to it. */
struct unit {
    enum kind kind;
    struct unit *parent;
    unsigned int index; /* NVML's index */
    char name[NVML_NAME_SIZE], uuid[NVML_UUID_SIZE], serial[NVML_SERIAL_SIZE], pci[32], compute[16], profile[32];
    long memory, board, minor, numa, architecture, power_limit, persistence, nvlinks, nvlinks_active;
    long ecc, ecc_corrected, ecc_uncorrected;
    long remapped, remapped_correctable, remapped_uncorrectable, remapped_pending, remapped_failure;
    long retired, retired_single, retired_double, retired_pending;
    long recovery_action, events, xids[MAX_XIDS];
    int xid_count;
    long temperature, power, utilisation, memory_used, sm_clock, throttle; /* throttle: NVML's bits */
    long mig, mig_pending, gpu_instance, compute_instance, slices, compute_slices;
    long lost_after; /* calls that still work; DERIVED: never lost */
    long calls;
    struct fault faults[MAX_FAULTS];
    int fault_count;
    int mig_count;
    struct unit *mig_devices;
};

struct machine {
    char driver[80], nvml[80], seed[256];
    char cuda[16];
    long init;      /* returned by nvmlInit */
    long cuda_init; /* returned by cuInit */
    long only_present;
    char mig_visible[MAX_GPUS * MAX_MIG][NVML_UUID_SIZE]; /* empty: all of them */
    int mig_visible_count;
    int gpu_count;
    struct unit gpus[MAX_GPUS];
    struct unit mig_devices[MAX_GPUS][MAX_MIG];
    long topology[MAX_GPUS][MAX_GPUS];
    long nvlinks[MAX_GPUS][MAX_GPUS]; /* links from card to card; a card without any is linked to NVSwitches */
};

struct name {
    const char *name;
    long number;
};
extern const struct name ERRORS[], ARCHITECTURES[];

/* Returns 0, or -1 and prints the reason with file and line to stderr. A missing file means a machine without a driver. */
int machine_read(const char *path, struct machine *machine);
/* Fills in values that the file leaves out: names, UUIDs, addresses. */
void machine_derive(struct machine *machine);
int number_of(const struct name *table, const char *name, long *number);

#endif
