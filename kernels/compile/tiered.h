/* Steps of little work on the host: interpreted at once, compiled when they have run often. */
#ifndef QN_TIERED_H
#define QN_TIERED_H

#include "quern/exec.h"
#include "../schedule/schedule.h"

/* Is interpreting one call of the program cheaper than starting a compiler? */
bool qn_tiered_pays(const sched_program *program);
/* Fills entries and plan->code; the kernels are its own then. */
qn_status qn_tiered_code(sched_program *program, qn_plan *plan, qn_code_entry *entries);
/* Is this the code of a step of little work that runs compiled by now? The step, or the plan that owns it, is alive. */
bool qn_tiered_is_hot(const qn_code *code);

#endif
