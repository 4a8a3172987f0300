/* How control flow is lowered in front of scheduling (qn_op_def.lower). */
#ifndef QUERN_CONTROL_LOWER_H
#define QUERN_CONTROL_LOWER_H

#include "quern/op.h"

bool qn_lower_while(qn_rule *r, qn_val *out);
bool qn_lower_choice(qn_rule *r, qn_val *out); /* case, if */

#endif
