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
        "%s: cpu-ref is the reference interpreter and runs 'quern run' and 'quern replay' only; 'quern devices' lists "
        "what %s runs on",
        command, command);
  QN_TRY(qn_device_open(drivers, count, which, out_device));
  if (strcmp(command, "explain") != 0 && strcmp(qn_device_get_caps(*out_device)->id, "null") == 0) {
    qn_device_release(*out_device);
    *out_device = NULL;
    return QN_ERR(QN_INVALID, "%s: the null device computes nothing; 'quern devices' lists what %s runs on", command,
                  command);
  }
  return QN_OK;
}
