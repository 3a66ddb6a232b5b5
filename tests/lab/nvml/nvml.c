/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Start, stop, and the properties of a GPU. Each call on a GPU goes through may(), so that the text file can make it
 * fail. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct machine machine;
static int users;               /* nvmlInit counts its callers */
static struct timespec read_of; /* the text file's last change when it was read */
static unsigned int visible[MAX_GPUS], visible_count;

/* Inside a container NVML counts only the GPUs whose device node is there. */
static int device_node_there(const struct unit *gpu)
{
    const char *directory = getenv("GPU_LAB_DEV");
    char path[512];
    snprintf(path, sizeof path, "%s/nvidia%ld", directory ? directory : "/dev", gpu->minor);
    return access(path, F_OK) == 0;
}

static int mig_visible(const struct unit *mig)
{
    for (int i = 0; i < machine.mig_visible_count; i++)
        if (strcmp(machine.mig_visible[i], mig->uuid) == 0)
            return 1;
    return machine.mig_visible_count == 0;
}

/* In a container NVML shows only the MIG devices of the container, counted from 0. */
static void keep_visible_mig(struct unit *gpu)
{
    int kept = 0;
    for (int i = 0; i < gpu->mig_count; i++)
        if (mig_visible(&gpu->mig_devices[i])) {
            gpu->mig_devices[kept] = gpu->mig_devices[i];
            gpu->mig_devices[kept].index = (unsigned int)kept;
            kept++;
        }
    gpu->mig_count = kept;
}

static void count_visible(void)
{
    for (int i = 0; i < machine.gpu_count; i++)
        keep_visible_mig(&machine.gpus[i]);
    visible_count = 0;
    for (int i = 0; i < machine.gpu_count; i++)
        if (!machine.only_present || device_node_there(&machine.gpus[i])) {
            machine.gpus[i].index = visible_count;
            visible[visible_count++] = (unsigned int)i;
        }
}

static nvmlReturn_t answer(long error)
{
    while (error == HANGS)
        pause();
    return (nvmlReturn_t)error;
}

/* A card can fail while a process holds NVML open, so that process too must see the change. */
static int is_as_read(const char *path)
{
    struct stat now;
    if (stat(path, &now))
        return 0;
    int same = now.st_mtim.tv_sec == read_of.tv_sec && now.st_mtim.tv_nsec == read_of.tv_nsec;
    read_of = now.st_mtim;
    return same;
}

const char *machine_path(void)
{
    const char *path = getenv("GPU_LAB_NVML");
    return path ? path : "/etc/gpu-lab/nvml.conf";
}

int initialised(void)
{
    return users > 0;
}

int place_of(const struct unit *gpu)
{
    return (int)(gpu - machine.gpus);
}

struct unit *device_at(int place)
{
    return &machine.gpus[place];
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    const char *path = machine_path();
    int as_read = is_as_read(path);
    if (users && as_read && !machine.init) {
        users++;
        return NVML_SUCCESS;
    }
    if (machine_read(path, &machine))
        return NVML_ERROR_UNKNOWN;
    if (machine.init)
        return answer(machine.init);
    count_visible();
    users++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    users--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct {
        nvmlReturn_t code;
        const char *text;
    } TEXTS[] = {
        {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
        {4, "Insufficient Permissions"}, {6, "Not Found"}, {7, "Insufficient Size"}, {8, "Insufficient External Power"},
        {9, "Driver Not Loaded"}, {10, "Timeout"}, {11, "Interrupt Request Issue"},
        {12, "NVML Shared Library Not Found"}, {13, "Function Not Found"}, {14, "Corrupted infoROM"},
        {15, "GPU is lost"}, {16, "GPU requires reset"}, {17, "The operating system has blocked the request"},
        {18, "Driver/library version mismatch"}, {19, "In use by another client"}, {20, "Insufficient Memory"},
        {21, "No data"}, {25, "Argument version mismatch"}};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (TEXTS[i].code == result)
            return TEXTS[i].text;
    return "Unknown Error";
}

nvmlReturn_t fault_of(const struct unit *gpu, const char *function)
{
    for (int i = 0; i < gpu->fault_count; i++)
        if (!strcmp(gpu->faults[i].function, "*") || !strcmp(gpu->faults[i].function, function))
            return answer(gpu->faults[i].error);
    return NVML_SUCCESS;
}

nvmlReturn_t may(struct unit *unit, const char *function)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!unit || (unit->kind != GPU && unit->kind != MIG_DEVICE))
        return NVML_ERROR_INVALID_ARGUMENT;
    struct unit *gpu = unit->kind == MIG_DEVICE ? unit->parent : unit;
    if (gpu->lost_after != DERIVED && gpu->calls++ >= gpu->lost_after)
        return NVML_ERROR_GPU_IS_LOST;
    return fault_of(gpu, function);
}

static nvmlReturn_t give_text(char *target, unsigned int length, const char *text)
{
    if (!target)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

nvmlReturn_t give(long value, unsigned int *target)
{
    if (!target)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (value == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    *target = (unsigned int)value;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return users ? give_text(version, length, machine.driver) : NVML_ERROR_UNINITIALIZED;
}

/* Works even before init, like the real one. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    return give_text(version, length, machine.nvml);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    int major, minor;
    if (sscanf(machine.cuda, "%d.%d", &major, &minor) != 2)
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    *version = major * 1000 + minor * 10;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    return users ? give(visible_count, count) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (index >= visible_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    WHOLE(&machine.gpus[visible[index]]);
    *device = &machine.gpus[visible[index]];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    for (unsigned int i = 0; i < visible_count; i++)
        if (!strcmp(machine.gpus[visible[i]].uuid, uuid))
            return nvmlDeviceGetHandleByIndex_v2(i, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    MAY(device);
    *index = device->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    MAY(device);
    return give_text(name, length, device->name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    MAY(device);
    return give_text(uuid, length, device->uuid);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    WHOLE(device);
    return *device->serial ? give_text(serial, length, device->serial) : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    WHOLE(device);
    return give(device->minor, minor);
}

static nvmlReturn_t give_address(const char *address, nvmlPciInfo_t *info)
{
    memset(info, 0, sizeof *info);
    if (sscanf(address, "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3)
        return NVML_ERROR_UNKNOWN;
    snprintf(info->busId, sizeof info->busId, "%s", address);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
             info->device & 0xff);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    WHOLE(device);
    return give_address(device->pci, info);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    WHOLE(device);
    return sscanf(device->compute, "%d.%d", major, minor) == 2 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    WHOLE(device);
    return give(device->architecture, architecture);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    MAY(device);
    if (device->memory == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned long long total = (unsigned long long)device->memory << 20, used = (unsigned long long)device->memory_used << 20;
    *memory = (nvmlMemory_t){total, total - used, used};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlMemory_t plain;
    nvmlReturn_t answer = nvmlDeviceGetMemoryInfo(device, &plain);
    if (answer)
        return answer;
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = plain.total;
    memory->free = plain.free;
    memory->used = plain.used;
    memory->reserved = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *nodes,
                                         unsigned int scope)
{
    WHOLE(device);
    const unsigned int bits = 8 * sizeof *nodes;
    if (device->numa == UNSUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!size || !nodes || scope > 1 || device->numa >= (long)(size * bits))
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(nodes, 0, size * sizeof *nodes);
    nodes[device->numa / bits] = 1UL << device->numa % bits;
    return NVML_SUCCESS;
}

/* Returns whether this link is up, or an error if the card has no such link. */
static nvmlReturn_t link_of(const struct unit *device, unsigned int link, unsigned int *active)
{
    if (!device->nvlinks)
        return NVML_ERROR_NOT_SUPPORTED;
    if (link >= (unsigned int)device->nvlinks)
        return NVML_ERROR_INVALID_ARGUMENT;
    *active = link < (unsigned int)device->nvlinks_active;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active)
{
    WHOLE(device);
    return link_of(device, link, active);
}

/* Returns the position of the card at the other end, or -1 for an NVSwitch. Links to cards come first, in the cards' order. */
static int other_end(int place, long link)
{
    for (int i = 0; i < machine.gpu_count; i++) {
        if (i == place)
            continue;
        if (link < machine.nvlinks[place][i])
            return i;
        link -= machine.nvlinks[place][i];
    }
    return -1;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *info)
{
    WHOLE(device);
    unsigned int active;
    nvmlReturn_t answer = link_of(device, link, &active);
    if (answer)
        return answer;
    if (!active)
        return NVML_ERROR_NOT_SUPPORTED;
    int end = other_end(place_of(device), link);
    return give_address(end < 0 ? "00000000:05:00.0" : machine.gpus[end].pci, info);
}

/* Returns whether an active link connects this card with the card at that position (-1: with a switch). */
static int reaches(const struct unit *device, int place)
{
    for (long link = 0; link < device->nvlinks_active; link++)
        if (other_end(place_of(device), link) == place)
            return 1;
    return 0;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, int what, int *status)
{
    WHOLE(one);
    WHOLE(other);
    if (one == other || what < 0 || what > 4)
        return NVML_ERROR_INVALID_ARGUMENT;
    int linked = (reaches(one, -1) && reaches(other, -1)) ||
                 (reaches(one, place_of(other)) && reaches(other, place_of(one)));
    *status = what == NVML_P2P_CAPS_INDEX_NVLINK && linked ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *level)
{
    WHOLE(one);
    WHOLE(other);
    return give(machine.topology[one - machine.gpus][other - machine.gpus], level);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    WHOLE(device);
    return give(device->power_limit == UNSUPPORTED ? UNSUPPORTED : device->power_limit * 1000, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode)
{
    WHOLE(device);
    return give(device->persistence, (unsigned int *)mode);
}
