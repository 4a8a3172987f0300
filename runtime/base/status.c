/* The per-thread error record: one message, its birth place, and the call sites that handed it on. Everything lives in
 * a fixed block per thread, so raising an error cannot itself run out of memory and nothing has to be released. */
#include "quern/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_ROOM = 4096, EXPR_ROOM = 120, FRAME_ROOM = 16, REPORT_ROOM = MESSAGE_ROOM + FRAME_ROOM * 200 + 256 };

typedef struct frame {
  const char *file;
  int line;
  char expr[EXPR_ROOM];
} frame;

typedef struct record {
  const char *file;
  int line;
  int frames; /* all of them, also those that did not fit */
  char message[MESSAGE_ROOM];
  frame trail[FRAME_ROOM];
  char report[REPORT_ROOM];
} record;

static _Thread_local record last;

static const char *const names[] = {
    [QN_OK] = "ok",
    [QN_INVALID] = "invalid",
    [QN_UNSUPPORTED] = "unsupported",
    [QN_OUT_OF_MEMORY] = "out of memory",
    [QN_NOT_FOUND] = "not found",
    [QN_IO] = "input/output error",
    [QN_CORRUPT] = "corrupt",
    [QN_COMPILE] = "compilation failed",
    [QN_DEVICE_LOST] = "device lost",
    [QN_TIMEOUT] = "timeout",
    [QN_CANCELLED] = "cancelled",
    [QN_DIVERGED] = "diverged",
    [QN_INTERNAL] = "internal error",
};

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Messages quote files, which may hold anything: what a terminal would obey is shown as '?'. Compilers' logs keep their lines. */
static void make_plain(char *message) {
  for (char *c = message; *c; c++)
    if (((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f)
      *c = '?';
}

/* A message that did not fit says so at its end. */
static void mark_cut(char *buf, size_t room, int wanted) {
  if (wanted >= 0 && (size_t)wanted >= room && room > 4)
    memcpy(buf + room - 4, "...", 4);
}

qn_status qn_error_raise(qn_status code, const char *file, int line, const char *format, ...) {
  /* The arguments may point into the old message ("while reading x: <old message>"), so format aside first. */
  char text[MESSAGE_ROOM];
  va_list args;
  va_start(args, format);
  int wanted = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (wanted < 0)
    text[0] = '\0';
  mark_cut(text, sizeof text, wanted);
  make_plain(text);
  memcpy(last.message, text, strlen(text) + 1);
  last.file = file;
  last.line = line;
  last.frames = 0;
  return code == QN_OK ? QN_INTERNAL : code;
}

qn_status qn_error_trace(qn_status code, const char *file, int line, const char *expr) {
  if (last.frames < FRAME_ROOM) {
    frame *f = &last.trail[last.frames];
    f->file = file;
    f->line = line;
    int wanted = snprintf(f->expr, sizeof f->expr, "%s", expr);
    mark_cut(f->expr, sizeof f->expr, wanted);
  }
  last.frames++;
  return code;
}

const char *qn_error_message(void) { return last.message; }

static size_t put(size_t at, const char *format, ...) QN_PRINTF(2, 3);
static size_t put(size_t at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(last.report + at, REPORT_ROOM - at, format, args);
  va_end(args);
  size_t end = n < 0 ? at : at + (size_t)n;
  return end < REPORT_ROOM ? end : REPORT_ROOM - 1;
}

const char *qn_error_report(void) {
  last.report[0] = '\0';
  if (!last.file)
    return last.report;
  size_t at = put(0, "%s (%s:%d)", last.message, base_name(last.file), last.line);
  int kept = last.frames < FRAME_ROOM ? last.frames : FRAME_ROOM;
  for (int i = 0; i < kept; i++)
    at = put(at, "\n  from %s (%s:%d)", last.trail[i].expr, base_name(last.trail[i].file), last.trail[i].line);
  if (last.frames > kept)
    (void)put(at, "\n  and %d more", last.frames - kept);
  return last.report;
}

const char *qn_status_name(qn_status code) {
  size_t i = (size_t)code;
  return i < sizeof names / sizeof *names && names[i] ? names[i] : "unknown status";
}

void qn_error_save(qn_status code, qn_error_copy *out_copy) {
  memset(out_copy, 0, sizeof *out_copy);
  out_copy->code = code;
  if (code == QN_OK)
    return;
  int wanted = snprintf(out_copy->message, sizeof out_copy->message, "%s", last.message);
  mark_cut(out_copy->message, sizeof out_copy->message, wanted);
}

qn_status qn_error_restore(const qn_error_copy *copy) {
  if (copy->code == QN_OK)
    return QN_OK;
  return QN_ERR(copy->code, "%s", copy->message);
}

void qn_check_failed(const char *file, int line, const char *cond) {
  fprintf(stderr, "quern: defect: %s does not hold (%s:%d)\n", cond, base_name(file), line);
  if (last.file)
    fprintf(stderr, "last failure of this thread: %s\n", qn_error_report());
  fflush(stderr);
  abort();
}
