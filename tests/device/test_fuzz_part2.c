/* A part of the 500 random graphs on the cpu device (test_fuzz.c), of some 8 operations each. */
#include "fuzz_kit.h"

Test(fuzz_part2, cpu, .timeout = 280) { check_seeds("cpu", 1120, 120, 8, RANDOM_QUICK); }
