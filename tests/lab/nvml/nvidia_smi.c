/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The part of nvidia-smi that recipes use: -L, -q (also -a), --query-gpu=… --format=csv. Its words and exit codes
 * are those of the real program. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

static int start_failed(nvmlReturn_t answer)
{
    char version[80];
    switch (answer) {
    case NVML_ERROR_DRIVER_NOT_LOADED:
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
             "Make sure that the latest NVIDIA driver is installed and running.");
        break;
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        printf("Failed to initialize NVML: %s\n", nvmlErrorString(answer));
        if (nvmlSystemGetNVMLVersion(version, sizeof version) == NVML_SUCCESS)
            printf("NVML library version: %s\n", version);
        break;
    default:
        printf("Failed to initialize NVML: %s\n", nvmlErrorString(answer));
    }
    return answer;
}

static int no_handle(unsigned int index, nvmlReturn_t answer)
{
    printf("Unable to determine the device handle for GPU%u: %s\n", index, nvmlErrorString(answer));
    return answer;
}

static void list_mig(nvmlDevice_t gpu)
{
    for (unsigned int i = 0;; i++) {
        nvmlDevice_t mig;
        char name[NVML_NAME_SIZE], uuid[NVML_UUID_SIZE];
        if (nvmlDeviceGetMigDeviceHandleByIndex(gpu, i, &mig) || nvmlDeviceGetName(mig, name, sizeof name) ||
            nvmlDeviceGetUUID(mig, uuid, sizeof uuid))
            return;
        const char *profile = strstr(name, "MIG ");
        printf("  MIG %-12s Device %2u: (UUID: %s)\n", profile ? profile + 4 : name, i, uuid);
    }
}

static nvmlReturn_t list_gpu(unsigned int index, nvmlDevice_t gpu)
{
    char name[NVML_NAME_SIZE], uuid[NVML_UUID_SIZE];
    nvmlReturn_t answer = nvmlDeviceGetName(gpu, name, sizeof name);
    if (!answer)
        answer = nvmlDeviceGetUUID(gpu, uuid, sizeof uuid);
    if (answer)
        return answer;
    printf("GPU %u: %s (UUID: %s)\n", index, name, uuid);
    list_mig(gpu);
    return NVML_SUCCESS;
}

static nvmlReturn_t detail_gpu(unsigned int index, nvmlDevice_t gpu)
{
    (void)index;
    char name[NVML_NAME_SIZE], uuid[NVML_UUID_SIZE];
    nvmlPciInfo_t pci;
    nvmlMemory_t memory;
    unsigned int minor;
    nvmlReturn_t answer = nvmlDeviceGetPciInfo_v3(gpu, &pci);
    if (!answer)
        answer = nvmlDeviceGetName(gpu, name, sizeof name);
    if (!answer)
        answer = nvmlDeviceGetUUID(gpu, uuid, sizeof uuid);
    if (answer)
        return answer;
    printf("GPU %s\n    Product Name                          : %s\n", pci.busId, name);
    printf("    GPU UUID                              : %s\n", uuid);
    if (nvmlDeviceGetMinorNumber(gpu, &minor) == NVML_SUCCESS)
        printf("    Minor Number                          : %u\n", minor);
    if (nvmlDeviceGetMemoryInfo(gpu, &memory) == NVML_SUCCESS)
        printf("    FB Memory Usage\n        Total                             : %llu MiB\n", memory.total >> 20);
    else
        printf("    FB Memory Usage\n        Total                             : N/A\n");
    return NVML_SUCCESS;
}

static int units = 1; /* --format=…,nounits */

static int field(const char *name, unsigned int index, nvmlDevice_t gpu, char *out, size_t size)
{
    nvmlMemory_t memory;
    nvmlPciInfo_t pci;
    int major, minor;
    nvmlReturn_t answer;
    if (!strcmp(name, "index"))
        return snprintf(out, size, "%u", index), 0;
    if (!strcmp(name, "uuid") || !strcmp(name, "gpu_uuid"))
        answer = nvmlDeviceGetUUID(gpu, out, (unsigned int)size);
    else if (!strcmp(name, "name") || !strcmp(name, "gpu_name"))
        answer = nvmlDeviceGetName(gpu, out, (unsigned int)size);
    else if (!strcmp(name, "driver_version"))
        answer = nvmlSystemGetDriverVersion(out, (unsigned int)size);
    else if (!strcmp(name, "memory.total")) {
        if ((answer = nvmlDeviceGetMemoryInfo(gpu, &memory)) == NVML_SUCCESS)
            snprintf(out, size, units ? "%llu MiB" : "%llu", memory.total >> 20);
    } else if (!strcmp(name, "pci.bus_id") || !strcmp(name, "gpu_bus_id")) {
        if ((answer = nvmlDeviceGetPciInfo_v3(gpu, &pci)) == NVML_SUCCESS)
            snprintf(out, size, "%s", pci.busId);
    } else if (!strcmp(name, "compute_cap")) {
        if ((answer = nvmlDeviceGetCudaComputeCapability(gpu, &major, &minor)) == NVML_SUCCESS)
            snprintf(out, size, "%d.%d", major, minor);
    } else {
        printf("Field \"%s\" is not a valid field to query.\n", name);
        return 2;
    }
    if (answer)
        snprintf(out, size, "[%s]", answer == NVML_ERROR_NOT_SUPPORTED ? "N/A" : nvmlErrorString(answer));
    return 0;
}

static char fields[512];

static nvmlReturn_t query_gpu(unsigned int index, nvmlDevice_t gpu)
{
    char line[2048] = "", value[256], copy[sizeof fields];
    strcpy(copy, fields);
    for (char *rest, *name = strtok_r(copy, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        int bad = field(name, index, gpu, value, sizeof value);
        if (bad)
            return bad;
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%s", used ? ", " : "", value);
    }
    puts(line);
    return NVML_SUCCESS;
}

/* Continues after a GPU that fails. The last failure becomes the exit code. */
static int each_gpu(unsigned int count, nvmlReturn_t (*show)(unsigned int, nvmlDevice_t))
{
    nvmlReturn_t worst = NVML_SUCCESS;
    for (unsigned int i = 0; i < count; i++) {
        nvmlDevice_t gpu;
        nvmlReturn_t answer = nvmlDeviceGetHandleByIndex_v2(i, &gpu);
        if (!answer)
            answer = show(i, gpu);
        if (answer)
            worst = answer == 2 && show == query_gpu ? answer : no_handle(i, answer);
    }
    return worst;
}

int main(int argc, char **argv)
{
    nvmlReturn_t (*show)(unsigned int, nvmlDevice_t) = detail_gpu;
    int header = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "-L") || !strcmp(word, "--list-gpus"))
            show = list_gpu;
        else if (!strcmp(word, "-q") || !strcmp(word, "-a") || !strcmp(word, "--query"))
            show = detail_gpu;
        else if (!strncmp(word, "--query-gpu=", 12) && strlen(word + 12) < sizeof fields) {
            show = query_gpu;
            strcpy(fields, word + 12);
        } else if (!strncmp(word, "--format=csv", 12)) {
            header = !strstr(word, "noheader");
            units = !strstr(word, "nounits");
        } else {
            printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
            return NVML_ERROR_INVALID_ARGUMENT;
        }
    }
    nvmlReturn_t answer = nvmlInit_v2();
    if (answer)
        return start_failed(answer);
    unsigned int count = 0;
    char version[80] = "";
    nvmlDeviceGetCount_v2(&count);
    nvmlSystemGetDriverVersion(version, sizeof version);
    if (!count) {
        puts("No devices were found");
        return NVML_ERROR_NOT_FOUND;
    }
    if (show == query_gpu && header)
        puts(fields);
    if (show == detail_gpu)
        printf("\n==============NVSMI LOG==============\n\nDriver Version                            : %s\n"
               "Attached GPUs                             : %u\n", version, count);
    int result = each_gpu(count, show);
    nvmlShutdown();
    return result;
}
