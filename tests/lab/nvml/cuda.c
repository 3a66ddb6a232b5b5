/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The part of CUDA's driver library that shows whether CUDA starts. Like the real one it needs /dev/nvidia-uvm, and calls
 * nvidia-modprobe to create it if that program exists: on a machine, but not in a container. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { CUDA_SUCCESS = 0, CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_UNKNOWN = 999 };
#define MODPROBE "/usr/bin/nvidia-modprobe"

static const char *or_else(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

/* Returns the module's major number from /proc/devices, or -1 if it is not loaded. */
static long loaded(void)
{
    FILE *devices = fopen(or_else("GPU_LAB_DEVICES", "/proc/devices"), "r");
    char line[256];
    long number, found = -1;
    while (devices && found < 0 && fgets(line, sizeof line, devices)) {
        int end = 0;
        if (sscanf(line, " %ld nvidia-uvm%n", &number, &end) == 1 && end && line[end] == '\n')
            found = number;
    }
    if (devices)
        fclose(devices);
    return found;
}

static int usable(void)
{
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/nvidia-uvm", or_else("GPU_LAB_DEV", "/dev"));
    return stat(path, &status) == 0 && S_ISCHR(status.st_mode) && (long)major(status.st_rdev) == loaded();
}

__attribute__((visibility("default"))) int cuInit(unsigned int flags)
{
    static struct machine machine;
    (void)flags;
    if (machine_read(or_else("GPU_LAB_NVML", "/etc/gpu-lab/nvml.conf"), &machine))
        return CUDA_ERROR_UNKNOWN;
    while (machine.cuda_init == HANGS)
        pause();
    if (machine.cuda_init)
        return (int)machine.cuda_init;
    if (machine.init || machine.gpu_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (!usable() && (access(MODPROBE, X_OK) || system(MODPROBE " -u -c 0")))
        return CUDA_ERROR_UNKNOWN;
    return usable() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
