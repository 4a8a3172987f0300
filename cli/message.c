/* What the tool says: errors as one line, colours only on a terminal, sizes for people. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "command.h"

int qn_cli_usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("quern: ", stderr);
  (void)vfprintf(stderr, format, args);
  fputs("\n", stderr);
  va_end(args);
  return CLI_USAGE;
}

int qn_cli_failure(qn_status code) {
  fprintf(stderr, "quern: %s\n", qn_error_message());
  return code == QN_INVALID || code == QN_NOT_FOUND || code == QN_CORRUPT ? CLI_USAGE : CLI_FAILED;
}

cli_colors qn_cli_colors(FILE *out) {
  static const cli_colors plain = {"", "", "", "", ""},
                          ansi = {"\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"};
  return isatty(fileno(out)) ? ansi : plain;
}

const char *qn_cli_bytes(uint64_t bytes, char *room, size_t size) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double x = (double)bytes;
  size_t unit = 0;
  while (x >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
    x /= 1024;
    unit++;
  }
  (void)snprintf(room, size, unit && x < 100 ? "%.1f %s" : "%.0f %s", x, units[unit]);
  return room;
}
