/* Helpers for every test, with or without Criterion: where shared data lies, temporary folders, a check that stops a
 * plain test program. Criterion's own expectations are in expect.h. */
#ifndef QUERN_TEST_SUPPORT_H
#define QUERN_TEST_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "quern/base.h"

/* The folder of shared data: QN_SHARED, else ../shared beside the project, else NULL. Tests run in the project's root. */
const char *qn_test_shared_dir(void);
/* A path below it, or NULL when there is no such file. `out` is the caller's room. */
const char *qn_test_shared_path(const char *relative, char *out, size_t size);
/* True when the long form of a test was asked for (QN_TEST_ALL=1). */
bool qn_test_all(void);

/* A fresh empty folder; the caller removes it, with all it holds, by qn_test_temp_remove. */
typedef struct qn_test_temp {
  char path[512];
} qn_test_temp;
qn_test_temp qn_test_temp_make(void);
/* "<folder>/<name>" in a buffer of this value's own. */
typedef struct qn_test_path {
  char s[1024];
} qn_test_path;
qn_test_path qn_test_temp_file(const qn_test_temp *t, const char *name);
void qn_test_temp_remove(const qn_test_temp *t);

/* True when `report` holds `part`; prints both when it does not. */
bool qn_test_contains(const char *text, const char *part);

/* For plain test programs: says what failed and ends the process with 1. */
#define QN_REQUIRE(cond) ((cond) ? (void)0 : qn_test_stop(__FILE__, __LINE__, #cond, NULL))
#define QN_REQUIRE_OK(expr) ((expr) == QN_OK ? (void)0 : qn_test_stop(__FILE__, __LINE__, #expr, qn_error_report()))
void qn_test_stop(const char *file, int line, const char *cond, const char *detail);

#endif
