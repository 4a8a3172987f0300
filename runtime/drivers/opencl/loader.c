/* Opens the OpenCL loader once and fills the table of calls; also looks at the vendor files the loader reads, to name
 * those whose library does not open, which the loader passes over in silence. */
#include "ocl.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ocl_api api;
static qn_error_copy failure;
static bool loaded;

/* Where phones keep it when there is no loader. */
static const char *const loader_names[] = {"libOpenCL.so.1",
                                           "libOpenCL.so",
                                           "/vendor/lib64/libOpenCL.so",
                                           "/system/vendor/lib64/libOpenCL.so",
                                           "/system/lib64/libOpenCL.so",
                                           "/vendor/lib64/egl/libGLES_mali.so",
                                           "/vendor/lib64/libPVROCL.so",
                                           NULL};

static qn_status fill(qn_library *lib) {
#define OCL_LOAD(name) QN_TRY(qn_library_symbol(lib, #name, &api.name));
  OCL_CALLS(OCL_LOAD)
#undef OCL_LOAD
  return QN_OK;
}

static void load(void) {
  /* Mesa's OpenCL offers its software device only when asked; who has asked for something else keeps it. */
  (void)setenv("RUSTICL_ENABLE", "llvmpipe", 0);
  qn_library *lib = NULL;
  qn_status st = qn_library_open(loader_names, &lib);
  if (st == QN_OK)
    st = fill(lib);
  if (st != QN_OK)
    qn_error_save(st, &failure);
  loaded = st == QN_OK;
  qn_library_close(lib); /* stays mapped */
}

qn_status qn_ocl_api(const ocl_api **out_api) {
  (void)pthread_once(&once, load);
  *out_api = loaded ? &api : NULL;
  return loaded ? QN_OK : qn_error_restore(&failure);
}

/* The library that a vendor file names: its first line. */
static bool vendor_library(const char *path, char *out, size_t size) {
  FILE *f = fopen(path, "r");
  if (!f)
    return false;
  bool ok = fgets(out, (int)size, f) != NULL;
  (void)fclose(f);
  if (ok)
    out[strcspn(out, "\r\n")] = 0;
  return ok && out[0];
}

static qn_status report_vendor(const char *path, qn_device_info **infos, size_t *count, size_t *capacity) {
  char library[256];
  if (!vendor_library(path, library, sizeof library))
    return QN_OK;
  const char *const names[] = {library, NULL};
  qn_library *lib = NULL;
  qn_status st = qn_library_open(names, &lib);
  qn_library_close(lib);
  if (st == QN_OK)
    return QN_OK;
  qn_device_info row = {0};
  (void)snprintf(row.caps.id, sizeof row.caps.id, "opencl");
  (void)snprintf(row.caps.name, sizeof row.caps.name, "%.120s", library);
  (void)snprintf(row.reason, sizeof row.reason, "%.80s is broken: %.160s", path, qn_error_message());
  return qn_device_info_append(infos, count, capacity, &row);
}

static const char *vendor_folder(void) {
  static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv(variables[i]);
    if (value && value[0])
      return value;
  }
  return "/etc/OpenCL/vendors";
}

qn_status qn_ocl_report_vendors(qn_device_info **infos, size_t *count, size_t *capacity, size_t *out_vendors) {
  *out_vendors = 0;
  const char *folder = vendor_folder();
  DIR *dir = opendir(folder);
  if (!dir)
    return QN_OK;
  qn_status st = QN_OK;
  for (struct dirent *e = readdir(dir); e && st == QN_OK; e = readdir(dir)) {
    size_t n = strlen(e->d_name);
    char path[1024];
    if (n < 5 || strcmp(e->d_name + n - 4, ".icd") != 0)
      continue;
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    ++*out_vendors;
    st = report_vendor(path, infos, count, capacity);
  }
  (void)closedir(dir);
  return st;
}
