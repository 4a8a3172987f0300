/* quern devices: what there is, what each can do, which one is used when none is named, and why the others are not. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "quern/drivers.h"

static const char *class_name(qn_device_class c) {
  static const char *const names[] = {[QN_CLASS_CPU_NATIVE] = "cpu",
                                      [QN_CLASS_CPU_TILE] = "cpu-tile",
                                      [QN_CLASS_CPU_SIMT] = "cpu-simt",
                                      [QN_CLASS_CPU_SCALAR] = "cpu-scalar",
                                      [QN_CLASS_GPU] = "gpu"};
  return (size_t)c < sizeof names / sizeof names[0] ? names[c] : "?";
}

/* f32 and 32-bit integers are everywhere; what else a device computes with by itself. The rest is emulated, but for f64. */
static const char *types_of(const qn_device_caps *c, char *room, size_t size) {
  (void)snprintf(room, size, "%s%s%s%s%s%s", c->f64 ? "f64 " : "", "f32 ", c->f16 ? "f16 " : "", c->i64 ? "i64 " : "",
                 c->i16 ? "i16 " : "", c->i8 ? "i8 " : "");
  room[strlen(room) - 1] = '\0';
  return room;
}

static void print_row(const qn_device_info *i, int id_width, int name_width, const cli_colors *k) {
  const qn_device_caps *c = &i->caps;
  char memory[32], types[64], name[64];
  if (!i->usable) {
    printf("  %s%-*s  skipped: %s%s\n", k->dim, id_width, c->id, i->reason, k->off);
    return;
  }
  (void)snprintf(name, sizeof name, "%.*s", name_width, c->name);
  printf("%s %s%-*s%s  %-*s  %-8s  %9s  %5u  %5u  %s\n", i->is_default ? "*" : " ", k->bold, id_width, c->id, k->off,
         name_width, name, class_name(c->device_class), qn_cli_bytes(c->memory_bytes, memory, sizeof memory),
         c->compute_units, c->vector_lanes, types_of(c, types, sizeof types));
  printf("  %s%-*s  %s%s%s%s%s\n", k->dim, id_width, "", c->driver, strcmp(c->platform, "host") == 0 ? "" : "; ",
         strcmp(c->platform, "host") == 0 ? "" : c->platform, c->software ? "; software" : "", k->off);
  if (i->is_default)
    printf("  %-*s  %s\n", id_width, "", i->reason);
}

static void print_no_default(const qn_device_info *infos, size_t count) {
  const char *chosen = qn_env_get(QN_ENV_DEVICE);
  for (size_t i = 0; i < count; i++)
    if (infos[i].is_default)
      return;
  if (chosen && !qn_cli_is_reference(NULL))
    printf("there is no default: QN_DEVICE is %s, which names no usable device\n", chosen);
}

static void print_table(const qn_device_info *infos, size_t count) {
  int id_width = 7, name_width = 20;
  cli_colors k = qn_cli_colors(stdout);
  for (size_t i = 0; i < count; i++) {
    int id = (int)strlen(infos[i].caps.id), name = infos[i].usable ? (int)strlen(infos[i].caps.name) : 0;
    id_width = id > id_width ? id : id_width;
    name_width = name > name_width ? name : name_width;
  }
  name_width = name_width > 48 ? 48 : name_width;
  printf("  %-*s  %-*s  %-8s  %9s  %5s  %5s  %s\n", id_width, "device", name_width, "name", "class", "memory", "units",
         "lanes", "types");
  for (size_t i = 0; i < count; i++)
    print_row(&infos[i], id_width, name_width, &k);
  printf("  %-*s  the reference interpreter, for 'quern replay'\n", id_width, "cpu-ref");
  print_no_default(infos, count);
}

static void add_text(qn_text *t, const char *key, const char *value) {
  qn_text_add(t, "\"%s\":", key);
  qn_text_json_string(t, value);
  qn_text_puts(t, ",");
}

static const char *yes(bool x) { return x ? "true" : "false"; }

static void add_json(qn_text *t, const qn_device_info *i) {
  const qn_device_caps *c = &i->caps;
  qn_text_puts(t, "{");
  add_text(t, "id", c->id);
  qn_text_add(t, "\"usable\":%s,\"default\":%s,", yes(i->usable), yes(i->is_default));
  add_text(t, "reason", i->reason);
  add_text(t, "name", c->name);
  add_text(t, "driver", c->driver);
  add_text(t, "platform", c->platform);
  add_text(t, "vendor", c->vendor);
  add_text(t, "class", i->usable ? class_name(c->device_class) : "");
  qn_text_add(t, "\"software\":%s,\"memory_bytes\":%llu,\"max_buffer_bytes\":%llu,\"max_range_bytes\":%llu,",
              yes(c->software), (unsigned long long)c->memory_bytes, (unsigned long long)c->max_buffer_bytes,
              (unsigned long long)c->max_range_bytes);
  qn_text_add(
      t, "\"compute_units\":%u,\"vector_lanes\":%u,\"subgroup_size\":%u,\"max_group_items\":%u,\"local_bytes\":%u,",
      c->compute_units, c->vector_lanes, c->subgroup_size, c->max_group_items, c->local_bytes);
  qn_text_add(t, "\"f16\":%s,\"f64\":%s,\"i64\":%s,\"i16\":%s,\"i8\":%s}", yes(c->f16), yes(c->f64), yes(c->i64),
              yes(c->i16), yes(c->i8));
}

static int print_json(const qn_device_info *infos, size_t count) {
  qn_text t = {0};
  qn_text_puts(&t, "{\"devices\":[");
  for (size_t i = 0; i < count; i++) {
    qn_text_puts(&t, i ? "," : "");
    add_json(&t, &infos[i]);
  }
  qn_text_puts(&t, "],\"reference\":\"cpu-ref\"}");
  qn_status st = qn_text_check(&t);
  if (st == QN_OK)
    puts(t.buf);
  qn_text_free(&t);
  return st == QN_OK ? CLI_OK : qn_cli_failure(st);
}

static int run(const cli_args *args) {
  size_t driver_count, count;
  const qn_driver *const *drivers = qn_drivers(&driver_count);
  qn_device_info *infos;
  qn_status st = qn_devices_list(drivers, driver_count, &infos, &count);
  if (st != QN_OK)
    return qn_cli_failure(st);
  int code = CLI_OK;
  if (qn_cli_flag(args, "json"))
    code = print_json(infos, count);
  else
    print_table(infos, count);
  free(infos);
  return code;
}

const cli_command qn_cli_devices = {
    .name = "devices",
    .operands = "",
    .summary = "lists devices, drivers and limits, the default, and why others were skipped",
    .options = {{"json", NULL, CLI_FLAG, 0, "the same as JSON"}},
    .more = "A * marks the device that is used without --device and QN_DEVICE. Units are processors or compute units, "
            "lanes the f32\n"
            "vector width worth using; types are computed with directly, the others are emulated (but for f64).",
    .run = run,
};
