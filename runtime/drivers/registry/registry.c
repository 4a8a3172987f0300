/* One list of the drivers in this build. */
#include "quern/drivers.h"

#include "quern/driver.h"

const qn_driver *const *qn_drivers(size_t *out_count) {
  static const qn_driver *const all[] = {
#ifdef QN_HAVE_VULKAN
      &qn_driver_vulkan,
#endif
#ifdef QN_HAVE_OPENCL
      &qn_driver_opencl,
#endif
      &qn_driver_cpu,
      &qn_driver_null,
  };
  *out_count = sizeof all / sizeof *all;
  return all;
}
