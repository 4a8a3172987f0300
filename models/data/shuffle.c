/* The order of rows: tf.data's shuffle buffer, with every draw a pure function of (seed, epoch, number of the draw).
 * So any position of any epoch can be reached again without the past, and no generator's state is ever saved. */
#include "quern/data.h"

#include <stdlib.h>

struct qn_shuffle {
  size_t rows, room; /* room: of the buffer, at most rows; at most 1: source order */
  uint64_t seed, key;
  size_t filled, source, draw; /* rows in the buffer, next row of the source, draws so far */
  uint32_t buffer[];
};

/* splitmix64's finalizer: a bijection that changes every bit of the result with every bit of the argument. */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* 0 .. n-1 from the upper 32 bits; n fits 32 bits, so the bias is below 2^-32 per value. */
static size_t below(uint64_t random, size_t n) { return (size_t)(((random >> 32) * (uint64_t)n) >> 32); }

qn_status qn_shuffle_create(size_t rows, size_t buffer, uint64_t seed, qn_shuffle **out_shuffle) {
  *out_shuffle = NULL;
  if (rows > UINT32_MAX)
    return QN_ERR(QN_INVALID, "shuffle: %zu rows, expected at most %u", rows, UINT32_MAX);
  size_t room = buffer < rows ? buffer : rows;
  qn_shuffle *s = malloc(sizeof *s + room * sizeof s->buffer[0]);
  if (!s)
    return QN_ERR(QN_OUT_OF_MEMORY, "shuffle: no memory for a buffer of %zu rows", room);
  s->rows = rows;
  s->room = room;
  s->seed = seed;
  qn_shuffle_begin(s, 0);
  *out_shuffle = s;
  return QN_OK;
}

void qn_shuffle_begin(qn_shuffle *s, uint64_t epoch) {
  s->key = mix(mix(s->seed) ^ epoch);
  s->filled = s->source = s->draw = 0;
  if (s->room > 1)
    while (s->filled < s->room)
      s->buffer[s->filled++] = (uint32_t)s->source++;
}

static uint32_t draw(qn_shuffle *s) {
  size_t at = below(mix(s->key ^ mix(s->draw++)), s->filled);
  uint32_t row = s->buffer[at];
  s->buffer[at] = s->source < s->rows ? (uint32_t)s->source++ : s->buffer[--s->filled];
  return row;
}

size_t qn_shuffle_next(qn_shuffle *s, size_t want, uint32_t *out_rows) {
  size_t n = 0;
  if (s->room > 1)
    for (; n < want && s->filled; n++)
      out_rows[n] = draw(s);
  else
    for (; n < want && s->source < s->rows; n++)
      out_rows[n] = (uint32_t)s->source++;
  return n;
}

void qn_shuffle_free(qn_shuffle *s) { free(s); }
