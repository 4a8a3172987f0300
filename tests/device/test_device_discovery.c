/* Which devices are listed and why not, which one a name means, what pretended limits do to them. */
#include "expect.h"
#include "kit.h"

/* Two drivers made up for these tests: a card with an unusable sister, and one that fails. */
static qn_status card_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  qn_device_info row = {.usable = true};
  row.caps.device_class = QN_CLASS_GPU;
  row.caps.max_groups[0] = 10;
  strcpy(row.caps.id, "opencl:0");
  strcpy(row.caps.name, "Fast Card 9000");
  strcpy(row.caps.platform, "Acme");
  strcpy(row.caps.driver, "12.3 soft");
  strcpy(row.caps.vendor, "Acme Corp");
  QN_TRY(qn_device_info_append(infos, count, capacity, &row));
  strcpy(row.caps.id, "opencl:1");
  strcpy(row.caps.name, "Old Card");
  strcpy(row.reason, "too old");
  row.usable = false;
  QN_TRY(qn_device_info_append(infos, count, capacity, &row));
  strcpy(row.caps.id, "opencl:2");
  strcpy(row.caps.name, "acme emulator");
  strcpy(row.caps.platform, "Soft Runtime");
  row.usable = row.caps.software = true;
  row.reason[0] = 0;
  return qn_device_info_append(infos, count, capacity, &row);
}
static qn_status card_open(const qn_device_info *info, qn_device **out_device) {
  *out_device = NULL;
  return QN_ERR(QN_CANCELLED, "opening %s", info->caps.id);
}
static const qn_driver card = {.name = "opencl", .enumerate = card_enumerate, .open = card_open};
static qn_status soft_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  qn_device_info row = {.usable = true};
  row.caps.software = true;
  row.caps.max_groups[0] = 10;
  strcpy(row.caps.id, "vulkan:0");
  return qn_device_info_append(infos, count, capacity, &row);
}
static const qn_driver soft = {.name = "vulkan", .enumerate = soft_enumerate, .open = card_open};
static qn_status broken_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  (void)infos;
  (void)count;
  (void)capacity;
  return QN_ERR(QN_IO, "the bus is on fire");
}
static const qn_driver broken = {.name = "vulkan", .enumerate = broken_enumerate, .open = card_open};
static const qn_driver *const made_up[] = {&qn_driver_null, &qn_driver_cpu, &card, &broken};

Test(device_discovery, order_and_reasons) {
  qn_device_info *infos;
  size_t n;
  QN_ASSERT_OK(qn_devices_list(made_up, 4, &infos, &n));
  static const char *const order[] = {"opencl:0", "cpu", "opencl:2", "null", "opencl:1", "vulkan"};
  cr_assert(n == 6, "%zu rows", n);
  for (size_t i = 0; i < 6; i++)
    cr_expect(strcmp(infos[i].caps.id, order[i]) == 0, "row %zu is %s", i, infos[i].caps.id);
  cr_expect(infos[0].is_default && !infos[1].is_default && strstr(infos[0].reason, "default"));
  cr_expect(!infos[4].usable && strcmp(infos[4].reason, "too old") == 0);
  cr_expect(!infos[5].usable && strstr(infos[5].reason, "on fire"));
  free(infos);
  QN_ASSERT_OK(qn_devices_list(NULL, 0, &infos, &n));
  cr_expect(n == 0);
  free(infos);
}

static void means(const char *which, const char *id) {
  qn_device *d = NULL;
  char want[64];
  (void)snprintf(want, sizeof want, "opening %s", id);
  qn_status st = qn_device_open(made_up, 4, which, &d);
  cr_expect(st == QN_CANCELLED && strcmp(qn_error_message(), want) == 0, "%s: %s", which ? which : "(default)",
            st == QN_OK ? "opened" : qn_error_message());
  if (st == QN_OK)
    qn_device_release(d);
}

Test(device_discovery, names) {
  means(NULL, "opencl:0");
  means("", "opencl:0");
  means("opencl", "opencl:0");
  means("opencl:0", "opencl:0");
  means("opencl:2", "opencl:2");
  means("opencl:fast card", "opencl:0");
  means("opencl:ACME CORP", "opencl:0");
  means("opencl:emulator", "opencl:2");
  means("opencl:12.3", "opencl:0");
  means("opencl:soft", "opencl:2"); /* the platform's text goes before the driver's */
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "opencl:1", &d), QN_NOT_FOUND, "too old");
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "vulkan", &d), QN_NOT_FOUND, "on fire");
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "opencl:7", &d), QN_NOT_FOUND, "Fast Card 9000");
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "opencl:old", &d), QN_NOT_FOUND, "too old");
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "tpu", &d), QN_NOT_FOUND, "\"tpu\"");
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "cpu-ref", &d), QN_NOT_FOUND, "cpu-ref");
  QN_EXPECT_FAIL(qn_device_open(made_up, 1, NULL, &d), QN_NOT_FOUND, "null");
  cr_expect(d == NULL);
  QN_ASSERT_OK(qn_device_open(made_up, 4, "null", &d));
  cr_expect(strcmp(qn_device_get_caps(d)->id, "null") == 0);
  qn_device_release(d);
}

Test(device_discovery, chosen_by_environment) {
  setenv("QN_DEVICE", "null", 1);
  qn_device_info *infos;
  size_t n;
  QN_ASSERT_OK(qn_devices_list(made_up, 4, &infos, &n));
  for (size_t i = 0; i < n; i++)
    cr_expect(infos[i].is_default == (strcmp(infos[i].caps.id, "null") == 0));
  free(infos);
  qn_device *d;
  QN_ASSERT_OK(qn_device_open(made_up, 4, NULL, &d));
  cr_expect(strcmp(qn_device_get_caps(d)->id, "null") == 0);
  qn_device_release(d);
  means("opencl", "opencl:0"); /* a name given goes before the variable */
}

Test(device_discovery, wrong_switch_of_the_cpu) {
  setenv("QN_THREADS", "abc", 1);
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 2, NULL, &d), QN_NOT_FOUND, "QN_THREADS=abc");
  static const qn_driver *const software[] = {&qn_driver_cpu, &soft};
  QN_EXPECT_FAIL(qn_device_open(software, 2, NULL, &d), QN_NOT_FOUND, "QN_THREADS=abc"); /* not the software device */
  means(NULL, "opencl:0"); /* a real device goes before the cpu */
}

Test(device_discovery, nodes_that_a_gpu_works_through) {
  char folder[] = "/tmp/quern-nodes-XXXXXX", node[64];
  cr_assert(mkdtemp(folder));
  cr_expect(!qn_gpu_nodes_in(folder));
  (void)snprintf(node, sizeof node, "%s/nvidia0", folder);
  QN_ASSERT_OK(qn_file_write_atomic(node, "", 0));
  cr_expect(qn_gpu_nodes_in(folder));
  (void)remove(node);
  (void)remove(folder);
  cr_expect(qn_gpu_nodes_in(folder), "an unknown folder rules nothing out");
}

Test(device_discovery, says_why) {
  qn_device *d;
  static const qn_driver *const own[] = {&qn_driver_null, &qn_driver_cpu};
  QN_ASSERT_OK(qn_device_open(own, 2, NULL, &d));
  cr_expect(strcmp(qn_device_get_caps(d)->id, "cpu") == 0 && strstr(qn_device_why(d), "default"), "%s",
            qn_device_why(d));
  qn_device_release(d);
  QN_ASSERT_OK(qn_device_open(own, 2, "cpu", &d));
  cr_expect(strstr(qn_device_why(d), "asked for"), "%s", qn_device_why(d));
  qn_device_release(d);
}

Test(device_discovery, says_that_the_variable_chose) {
  qn_device *d;
  static const qn_driver *const own[] = {&qn_driver_null, &qn_driver_cpu};
  setenv("QN_DEVICE", "null", 1);
  QN_ASSERT_OK(qn_device_open(own, 2, NULL, &d));
  cr_expect(strstr(qn_device_why(d), "QN_DEVICE"), "%s", qn_device_why(d));
  qn_device_release(d);
}

Test(device_discovery, pretended_limits) {
  setenv("QN_LIMITS", "groups=65535,items=64,range=1048576,bindings=4,local=16384,f64=0,storage16=0,subgroup=16", 1);
  qn_device *d;
  QN_ASSERT_OK(qn_device_open(made_up, 4, "null", &d));
  const qn_device_caps *c = qn_device_get_caps(d);
  cr_expect(c->max_groups[0] == 65535 && c->max_groups[2] == 65535 && c->max_group_items == 64);
  cr_expect(c->max_range_bytes == 1048576 && c->max_bindings == 4 && c->local_bytes == 16384);
  cr_expect(!c->f64 && !c->storage16 && c->f16 && c->i64 && c->subgroup_size == 16);
  qn_device_release(d);
  qn_device_info *infos;
  size_t n;
  QN_ASSERT_OK(qn_devices_list(made_up, 4, &infos, &n));
  cr_expect(infos[0].caps.max_groups[0] == 10, "limits are never raised");
  free(infos);
}

Test(device_discovery, limits_that_make_no_sense) {
  setenv("QN_LIMITS", "groups=7,five", 1);
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "null", &d), QN_INVALID, "\"five\" is not a number");
}
Test(device_discovery, limits_beyond_64_bits) {
  setenv("QN_LIMITS", "groups=99999999999999999999", 1);
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "null", &d), QN_INVALID, "does not fit in 64 bits");
}
Test(device_discovery, limits_of_unknown_name) {
  setenv("QN_LIMITS", "grops=7", 1);
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "null", &d), QN_INVALID, "\"grops\"");
}
Test(device_discovery, limits_of_zero_groups) {
  setenv("QN_LIMITS", "groups=7,0", 1);
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "null", &d), QN_INVALID, "at least 1");
}
Test(device_discovery, faults_of_unknown_name) {
  setenv("QN_FAULT", "alloc:3,flood:1", 1);
  qn_device *d;
  QN_EXPECT_FAIL(qn_device_open(made_up, 4, "null", &d), QN_INVALID, "\"flood\"");
}

/* Folding covers every count and never runs an index twice. */
Test(device_discovery, folding) {
  static const uint32_t limits[][3] = {{7, 5, 3}, {65535, 65535, 65535}, {UINT32_MAX, 1, 1}, {1, 1, 1}, {4, 1, 9}};
  for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
    for (uint32_t n = 0; n < 300; n++) {
      uint32_t g[3];
      bool fits = qn_fold_groups(n, limits[k], g);
      cr_expect(fits == (n <= (uint64_t)limits[k][0] * limits[k][1] * limits[k][2]), "%u in row %zu", n, k);
      if (fits)
        cr_expect(g[0] <= limits[k][0] && g[1] <= limits[k][1] && g[2] <= limits[k][2] && g[0] * g[1] * g[2] >= n);
    }
  uint32_t g[3];
  cr_expect(qn_fold_groups(4000000000u, limits[1], g) && (uint64_t)g[0] * g[1] * g[2] >= 4000000000u);
  cr_expect((uint64_t)g[0] * g[1] * g[2] <= UINT32_MAX);
}

/* The real drivers: whatever is there has a name, limits and a reason where it is skipped, and opens. */
Test(device_discovery, real_devices) {
  qn_device_info *infos;
  size_t n;
  QN_ASSERT_OK(qn_devices_list(kit_drivers, KIT_DRIVERS, &infos, &n));
  size_t defaults = 0;
  for (size_t i = 0; i < n; i++) {
    const qn_device_caps *c = &infos[i].caps;
    cr_expect(c->id[0] && (infos[i].usable || infos[i].reason[0]), "row %zu", i);
    defaults += infos[i].is_default;
    if (!infos[i].usable)
      continue;
    cr_expect(c->name[0] && c->driver[0] && c->platform[0], "%s", c->id);
    cr_expect(c->max_group_items >= 64 && c->max_groups[0] >= 65535 && c->max_bindings >= 3 && c->max_buffer_bytes &&
                  c->max_range_bytes && c->local_bytes && c->compute_units && c->vector_lanes,
              "%s", c->id);
    qn_device *d;
    QN_EXPECT_OK(kit_open(c->id, &d));
    qn_device_release(d);
  }
  cr_expect(defaults == 1);
  free(infos);
}

#ifdef QN_HAVE_OPENCL
/* A vendor file that names a library which is not there is reported by name. */
Test(device_discovery, broken_vendor_file) {
  qn_test_temp t = qn_test_temp_make();
  qn_test_path p = qn_test_temp_file(&t, "odd.icd");
  QN_ASSERT_OK(qn_file_write_atomic(p.s, "libnosuchdriver.so.9\n", 21));
  char folder[520];
  (void)snprintf(folder, sizeof folder, "%s/", t.path);
  setenv("OCL_ICD_VENDORS", folder, 1);
  static const qn_driver *const only[] = {&qn_driver_opencl};
  qn_device_info *infos;
  size_t n;
  bool named = false;
  QN_ASSERT_OK(qn_devices_list(only, 1, &infos, &n));
  for (size_t i = 0; i < n; i++) {
    cr_expect(!infos[i].usable);
    named = named || strstr(infos[i].reason, "libnosuchdriver.so.9") || strstr(infos[i].reason, "cannot be") ||
            strcmp(infos[i].caps.name, "no loader") == 0;
  }
  cr_expect(named && n >= 1);
  free(infos);
  qn_test_temp_remove(&t);
}
#endif
