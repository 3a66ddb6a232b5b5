/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The processes on a card or MIG device, from another file beside the text file. Each line is "UUID compute|graphics|mps PID". Processes that
 * have ended are not shown, as with the real library. A card in MIG mode shows the processes of all its devices. */
#include "calls.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX ".processes"
#define WORD 96

static int is_on(const struct unit *device, const char *uuid)
{
    if (!strcmp(device->uuid, uuid))
        return 1;
    for (int i = 0; device->kind == GPU && i < device->mig_count; i++)
        if (!strcmp(device->mig_devices[i].uuid, uuid))
            return 1;
    return 0;
}

static nvmlReturn_t running(nvmlDevice_t device, const char *kind, unsigned int *count, nvmlProcessInfo_t *found)
{
    char path[512], uuid[WORD], word[WORD];
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = found ? *count : 0;
    *count = 0;
    snprintf(path, sizeof path, "%s" SUFFIX, machine_path());
    FILE *file = fopen(path, "r");
    if (!file)
        return NVML_SUCCESS;
    for (int pid; fscanf(file, "%95s %95s %d", uuid, word, &pid) == 3;) {
        if (strcmp(word, kind) || !is_on(device, uuid) || (kill(pid, 0) && errno == ESRCH))
            continue;
        if (*count < room)
            found[*count] = (nvmlProcessInfo_t){(unsigned int)pid, 1ULL << 30, 0xffffffff, 0xffffffff};
        ++*count;
    }
    fclose(file);
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *found)
{
    MAY(device);
    return running(device, "compute", count, found);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *found)
{
    MAY(device);
    return running(device, "graphics", count, found);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *found)
{
    MAY(device);
    return running(device, "mps", count, found);
}
