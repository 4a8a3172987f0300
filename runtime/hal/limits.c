/* Pretended limits (QN_LIMITS) and injected faults (QN_FAULT): both are comma-separated name=value or name:value lists,
 * parsed when a device is opened, so that one machine can be tested as if it were many. */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 24 };

/* Cuts the next "name<mark>value" or "value" off *text. name is empty when there was no mark. */
static qn_status next_pair(const char **text, char mark, const char *variable, char name[NAME_ROOM],
                           uint64_t *out_value) {
  const char *end = strchr(*text, ',');
  size_t n = end ? (size_t)(end - *text) : strlen(*text);
  char item[64];
  if (n >= sizeof item)
    return QN_ERR(QN_INVALID, "%s: \"%.40s...\" is too long for a limit", variable, *text);
  memcpy(item, *text, n);
  item[n] = 0;
  *text += end ? n + 1 : n;
  name[0] = 0;
  char *value = item;
  char *at = strchr(item, mark);
  if (at) {
    *at = 0;
    value = at + 1;
    if (strlen(item) >= NAME_ROOM)
      return QN_ERR(QN_INVALID, "%s: unknown name \"%s\"", variable, item);
    memcpy(name, item, strlen(item) + 1);
  }
  char *rest = NULL;
  errno = 0;
  *out_value = strtoull(value, &rest, 0);
  if (errno == ERANGE)
    return QN_ERR(QN_INVALID, "%s: %s does not fit in 64 bits", variable, value);
  if (value[0] < '0' || value[0] > '9' || *rest)
    return QN_ERR(QN_INVALID, "%s: \"%s\" is not a number", variable, value);
  return QN_OK;
}

static void lower32(uint32_t *field, uint64_t value) {
  if (value < *field)
    *field = (uint32_t)value;
}
static void lower64(uint64_t *field, uint64_t value) {
  if (value < *field)
    *field = value;
}

/* One row per numeric limit and per feature; a feature can only be switched off. */
typedef struct limit_row {
  const char *name;
  size_t offset;
  char kind; /* 'w' uint32_t, 'q' uint64_t, 'b' bool, 's' set as given */
} limit_row;
#define ROW(name, field, kind)                                                                                         \
  { name, offsetof(qn_device_caps, field), kind }
static const limit_row rows[] = {ROW("items", max_group_items, 'w'),
                                 ROW("local", local_bytes, 'w'),
                                 ROW("bindings", max_bindings, 'w'),
                                 ROW("lanes", vector_lanes, 'w'),
                                 ROW("rounds", max_loop_rounds, 'w'),
                                 ROW("range", max_range_bytes, 'q'),
                                 ROW("buffer", max_buffer_bytes, 'q'),
                                 ROW("memory", memory_bytes, 'q'),
                                 ROW("f16", f16, 'b'),
                                 ROW("f64", f64, 'b'),
                                 ROW("i64", i64, 'b'),
                                 ROW("i16", i16, 'b'),
                                 ROW("i8", i8, 'b'),
                                 ROW("storage8", storage8, 'b'),
                                 ROW("storage16", storage16, 'b'),
                                 ROW("fma", fma, 'b'),
                                 ROW("subgroup", subgroup_size, 's')};
#undef ROW

static bool apply_row(const char *name, uint64_t value, qn_device_caps *caps) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].name, name) != 0)
      continue;
    void *field = (char *)caps + rows[i].offset;
    if (rows[i].kind == 'w')
      lower32(field, value);
    else if (rows[i].kind == 'q')
      lower64(field, value);
    else if (rows[i].kind == 's')
      *(uint32_t *)field = (uint32_t)value;
    else if (value == 0)
      *(bool *)field = false;
    return true;
  }
  return false;
}

qn_status qn_limits_apply(const char *text, qn_device_caps *caps) {
  int dimension = 3; /* groups=7,5,3: numbers without a name go on with the next dimension */
  while (text && *text) {
    char name[NAME_ROOM];
    uint64_t value;
    QN_TRY(next_pair(&text, '=', "QN_LIMITS", name, &value));
    if (strcmp(name, "groups") == 0) {
      if (value == 0)
        return QN_ERR(QN_INVALID, "QN_LIMITS: groups is 0, expected at least 1");
      for (int i = 0; i < 3; i++)
        lower32(&caps->max_groups[i], value);
      dimension = 1;
    } else if (!name[0] && dimension < 3) {
      if (value == 0)
        return QN_ERR(QN_INVALID, "QN_LIMITS: groups is 0, expected at least 1");
      for (int i = dimension; i < 3; i++)
        lower32(&caps->max_groups[i], value);
      dimension++;
    } else if (!apply_row(name, value, caps)) {
      return QN_ERR(QN_INVALID, "QN_LIMITS: unknown name \"%s\"", name);
    } else {
      dimension = 3;
    }
  }
  return QN_OK;
}

qn_status qn_fault_parse(const char *text, qn_fault_plan *out_plan) {
  *out_plan = (qn_fault_plan){0};
  while (text && *text) {
    char name[NAME_ROOM];
    uint64_t value;
    QN_TRY(next_pair(&text, ':', "QN_FAULT", name, &value));
    if (strcmp(name, "alloc") == 0)
      out_plan->alloc = value;
    else if (strcmp(name, "compile") == 0)
      out_plan->compile = value;
    else if (strcmp(name, "submit") == 0)
      out_plan->submit = value;
    else if (strcmp(name, "lost") == 0)
      out_plan->lost = value;
    else
      return QN_ERR(QN_INVALID, "QN_FAULT: unknown name \"%s\", expected alloc, compile, submit or lost", name);
  }
  return QN_OK;
}
