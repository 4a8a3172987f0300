/* Status codes and the per-thread error record.
 *
 * Every function that can fail returns a qn_status. The message and the trail of call sites sit in a fixed
 * record of the calling thread: nothing is allocated, nothing has to be freed, and it works when memory is gone.
 * A failure is born with QN_ERR and handed on with QN_TRY; no other way makes one. */
#ifndef QUERN_STATUS_H
#define QUERN_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_status {
  QN_OK = 0,
  QN_INVALID,       /* an argument is wrong: shape, dtype, option, value of another graph */
  QN_UNSUPPORTED,   /* right, but this device or build cannot do it; names op, dtype, device */
  QN_OUT_OF_MEMORY, /* host or device memory, or a device limit */
  QN_NOT_FOUND,     /* no such file, device, name */
  QN_IO,            /* the operating system refused: permission, disk full */
  QN_CORRUPT,       /* a file or cache entry is damaged */
  QN_COMPILE,       /* a kernel did not compile; the message holds the driver's log */
  QN_DEVICE_LOST,   /* the device stopped; donated state may be gone */
  QN_TIMEOUT,       /* a bounded wait ended */
  QN_CANCELLED,     /* asked to stop */
  QN_DIVERGED,      /* a computation went to NaN or infinity where that is a failure: a loss */
  QN_INTERNAL       /* a defect of Quern */
} qn_status;

#if defined(__GNUC__) || defined(__clang__)
#define QN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define QN_NORETURN __attribute__((noreturn))
#else
#define QN_PRINTF(fmt, args)
#define QN_NORETURN
#endif

/* Records a failure of the calling thread, replacing an older one, and returns `code` (QN_INTERNAL if that was QN_OK:
 * a failure is never a success). */
qn_status qn_error_raise(qn_status code, const char *file, int line, const char *format, ...) QN_PRINTF(4, 5);
/* Adds a frame to the trail and returns `code`. Frames beyond the record's room are counted, not kept. */
qn_status qn_error_trace(qn_status code, const char *file, int line, const char *expr);
/* The message alone, one line unless it carries a compiler's log. Valid until the thread's next failure. */
const char *qn_error_message(void);
/* Message, birth place and trail, several lines. Valid until the thread's next call of this function. */
const char *qn_error_report(void);
const char *qn_status_name(qn_status code);
/* Carries a failure from one thread to another (a worker's to the caller's). */
typedef struct qn_error_copy {
  qn_status code;
  char message[2048];
} qn_error_copy;
void qn_error_save(qn_status code, qn_error_copy *out_copy);
qn_status qn_error_restore(const qn_error_copy *copy);

/* Tells compilers and analysers what the record keeps: the code of a failure is not QN_OK. */
static inline qn_status qn_status_failure(qn_status code) {
#if defined(__GNUC__) || defined(__clang__)
  if (code == QN_OK)
    __builtin_unreachable();
#endif
  return code;
}

#define QN_ERR(code, ...) qn_status_failure(qn_error_raise((code), __FILE__, __LINE__, __VA_ARGS__))
#define QN_TRY(expr)                                                                                                   \
  do {                                                                                                                 \
    qn_status qn_st_ = (expr);                                                                                         \
    if (qn_st_ != QN_OK)                                                                                               \
      return qn_status_failure(qn_error_trace(qn_st_, __FILE__, __LINE__, #expr));                                     \
  } while (0)
/* For functions that own something: sets `st` and jumps to the one exit label. */
#define QN_TRY_GOTO(st, expr, label)                                                                                   \
  do {                                                                                                                 \
    (st) = (expr);                                                                                                     \
    if ((st) != QN_OK) {                                                                                               \
      (void)qn_error_trace((st), __FILE__, __LINE__, #expr);                                                           \
      goto label;                                                                                                      \
    }                                                                                                                  \
  } while (0)
/* A defect of ours: prints and aborts. Never for bad input. */
#define QN_CHECK(cond) ((cond) ? (void)0 : qn_check_failed(__FILE__, __LINE__, #cond))
void qn_check_failed(const char *file, int line, const char *cond) QN_NORETURN;

#ifdef __cplusplus
}
#endif
#endif
