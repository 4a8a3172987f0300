/* 500 random graphs on each of the devices that compile slowly: with QN_TEST_ALL=1. The slowest of them takes seconds for a kernel and gets 50. */
#include "fuzz_kit.h"

static void check_long(const char *which, uint64_t first, uint64_t count) {
  if (!qn_test_all())
    cr_skip("the long form alone");
  check_seeds(which, first, count, 8, RANDOM_QUICK);
}

Test(fuzz_long, pocl, .timeout = 3600) { check_long("opencl:pocl", 10000, 500); }
Test(fuzz_long, rusticl, .timeout = 3600) { check_long("opencl:rusticl", 10000, 50); }
Test(fuzz_long, lavapipe, .timeout = 3600) { check_long("vulkan:llvmpipe", 10000, 500); }
Test(fuzz_long, swiftshader, .timeout = 3600) { check_long("vulkan:swiftshader", 10000, 500); }
