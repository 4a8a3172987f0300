/* What a random case is put through on a device; shared by the quick test and the long one. */
#ifndef QUERN_TEST_RANDOM_CHECK_H
#define QUERN_TEST_RANDOM_CHECK_H

#include "random_kit.h"

typedef enum random_depth {
  RANDOM_ONCE,    /* the oracle's bound, and calls in flight against calls one by one */
  RANDOM_OTHER,   /* and one run with neither fusion nor reuse nor donation */
  RANDOM_QUICK,   /* once, then unfused and copied, lanes and the derivative; by the interpreter on the cpu device */
  RANDOM_ALL_WAYS /* the cpu device alone: each alone, compiled and interpreted, lanes and the derivative */
} random_depth;
typedef struct random_tally {
  uint64_t cases, judged, loose, backward; /* loose: elements whose bound says nothing; backward: derivatives taken */
} random_tally;
/* False on a failure; `why` names the seed, the way and the element. */
bool random_check(qn_device *d, uint64_t seed, int nodes, random_depth depth, random_tally *io_tally, char why[1024]);

#endif
