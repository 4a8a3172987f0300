/* Which devices there are, in which order, which one a name means, and why the others were passed over. */
#include "state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

qn_status qn_device_info_append(qn_device_info **infos, size_t *count, size_t *capacity, const qn_device_info *info) {
  if (!QN_RESERVE(*infos, *capacity, *count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "list devices: no memory for %zu rows", *count + 1);
  (*infos)[(*count)++] = *info;
  return QN_OK;
}

/* "opencl" of "opencl:0". */
static size_t driver_length(const char *id) {
  const char *colon = strchr(id, ':');
  return colon ? (size_t)(colon - id) : strlen(id);
}
static bool of_driver(const qn_device_info *info, const char *name, size_t n) {
  return driver_length(info->caps.id) == n && strncmp(info->caps.id, name, n) == 0;
}

/* Preference: real devices, the cpu, software devices, null, unusable. */
static int rank_of(const qn_device_info *info) {
  if (!info->usable)
    return 4;
  if (of_driver(info, "null", 4))
    return 3;
  if (of_driver(info, "cpu", 3))
    return 1;
  return info->caps.software ? 2 : 0;
}

static void sort_rows(qn_device_info *infos, size_t count) {
  for (size_t i = 1; i < count; i++) { /* stable, a dozen rows */
    qn_device_info row = infos[i];
    size_t at = i;
    for (; at > 0 && rank_of(&infos[at - 1]) > rank_of(&row); at--)
      infos[at] = infos[at - 1];
    infos[at] = row;
  }
}

/* Part of a text, case ignored. */
static bool holds(const char *text, const char *part) {
  for (; *text; text++) {
    size_t i = 0;
    while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
      i++;
    if (!part[i])
      return true;
  }
  return !part[0];
}

static bool same(const char *a, const char *b) { return strlen(a) == strlen(b) && holds(a, b); }

static bool all_digits(const char *s) {
  size_t n = strlen(s);
  return n > 0 && n < 6 && strspn(s, "0123456789") == n;
}

static const qn_device_info *first_of(const qn_device_info *infos, size_t count, const char *driver, size_t n,
                                      const char *text) {
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < count; i++) {
      const qn_device_caps *c = &infos[i].caps;
      if (!infos[i].usable || !of_driver(&infos[i], driver, n))
        continue;
      if (pass == 0 ? holds(c->platform, text)
                    : holds(c->name, text) || holds(c->vendor, text) || holds(c->driver, text))
        return &infos[i];
    }
  return NULL;
}

/* The row that `which` names, usable or not; NULL if none. */
static const qn_device_info *find_row(const qn_device_info *infos, size_t count, const char *which) {
  const char *colon = strchr(which, ':');
  if (!colon) {
    for (int usable = 1; usable >= 0; usable--)
      for (size_t i = 0; i < count; i++)
        if (infos[i].usable == (usable == 1) && of_driver(&infos[i], which, strlen(which)))
          return &infos[i];
    return NULL;
  }
  size_t n = (size_t)(colon - which);
  if (all_digits(colon + 1)) {
    for (size_t i = 0; i < count; i++)
      if (of_driver(&infos[i], which, n) && same(infos[i].caps.id, which))
        return &infos[i];
    return NULL;
  }
  return first_of(infos, count, which, n, colon + 1);
}

/* The cpu is unusable only where a switch for it is wrong: then it is named, and no software device takes its place. */
static const qn_device_info *default_row(const qn_device_info *infos, size_t count) {
  const qn_device_info *first = NULL, *cpu = NULL;
  for (size_t i = 0; i < count; i++) {
    if (infos[i].usable && rank_of(&infos[i]) < 3 && !first)
      first = &infos[i];
    if (of_driver(&infos[i], "cpu", 3))
      cpu = &infos[i];
  }
  return cpu && !cpu->usable && (!first || rank_of(first) > 1) ? cpu : first;
}

static void mark_default(qn_device_info *infos, size_t count) {
  static const char *const why[] = {"the default: first of the real devices", "the default: no real device is usable",
                                    "the default: no other device is usable"};
  const char *chosen = qn_env_get(QN_ENV_DEVICE);
  const qn_device_info *row = chosen ? find_row(infos, count, chosen) : default_row(infos, count);
  if (!row || !row->usable)
    return;
  qn_device_info *mine = &infos[row - infos];
  mine->is_default = true;
  if (chosen)
    (void)snprintf(mine->reason, sizeof mine->reason, "the default: QN_DEVICE is %.200s", chosen);
  else
    (void)snprintf(mine->reason, sizeof mine->reason, "%s", why[rank_of(row)]);
}

static qn_status enumerate_all(const qn_driver *const *drivers, size_t driver_count, qn_device_info **infos,
                               size_t *count) {
  size_t capacity = 0;
  for (size_t i = 0; i < driver_count; i++) {
    size_t before = *count;
    qn_status st = drivers[i]->enumerate(infos, count, &capacity);
    if (st == QN_OUT_OF_MEMORY)
      return qn_error_trace(st, __FILE__, __LINE__, "enumerate");
    if (st != QN_OK) { /* one driver's trouble hides no other driver */
      qn_device_info row = {0};
      (void)snprintf(row.caps.id, sizeof row.caps.id, "%s", drivers[i]->name);
      (void)snprintf(row.reason, sizeof row.reason, "%.250s", qn_error_message());
      *count = before;
      QN_TRY(qn_device_info_append(infos, count, &capacity, &row));
    }
  }
  for (size_t i = 0; i < *count; i++)
    QN_TRY(qn_limits_apply(qn_env_get(QN_ENV_LIMITS), &(*infos)[i].caps));
  return QN_OK;
}

qn_status qn_devices_list(const qn_driver *const *drivers, size_t driver_count, qn_device_info **out_infos,
                          size_t *out_count) {
  qn_device_info *infos = NULL;
  size_t count = 0;
  *out_infos = NULL;
  *out_count = 0;
  qn_status st = enumerate_all(drivers, driver_count, &infos, &count);
  if (st != QN_OK) {
    free(infos);
    return qn_error_trace(st, __FILE__, __LINE__, "enumerate_all");
  }
  sort_rows(infos, count);
  mark_default(infos, count);
  *out_infos = infos;
  *out_count = count;
  return QN_OK;
}

static qn_status not_found(const qn_device_info *infos, size_t count, const char *which) {
  qn_text there = {0};
  for (size_t i = 0; i < count; i++) {
    if (infos[i].usable)
      qn_text_add(&there, "%s%s (%s)", there.len ? ", " : "", infos[i].caps.id, infos[i].caps.name);
    else
      qn_text_add(&there, "%s%s skipped: %s", there.len ? ", " : "", infos[i].caps.id, infos[i].reason);
  }
  qn_status st = QN_ERR(QN_NOT_FOUND, "no device \"%.100s\"; there are: %.1500s", which[0] ? which : "(default)",
                        there.buf ? there.buf : "none");
  qn_text_free(&there);
  return st;
}

static qn_status open_row(const qn_driver *const *drivers, size_t driver_count, const qn_device_info *row,
                          const char *why, qn_device **out_device) {
  const qn_driver *driver = NULL;
  for (size_t i = 0; i < driver_count && !driver; i++)
    if (of_driver(row, drivers[i]->name, strlen(drivers[i]->name)))
      driver = drivers[i];
  if (!driver)
    return QN_ERR(QN_INTERNAL, "open %s: no driver of that name", row->caps.id);
  qn_device *d = NULL;
  QN_TRY(driver->open(row, &d));
  atomic_init(&d->refs, 1);
  (void)snprintf(d->why, sizeof d->why, "%s", why);
  qn_status st = qn_limits_apply(qn_env_get(QN_ENV_LIMITS), &d->caps);
  if (st == QN_OK)
    st = qn_hal_state_attach(d);
  if (st != QN_OK) {
    d->vt->destroy(d);
    return qn_error_trace(st, __FILE__, __LINE__, "open_row");
  }
  *out_device = d;
  return QN_OK;
}

/* A request that names its driver ("cpu", "opencl:1") asks only that one: opening loaders and platforms takes longer than a small program. */
static const qn_driver *named_driver(const qn_driver *const *drivers, size_t driver_count, const char *which) {
  size_t n = strcspn(which, ":");
  for (size_t i = 0; i < driver_count; i++)
    if (n && strlen(drivers[i]->name) == n && strncmp(drivers[i]->name, which, n) == 0)
      return drivers[i];
  return NULL;
}

static qn_status open_among(const qn_driver *const *drivers, size_t driver_count, const char *which, const char *why,
                            bool *out_found, qn_device **out_device) {
  qn_device_info *infos = NULL;
  size_t count = 0;
  QN_TRY(qn_devices_list(drivers, driver_count, &infos, &count));
  const qn_device_info *row = which[0] ? find_row(infos, count, which) : default_row(infos, count);
  qn_status st;
  *out_found = row != NULL;
  if (!row)
    st = not_found(infos, count, which);
  else if (!row->usable)
    st = QN_ERR(QN_NOT_FOUND, "device %s cannot be used: %s", row->caps.id, row->reason);
  else
    st = open_row(drivers, driver_count, row, why ? why : row->reason, out_device);
  free(infos);
  return st;
}

/* Is the cpu the default, whatever the drivers would list? A machine without a GPU need not open their loaders to know. */
static bool cpu_it_is(const qn_driver *const *drivers, size_t driver_count) {
  bool by_nodes = true;
  for (size_t i = 0; i < driver_count; i++)
    by_nodes = by_nodes && drivers[i]->by_nodes;
  return by_nodes && !qn_gpu_possible();
}

qn_status qn_device_open(const qn_driver *const *drivers, size_t driver_count, const char *which,
                         qn_device **out_device) {
  *out_device = NULL;
  const char *why = "asked for by name";
  if (!which || !which[0]) {
    which = qn_env_get(QN_ENV_DEVICE);
    why = which ? "QN_DEVICE names it" : NULL;
  }
  if (!which)
    which = "";
  const char *only = which[0] || !cpu_it_is(drivers, driver_count) ? which : "cpu";
  const qn_driver *named = named_driver(drivers, driver_count, only);
  bool found = false;
  qn_status st = named ? open_among(&named, 1, only, why, &found, out_device) : QN_OK;
  if (!found) /* the message is to list every device there is */
    st = open_among(drivers, driver_count, which, why, &found, out_device);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_device_open");
}
