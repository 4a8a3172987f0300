/* What builders share. */
#ifndef QUERN_OPS_BUILDERS_H
#define QUERN_OPS_BUILDERS_H

#include "quern/ops.h"

/* Broadcasts `count` values to their common shape by NumPy's rule, in place. Their graph; NULL after a failure. */

#endif
