/* What Vulkan's validation has found on a device opened with QN_VALIDATION=on; needs no Vulkan header. */
#ifndef QUERN_VULKAN_FINDINGS_H
#define QUERN_VULKAN_FINDINGS_H

#include "quern/hal.h"

/* Number of findings so far; 0 without validation. `d` must be a Vulkan device. */
uint64_t qn_vk_finding_count(const qn_device *d);

#endif
