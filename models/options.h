/* Options of layers and optimizers: a field left at zero means the original library's default. */
#ifndef QN_MODELS_OPTIONS_H
#define QN_MODELS_OPTIONS_H

static inline double qn_or_default(double x, double value) { return x == 0 ? value : x; }

#endif
