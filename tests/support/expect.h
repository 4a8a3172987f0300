/* Criterion expectations about statuses. QN_EXPECT_OK prints the whole error report of a failure; QN_EXPECT_FAIL wants
 * the code and a part of the message, so that a failure for another reason does not pass. */
#ifndef QUERN_TEST_EXPECT_H
#define QUERN_TEST_EXPECT_H

#include <criterion/criterion.h>
#include <string.h>

#include "support.h"

#define QN_EXPECT_OK(expr)                                                                                             \
  do {                                                                                                                 \
    qn_status qn_got_ = (expr);                                                                                        \
    cr_expect(qn_got_ == QN_OK, "%s: %s: %s", #expr, qn_status_name(qn_got_),                                          \
              qn_got_ == QN_OK ? "" : qn_error_report());                                                              \
  } while (0)

#define QN_ASSERT_OK(expr)                                                                                             \
  do {                                                                                                                 \
    qn_status qn_got_ = (expr);                                                                                        \
    cr_assert(qn_got_ == QN_OK, "%s: %s: %s", #expr, qn_status_name(qn_got_),                                          \
              qn_got_ == QN_OK ? "" : qn_error_report());                                                              \
  } while (0)

#define QN_EXPECT_FAIL(expr, code, part)                                                                               \
  do {                                                                                                                 \
    qn_status qn_got_ = (expr);                                                                                        \
    cr_expect(qn_got_ == (code), "%s: got '%s', expected '%s'", #expr, qn_status_name(qn_got_), qn_status_name(code)); \
    cr_expect(qn_got_ == QN_OK || strstr(qn_error_message(), (part)), "%s: the message \"%s\" does not hold \"%s\"",   \
              #expr, qn_error_message(), (part));                                                                      \
  } while (0)

#endif
