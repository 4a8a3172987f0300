/* Kernels to code for a device's format. */
#ifndef QN_BACKEND_H
#define QN_BACKEND_H

#include "quern/compile.h"
#include "../schedule/schedule.h"

/* Fills plan->code and plan->key; printed kernels go to desc->explain where asked for. */
qn_status qn_backend_code(const qn_device_caps *caps, sched_program *program, const qn_compile_desc *desc,
                          qn_plan *plan);

#endif
