/* Shared libraries opened at run time. They are never unmapped: drivers keep threads and exit handlers that would run
 * into the hole, and leak checkers could not name their frames. */
#define _GNU_SOURCE /* RTLD_NODELETE */
#include "quern/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct qn_library {
  void *handle;
  char name[128];
};

qn_status qn_library_open(const char *const *names, qn_library **out_library) {
  *out_library = NULL;
  char tried[512] = "";
  char reason[512] = "no name was given";
  for (const char *const *name = names; *name; name++) {
    void *handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle) {
      qn_library *lib = calloc(1, sizeof *lib);
      if (!lib) {
        (void)dlclose(handle);
        return QN_ERR(QN_OUT_OF_MEMORY, "open library %s: no memory for its handle", *name);
      }
      lib->handle = handle;
      (void)snprintf(lib->name, sizeof lib->name, "%s", *name);
      *out_library = lib;
      return QN_OK;
    }
    const char *why = dlerror();
    (void)snprintf(reason, sizeof reason, "%s", why ? why : "unknown reason");
    size_t n = strlen(tried);
    (void)snprintf(tried + n, sizeof tried - n, "%s%s", n ? ", " : "", *name);
  }
  return QN_ERR(QN_NOT_FOUND, "open library: none of [%s] could be opened: %s", tried, reason);
}

qn_status qn_library_symbol(qn_library *lib, const char *name, void *out_fn) {
  memset(out_fn, 0, sizeof(void *));
  (void)dlerror();
  void *address = dlsym(lib->handle, name);
  if (!address)
    return QN_ERR(QN_NOT_FOUND, "library %s has no symbol %s", lib->name, name);
  /* ISO C has no conversion from an object pointer to a function pointer; POSIX says that the bytes are the same. */
  memcpy(out_fn, &address, sizeof address);
  return QN_OK;
}

void qn_library_close(qn_library *lib) {
  if (!lib)
    return;
  (void)dlclose(lib->handle);
  free(lib);
}
