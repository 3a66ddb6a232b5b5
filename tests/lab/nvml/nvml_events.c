/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Events, and the recovery action of a card. Lines with errors that are added to the text file are delivered to processes that wait for events.
 * Errors that are in the file when a card is registered are old, and are not delivered. */
#include "calls.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define STEP_MS 200 /* how often the file is read; more often would distort benchmarks of its readers */

struct nvmlEventSet_st {
    unsigned long long types[MAX_GPUS]; /* of each registered GPU */
    int delivered[MAX_GPUS];
    struct machine seen; /* a separate copy: other calls use theirs */
    struct timespec seen_of;
};

static int changed(const char *path, struct timespec *known)
{
    struct stat now;
    if (stat(path, &now) || (now.st_mtim.tv_sec == known->tv_sec && now.st_mtim.tv_nsec == known->tv_nsec))
        return 0;
    *known = now.st_mtim;
    return 1;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    WHOLE(device);
    if (count < 1 || !values)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        int known = values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && device->recovery_action != UNSUPPORTED;
        values[i].nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        values[i].valueType = 1; /* an unsigned int */
        values[i].value.uiVal = known ? (unsigned int)device->recovery_action : 0;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    WHOLE(device);
    if (device->events == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    *types = device->events == 1 ? nvmlEventTypeXidCriticalError : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    if (!initialised())
        return NVML_ERROR_UNINITIALIZED;
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    WHOLE(device);
    unsigned long long supported;
    nvmlReturn_t answer = nvmlDeviceGetSupportedEventTypes(device, &supported);
    if (answer)
        return answer;
    if (!set || types & ~supported)
        return set ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    int place = place_of(device);
    set->types[place] = types;
    set->delivered[place] = device->xid_count;
    return NVML_SUCCESS;
}

/* Returns 0, or an error to return at once. */
static int next(nvmlEventSet_t set, nvmlEventData_t *data, nvmlReturn_t *answer)
{
    for (int i = 0; i < set->seen.gpu_count; i++)
        if (set->types[i] && set->delivered[i] < set->seen.gpus[i].xid_count) {
            unsigned long long xid = (unsigned long long)set->seen.gpus[i].xids[set->delivered[i]++];
            *data = (nvmlEventData_t){device_at(i), nvmlEventTypeXidCriticalError, xid, 0xffffffff, 0xffffffff};
            *answer = NVML_SUCCESS;
            return 1;
        }
    for (int i = 0; i < set->seen.gpu_count; i++)
        if (set->types[i] && (*answer = fault_of(&set->seen.gpus[i], "nvmlEventSetWait_v2")))
            return 1;
    return 0;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    if (!initialised())
        return NVML_ERROR_UNINITIALIZED;
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int waited = 0;; waited += STEP_MS) {
        nvmlReturn_t answer;
        if (changed(machine_path(), &set->seen_of) && machine_read(machine_path(), &set->seen))
            return NVML_ERROR_UNKNOWN;
        if (next(set, data, &answer))
            return answer;
        if (waited >= timeout_ms)
            return NVML_ERROR_TIMEOUT;
        nanosleep(&(struct timespec){0, STEP_MS * 1000000L}, NULL);
    }
}
