/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Reads the text file. Every key is a row in one of two tables; unknown keys and values are errors. */
#include "machine.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct name ERRORS[] = {
    {"ok", 0}, {"uninitialized", 1}, {"invalid-argument", 2}, {"not-supported", 3}, {"no-permission", 4},
    {"not-found", 6}, {"insufficient-power", 8}, {"driver-not-loaded", 9}, {"timeout", 10}, {"irq-issue", 11},
    {"library-not-found", 12}, {"function-not-found", 13}, {"corrupted-inforom", 14}, {"lost", 15},
    {"reset-required", 16}, {"operating-system", 17}, {"version-mismatch", 18}, {"in-use", 19}, {"memory", 20},
    {"no-data", 21}, {"unknown", 999}, {"hang", HANGS}, {NULL, 0}};
const struct name ARCHITECTURES[] = {
    {"kepler", 2}, {"maxwell", 3}, {"pascal", 4}, {"volta", 5}, {"turing", 6}, {"ampere", 7}, {"ada", 8},
    {"hopper", 9}, {"blackwell", 10}, {"unsupported", UNSUPPORTED}, {NULL, 0}};
static const struct name SWITCH[] = {
    {"on", 1}, {"off", 0}, {"yes", 1}, {"no", 0}, {"enabled", 1}, {"disabled", 0}, {"unsupported", UNSUPPORTED},
    {NULL, 0}};
static const struct name LEVELS[] = {
    {"internal", 0}, {"single", 10}, {"multiple", 20}, {"hostbridge", 30}, {"node", 40}, {"system", 50},
    {"unsupported", UNSUPPORTED}, {NULL, 0}};
static const struct name ACTIONS[] = {
    {"none", 0}, {"gpu-reset", 1}, {"node-reboot", 2}, {"drain-p2p", 3}, {"drain-and-reset", 4},
    {"recover-imex-domain", 5}, {"bus-reset", 6}, {"system-reboot", 7}, {"another", 99}, {"unsupported", UNSUPPORTED},
    {NULL, 0}};
static const struct name THROTTLES[] = {
    {"gpu-idle", 0x1}, {"applications-clocks", 0x2}, {"sw-power-cap", 0x4}, {"hw-slowdown", 0x8}, {"sync-boost", 0x10},
    {"sw-thermal", 0x20}, {"hw-thermal", 0x40}, {"hw-power-brake", 0x80}, {"display-clocks", 0x100},
    {"unsupported", UNSUPPORTED}, {NULL, 0}};
static const struct name DEVICES[] = {{"any", 0}, {"present", 1}, {NULL, 0}};
static const struct name CUDA[] = {
    {"ok", 0}, {"no-device", 100}, {"system-not-ready", 802}, {"unknown", 999}, {"hang", HANGS}, {NULL, 0}};

struct key {
    const char *name;
    size_t offset, size;       /* size of a text; 0 for a number */
    const struct name *values; /* words for numbers */
};
#define TEXT(type, key, field) {key, offsetof(type, field), sizeof(((type *)0)->field), NULL}
#define NUMBER(type, key, field, values) {key, offsetof(type, field), 0, values}
static const struct name NOT[] = {{"unsupported", UNSUPPORTED}, {NULL, 0}};
static const struct key MACHINE_KEYS[] = {
    TEXT(struct machine, "driver", driver), TEXT(struct machine, "nvml", nvml), TEXT(struct machine, "cuda", cuda),
    TEXT(struct machine, "seed", seed), NUMBER(struct machine, "init", init, ERRORS),
    NUMBER(struct machine, "cuda-init", cuda_init, CUDA),
    NUMBER(struct machine, "devices", only_present, DEVICES), {NULL, 0, 0, NULL}};
static const struct key GPU_KEYS[] = {
    TEXT(struct unit, "name", name), TEXT(struct unit, "uuid", uuid), TEXT(struct unit, "serial", serial),
    TEXT(struct unit, "pci", pci), TEXT(struct unit, "compute", compute), NUMBER(struct unit, "memory", memory, NOT),
    NUMBER(struct unit, "board", board, NULL), NUMBER(struct unit, "minor", minor, NOT),
    NUMBER(struct unit, "numa", numa, NOT), NUMBER(struct unit, "architecture", architecture, ARCHITECTURES),
    NUMBER(struct unit, "power-limit", power_limit, NOT), NUMBER(struct unit, "persistence", persistence, SWITCH),
    NUMBER(struct unit, "nvlinks", nvlinks, NULL), NUMBER(struct unit, "nvlinks-active", nvlinks_active, NULL),
    NUMBER(struct unit, "ecc", ecc, SWITCH), NUMBER(struct unit, "ecc-corrected", ecc_corrected, NULL),
    NUMBER(struct unit, "ecc-uncorrected", ecc_uncorrected, NULL),
    NUMBER(struct unit, "remapped", remapped, SWITCH),
    NUMBER(struct unit, "remapped-correctable", remapped_correctable, NULL),
    NUMBER(struct unit, "remapped-uncorrectable", remapped_uncorrectable, NULL),
    NUMBER(struct unit, "remapped-pending", remapped_pending, SWITCH),
    NUMBER(struct unit, "remapped-failure", remapped_failure, SWITCH),
    NUMBER(struct unit, "retired", retired, SWITCH), NUMBER(struct unit, "retired-single", retired_single, NULL),
    NUMBER(struct unit, "retired-double", retired_double, NULL),
    NUMBER(struct unit, "retired-pending", retired_pending, SWITCH), NUMBER(struct unit, "mig", mig, SWITCH),
    NUMBER(struct unit, "mig-pending", mig_pending, SWITCH), NUMBER(struct unit, "events", events, SWITCH),
    NUMBER(struct unit, "temperature", temperature, NOT), NUMBER(struct unit, "power", power, NOT),
    NUMBER(struct unit, "utilisation", utilisation, NOT), NUMBER(struct unit, "memory-used", memory_used, NULL),
    NUMBER(struct unit, "sm-clock", sm_clock, NOT),
    NUMBER(struct unit, "recovery-action", recovery_action, ACTIONS), {NULL, 0, 0, NULL}};

int number_of(const struct name *table, const char *name, long *number)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0) {
            *number = table->number;
            return 0;
        }
    return -1;
}

static int decimal(const char *text, long *number)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 0)
        return -1;
    *number = value;
    return 0;
}

/* A table of errors accepts only words. Other tables accept numbers too. */
static int set(const struct key *keys, const char *name, const char *value, void *target)
{
    for (; keys->name; keys++) {
        if (strcmp(keys->name, name))
            continue;
        char *field = (char *)target + keys->offset;
        if (keys->size) {
            if (!*value || strlen(value) >= keys->size)
                return -1;
            strcpy(field, value);
            return 0;
        }
        if (number_of(keys->values, value, (long *)(void *)field) == 0)
            return 0;
        return keys->values && keys->values != NOT ? -1 : decimal(value, (long *)(void *)field);
    }
    return -1;
}

static int add_fault(struct unit *gpu, const char *function, const char *error)
{
    struct fault *fault = &gpu->faults[gpu->fault_count];
    if (gpu->fault_count == MAX_FAULTS || strlen(function) >= sizeof fault->function ||
        number_of(ERRORS, error, &fault->error))
        return -1;
    strcpy(fault->function, function);
    gpu->fault_count++;
    return 0;
}

/* fault = lost | lost-after:K | ERROR | FUNCTION:ERROR */
static int set_fault(struct unit *gpu, char *value)
{
    char *colon = strchr(value, ':');
    if (!colon)
        return add_fault(gpu, "*", value);
    *colon = 0;
    if (strcmp(value, "lost-after") == 0)
        return decimal(colon + 1, &gpu->lost_after);
    return add_fault(gpu, value, colon + 1);
}

/* mig-device = PROFILE [gi=N] [ci=N] [memory=MIB] [uuid=MIG-…], PROFILE as nvidia-smi prints it: 1c.3g.40gb, 1g.10gb+me */
static int add_mig(struct unit *gpu, char *value)
{
    if (gpu->mig_count == MAX_MIG)
        return -1;
    struct unit *mig = &gpu->mig_devices[gpu->mig_count];
    *mig = (struct unit){.kind = MIG_DEVICE, .parent = gpu, .memory = DERIVED, .gpu_instance = gpu->mig_count + 1,
                         .lost_after = DERIVED, .index = (unsigned int)gpu->mig_count};
    char *rest, *word = strtok_r(value, " \t", &rest);
    long gigabytes;
    if (!word || strlen(word) >= sizeof mig->profile)
        return -1;
    strcpy(mig->profile, word);
    if (sscanf(word, "%ldc.%ldg.%ldgb", &mig->compute_slices, &mig->slices, &gigabytes) != 3) {
        if (sscanf(word, "%ldg.%ldgb", &mig->slices, &gigabytes) != 2)
            return -1;
        mig->compute_slices = mig->slices;
    }
    mig->memory = gigabytes * 1000 - 128; /* a card reports slightly less memory than its name says */
    while ((word = strtok_r(NULL, " \t", &rest))) {
        char *equals = strchr(word, '=');
        if (!equals)
            return -1;
        *equals++ = 0;
        int bad = strcmp(word, "gi") == 0       ? decimal(equals, &mig->gpu_instance)
                  : strcmp(word, "ci") == 0     ? decimal(equals, &mig->compute_instance)
                  : strcmp(word, "memory") == 0 ? decimal(equals, &mig->memory)
                  : strcmp(word, "uuid") == 0 && strlen(equals) < sizeof mig->uuid ? (strcpy(mig->uuid, equals), 0)
                                                                                   : -1;
        if (bad)
            return -1;
    }
    gpu->mig_count++;
    return 0;
}

static int add_xid(struct unit *gpu, const char *value)
{
    return gpu->xid_count == MAX_XIDS || decimal(value, &gpu->xids[gpu->xid_count++]) ? -1 : 0;
}

static int add_throttle(struct unit *gpu, const char *value)
{
    long bit;
    if (number_of(THROTTLES, value, &bit))
        return -1;
    gpu->throttle = bit == UNSUPPORTED || gpu->throttle < 0 ? bit : gpu->throttle | bit;
    return 0;
}

/* "3" or "0-7": a span of GPUs. */
static int span(const char *text, int *first, int *last)
{
    int used = 0;
    *last = -1;
    if (sscanf(text, "%d%n", first, &used) == 1 && !text[used])
        *last = *first;
    else if (sscanf(text, "%d-%d%n", first, last, &used) != 2 || text[used])
        return -1;
    return *first >= 0 && *first <= *last && *last < MAX_GPUS ? 0 : -1;
}

/* "0-3 = hostbridge": every pair within the span; "0,5 = single": that pair; "default = node". */
static int set_pairs(long table[MAX_GPUS][MAX_GPUS], const char *pair, long value)
{
    int a, b, used = 0;
    if (sscanf(pair, "%d,%d%n", &a, &b, &used) == 2 && !pair[used] && a >= 0 && b >= 0 && a < MAX_GPUS &&
        b < MAX_GPUS) {
        table[a][b] = table[b][a] = value;
        return 0;
    }
    if (strcmp(pair, "default") == 0)
        a = 0, b = MAX_GPUS - 1;
    else if (span(pair, &a, &b))
        return -1;
    for (int i = a; i <= b; i++)
        for (int j = a; j <= b; j++)
            table[i][j] = value;
    return 0;
}

static int set_topology(struct machine *machine, const char *pair, const char *value)
{
    long level;
    return number_of(LEVELS, value, &level) ? -1 : set_pairs(machine->topology, pair, level);
}

static int set_nvlinks(struct machine *machine, const char *pair, const char *value)
{
    long count;
    return decimal(value, &count) ? -1 : set_pairs(machine->nvlinks, pair, count);
}

struct place {
    enum { TOP, GPUS, TOPOLOGY, NVLINK } section;
    int first, last;
};

static int enter(struct machine *machine, struct place *place, char *header)
{
    if (strcmp(header, "topology") == 0) {
        place->section = TOPOLOGY;
        return 0;
    }
    if (strcmp(header, "nvlink") == 0) {
        place->section = NVLINK;
        return 0;
    }
    if (strncmp(header, "gpu ", 4) || span(header + 4, &place->first, &place->last))
        return -1;
    place->section = GPUS;
    if (place->last >= machine->gpu_count)
        machine->gpu_count = place->last + 1;
    return 0;
}

static int add_visible_mig(struct machine *machine, const char *uuid)
{
    if (machine->mig_visible_count == MAX_GPUS * MAX_MIG || strlen(uuid) >= NVML_UUID_SIZE)
        return -1;
    strcpy(machine->mig_visible[machine->mig_visible_count++], uuid);
    return 0;
}

static int assign(struct machine *machine, const struct place *place, const char *key, const char *value)
{
    if (place->section == TOP && strcmp(key, "mig-visible") == 0)
        return add_visible_mig(machine, value);
    if (place->section == TOP)
        return set(MACHINE_KEYS, key, value, machine);
    if (place->section == TOPOLOGY)
        return set_topology(machine, key, value);
    if (place->section == NVLINK)
        return set_nvlinks(machine, key, value);
    for (int i = place->first; i <= place->last; i++) {
        char copy[256];
        if (strlen(value) >= sizeof copy)
            return -1;
        strcpy(copy, value);
        int bad = strcmp(key, "fault") == 0        ? set_fault(&machine->gpus[i], copy)
                  : strcmp(key, "xid") == 0        ? add_xid(&machine->gpus[i], copy)
                  : strcmp(key, "throttle") == 0   ? add_throttle(&machine->gpus[i], copy)
                  : strcmp(key, "mig-device") == 0 ? add_mig(&machine->gpus[i], copy)
                                                   : set(GPU_KEYS, key, copy, &machine->gpus[i]);
        if (bad)
            return -1;
    }
    return 0;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

static int line_read(struct machine *machine, struct place *place, char *line)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = 0;
    line = trim(line);
    if (!*line)
        return 0;
    size_t length = strlen(line);
    if (*line == '[' && line[length - 1] == ']') {
        line[length - 1] = 0;
        return enter(machine, place, trim(line + 1));
    }
    char *equals = strchr(line, '=');
    if (!equals)
        return -1;
    *equals = 0;
    return assign(machine, place, trim(line), trim(equals + 1));
}

static void machine_reset(struct machine *machine)
{
    memset(machine, 0, sizeof *machine);
    strcpy(machine->driver, "580.95.05");
    strcpy(machine->cuda, "13.0");
    for (int i = 0; i < MAX_GPUS; i++) {
        machine->gpus[i] = (struct unit){
            .kind = GPU, .index = (unsigned int)i, .memory = UNSUPPORTED, .board = DERIVED, .minor = DERIVED,
            .numa = UNSUPPORTED, .architecture = DERIVED, .power_limit = UNSUPPORTED, .persistence = 0, .ecc = UNSUPPORTED,
            .nvlinks_active = DERIVED, .remapped = DERIVED, .retired = DERIVED, .mig = UNSUPPORTED,
            .mig_pending = DERIVED, .recovery_action = DERIVED, .events = 1, .temperature = 34, .power = UNSUPPORTED, .sm_clock = 210,
            .throttle = DERIVED, .lost_after = DERIVED, .mig_devices = machine->mig_devices[i]};
        for (int j = 0; j < MAX_GPUS; j++)
            machine->topology[i][j] = 50;
    }
}

int machine_read(const char *path, struct machine *machine)
{
    machine_reset(machine);
    FILE *file = fopen(path, "r");
    if (!file) {
        machine->init = NVML_ERROR_DRIVER_NOT_LOADED;
        return 0;
    }
    struct place place = {TOP, 0, 0};
    char line[512];
    int bad = 0;
    for (int number = 1; !bad && fgets(line, sizeof line, file); number++) {
        char shown[512];
        strcpy(shown, line);
        bad = line_read(machine, &place, line);
        if (bad)
            fprintf(stderr, "%s:%d: not understood: %s\n", path, number, trim(shown));
    }
    fclose(file);
    machine_derive(machine);
    return bad;
}
