/* A part of the 500 random graphs on the cpu device (test_fuzz.c), of some 6 operations each. */
#include "fuzz_kit.h"

Test(fuzz_part3, cpu, .timeout = 280) { check_seeds("cpu", 1500, 120, 6, RANDOM_QUICK); }
