/* Which device a command runs on. */
#include <string.h>

#include "command.h"
#include "quern/drivers.h"

bool qn_cli_is_reference(const char *which) {
  if (!which || !which[0])
    which = qn_env_get(QN_ENV_DEVICE);
  return which && strcmp(which, "cpu-ref") == 0;
}

qn_status qn_cli_open(const char *which, const char *command, qn_device **out_device) {
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  *out_device = NULL;
  if (qn_cli_is_reference(which))
    return QN_ERR(
        QN_INVALID,
        "%s: cpu-ref is the reference interpreter and runs 'quern replay' only; 'quern devices' lists what %s runs on",
        command, command);
  return qn_device_open(drivers, count, which, out_device);
}
