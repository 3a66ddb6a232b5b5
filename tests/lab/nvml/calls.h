/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Shared by the files that implement NVML's calls. */
#ifndef LAB_CALLS_H
#define LAB_CALLS_H

#include "machine.h"

/* Returns 0 if this call may be answered, or the error to return. */
nvmlReturn_t may(struct unit *unit, const char *function);
/* Returns the error that the text file sets for this call, or 0. May hang forever. */
nvmlReturn_t fault_of(const struct unit *gpu, const char *function);
int initialised(void);
const char *machine_path(void);
/* Convert between a GPU and its position in the text file. */
int place_of(const struct unit *gpu);
struct unit *device_at(int place);
/* Store the value, or return NotSupported. */
nvmlReturn_t give(long value, unsigned int *target);

#define MAY(unit)                                    \
    do {                                             \
        nvmlReturn_t answer_ = may(unit, __func__);  \
        if (answer_)                                 \
            return answer_;                          \
    } while (0)
#define WHOLE(unit)                            \
    do {                                       \
        MAY(unit);                             \
        if ((unit)->kind != GPU)               \
            return NVML_ERROR_NOT_SUPPORTED;   \
    } while (0)
#define SLICE(unit)                            \
    do {                                       \
        MAY(unit);                             \
        if ((unit)->kind != MIG_DEVICE)        \
            return NVML_ERROR_INVALID_ARGUMENT; \
    } while (0)

#endif
