/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* What a card is doing: temperature, power, utilisation, clock, and why its clock is low. MIG devices have none of these. */
#include "calls.h"

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius)
{
    WHOLE(device);
    return sensor ? NVML_ERROR_INVALID_ARGUMENT : give(device->temperature, celsius);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    MAY(device);
    if (temperature->version != (sizeof *temperature | 1u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return nvmlDeviceGetTemperature(device, temperature->sensorType, (unsigned int *)&temperature->temperature);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
    WHOLE(device);
    return give(device->power == UNSUPPORTED ? UNSUPPORTED : device->power * 1000, milliwatts);
}

/* A card in MIG mode has no utilisation. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    WHOLE(device);
    rates->memory = 0;
    return give(device->mig == 1 ? UNSUPPORTED : device->utilisation, &rates->gpu);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int *megahertz)
{
    WHOLE(device);
    return type == NVML_CLOCK_SM ? give(device->sm_clock, megahertz) : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    WHOLE(device);
    if (device->throttle == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    *reasons = (unsigned long long)device->throttle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    MAY(device);
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}
