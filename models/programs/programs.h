/* The built-in programs. */
#ifndef QN_PROGRAMS_H
#define QN_PROGRAMS_H

#include "quern/train.h"

extern const qn_program_def qn_program_mnist_mlp;

#endif
