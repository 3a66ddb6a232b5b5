/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* MIG devices. */
#include "calls.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    WHOLE(device);
    nvmlReturn_t answer = give(device->mig, current);
    return answer ? answer : give(device->mig_pending, pending);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    WHOLE(device);
    *count = device->mig == UNSUPPORTED ? 0 : 7;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    WHOLE(device);
    if (device->mig == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    if (device->mig != 1 || index >= (unsigned int)device->mig_count)
        return NVML_ERROR_NOT_FOUND;
    *mig = &device->mig_devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    MAY(device);
    *is_mig = device->kind == MIG_DEVICE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    SLICE(mig);
    *device = mig->parent;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned int *id)
{
    SLICE(mig);
    return give(mig->gpu_instance, id);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned int *id)
{
    SLICE(mig);
    return give(mig->compute_instance, id);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes)
{
    SLICE(mig);
    *attributes = (nvmlDeviceAttributes_t){.gpuInstanceSliceCount = (unsigned int)mig->slices,
                                           .computeInstanceSliceCount = (unsigned int)mig->compute_slices,
                                           .memorySizeMB = (unsigned long long)mig->memory};
    return NVML_SUCCESS;
}
