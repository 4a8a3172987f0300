/* The log of a training: whole lines everywhere; on a terminal also a bar that is redrawn in place. */
#include "train_impl.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

enum { BAR = 24 };
#define REDRAW_NS UINT64_C(100000000)

void qn_progress_open(qn_progress *p, FILE *out, bool quiet) {
  int fd = fileno(out);
  *p = (qn_progress){.out = out, .quiet = quiet};
  p->bar = !quiet && fd >= 0 && isatty(fd);
}

bool qn_progress_due(qn_progress *p) {
  if (!p->bar)
    return false;
  uint64_t now = qn_time_ns();
  if (now < p->next_ns)
    return false;
  p->next_ns = now + REDRAW_NS;
  return true;
}

void qn_progress_draw(qn_progress *p, const qn_progress_bar *b) {
  char cells[BAR + 1];
  size_t full = b->steps ? (size_t)(b->step * BAR / b->steps) : 0;
  if (!p->bar)
    return;
  for (size_t i = 0; i < BAR; i++)
    cells[i] = i < full ? '=' : i == full ? '>' : ' ';
  cells[BAR] = '\0';
  fprintf(p->out, "\r\033[Kepoch %d/%d [%s] %" PRIu64 "/%" PRIu64, b->epoch, b->epochs, cells, b->step, b->steps);
  if (isfinite(b->loss))
    fprintf(p->out, " - loss: %.4f - accuracy: %.4f", b->loss, b->accuracy);
  if (b->samples_per_second > 0)
    fprintf(p->out, " - %.0f samples/s", b->samples_per_second);
  (void)fflush(p->out);
  p->drawn = true;
}

void qn_progress_clear(qn_progress *p) {
  if (p->drawn)
    fputs("\r\033[K", p->out);
  p->drawn = false;
}

void qn_progress_line(qn_progress *p, const char *format, ...) {
  va_list args;
  if (p->quiet)
    return;
  qn_progress_clear(p);
  va_start(args, format);
  (void)vfprintf(p->out, format, args);
  va_end(args);
  fputc('\n', p->out);
  (void)fflush(p->out);
}
