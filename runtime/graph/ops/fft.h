/* Fourier transforms as simpler operations: fft's lowering, private to the library. */
#ifndef QUERN_OPS_FFT_H
#define QUERN_OPS_FFT_H

#include "quern/op.h"

bool qn_fft_lower(qn_rule *r, qn_val *out);

#endif
