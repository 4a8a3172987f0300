/* Every graph of the kit on every device: against the oracle within its tolerance; one kernel per node, every buffer its own place, and copied
 * instead of donated give the same bytes. */
#include "graph_check.h"

static void check_device(const char *which, size_t stride) {
  graph_check_device(which, graph_cases, graph_case_count, 0, stride);
}

Test(graphs, cpu) { check_device("cpu", 1); }
Test(graphs, pocl, .timeout = 280) { check_device("opencl:pocl", 5); }
Test(graphs, rusticl, .timeout = 280) { check_device("opencl:rusticl", 5); }
Test(graphs, lavapipe, .timeout = 280) { check_device("vulkan:llvmpipe", 3); }
Test(graphs, swiftshader, .timeout = 280) { check_device("vulkan:swiftshader", 3); }
