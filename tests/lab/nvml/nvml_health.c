/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The health of a card's memory. */
#include "calls.h"

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending)
{
    WHOLE(device);
    if (device->ecc == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = (int)device->ecc;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter, unsigned long long *count)
{
    WHOLE(device);
    if (type < 0 || type > 1 || counter < 0 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device->ecc != 1)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = (unsigned long long)(type ? device->ecc_uncorrected : device->ecc_corrected);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failure)
{
    WHOLE(device);
    if (device->remapped != 1)
        return NVML_ERROR_NOT_SUPPORTED;
    *correctable = (unsigned int)device->remapped_correctable;
    *uncorrectable = (unsigned int)device->remapped_uncorrectable;
    *pending = device->remapped_pending == 1;
    *failure = device->remapped_failure == 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned int *count,
                                       unsigned long long *addresses)
{
    WHOLE(device);
    if (cause < 0 || cause > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device->retired != 1)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned int room = *count;
    *count = (unsigned int)(cause ? device->retired_double : device->retired_single);
    if (!addresses || room < *count)
        return *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    for (unsigned int i = 0; i < *count; i++)
        addresses[i] = 0x1000ULL * (i + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int *pending)
{
    WHOLE(device);
    if (device->retired != 1)
        return NVML_ERROR_NOT_SUPPORTED;
    *pending = device->retired_pending == 1;
    return NVML_SUCCESS;
}
