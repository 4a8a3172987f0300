/* The drivers that this build has, for programs that want all of them. */
#ifndef QUERN_DRIVERS_H
#define QUERN_DRIVERS_H

#include "quern/hal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In no particular order; static. */
const qn_driver *const *qn_drivers(size_t *out_count);

#ifdef __cplusplus
}
#endif
#endif
