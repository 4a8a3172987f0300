/* Growing text. A failed addition leaves the text as it was and is remembered, so that callers check once at the end. */
#include "quern/base.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(qn_text *t, size_t more) {
  if (t->failed)
    return false;
  if (more >= SIZE_MAX - t->len || !QN_RESERVE(t->buf, t->cap, t->len + more + 1)) {
    t->failed = true;
    return false;
  }
  return true;
}

void qn_text_putn(qn_text *t, const char *s, size_t n) {
  if (!make_room(t, n))
    return;
  if (n)
    memcpy(t->buf + t->len, s, n);
  t->len += n;
  t->buf[t->len] = '\0';
}

void qn_text_puts(qn_text *t, const char *s) { qn_text_putn(t, s, strlen(s)); }

void qn_text_addv(qn_text *t, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  size_t room = t->cap > t->len ? t->cap - t->len : 0;
  int n = t->failed ? -1 : vsnprintf(room ? t->buf + t->len : NULL, room, format, args);
  if (n < 0) {
    t->failed = true;
  } else if ((size_t)n < room) {
    t->len += (size_t)n;
  } else if (make_room(t, (size_t)n)) {
    (void)vsnprintf(t->buf + t->len, (size_t)n + 1, format, again);
    t->len += (size_t)n;
  } else if (room) {
    t->buf[t->len] = '\0'; /* takes back the part that fitted */
  }
  va_end(again);
}

void qn_text_add(qn_text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  qn_text_addv(t, format, args);
  va_end(args);
}

void qn_text_json_string(qn_text *t, const char *s) {
  qn_text_puts(t, "\"");
  for (const char *p = s; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c == '"' || c == '\\')
      qn_text_add(t, "\\%c", c);
    else if (c == '\n')
      qn_text_puts(t, "\\n");
    else if (c == '\t')
      qn_text_puts(t, "\\t");
    else if (c == '\r')
      qn_text_puts(t, "\\r");
    else if (c < 0x20 || c == 0x7f)
      qn_text_add(t, "\\u%04x", (unsigned)c);
    else
      qn_text_putn(t, p, 1);
  }
  qn_text_puts(t, "\"");
}

void qn_text_free(qn_text *t) {
  free(t->buf);
  *t = (qn_text){0};
}

qn_status qn_text_check(const qn_text *t) {
  return t->failed ? QN_ERR(QN_OUT_OF_MEMORY, "text: no memory behind %zu bytes", t->len) : QN_OK;
}
