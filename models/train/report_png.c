/* Small grey images as PNG data URIs. The deflate stream holds stored blocks: thumbnails gain little from compression, and
 * this way the report is the same bytes in every build. */
#include "train_impl.h"

#include <stdlib.h>
#include <string.h>

enum { STORED_MAX = 65535, CHUNK_EXTRA = 12 };

static void put_be32(uint8_t *out, uint32_t x) {
  for (int i = 0; i < 4; i++)
    out[i] = (uint8_t)(x >> (24 - 8 * i));
}

static uint32_t crc32_of(const uint8_t *data, size_t n) {
  uint32_t c = UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    c ^= data[i];
    for (int bit = 0; bit < 8; bit++)
      c = c >> 1 ^ (c & 1 ? UINT32_C(0xedb88320) : 0);
  }
  return ~c;
}

static uint32_t adler32_of(const uint8_t *data, size_t n) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < n; i++) {
    a = (a + data[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

/* Length, type, `n` bytes that are already in place, checksum. Gives what lies behind. */
static uint8_t *close_chunk(uint8_t *chunk, const char *type, size_t n) {
  put_be32(chunk, (uint32_t)n);
  memcpy(chunk + 4, type, 4);
  put_be32(chunk + 8 + n, crc32_of(chunk + 4, 4 + n));
  return chunk + n + CHUNK_EXTRA;
}

static size_t deflate_stored(uint8_t *out, const uint8_t *data, size_t n) {
  size_t at = 2, done = 0;
  out[0] = 0x78;
  out[1] = 0x01;
  do {
    size_t part = n - done < STORED_MAX ? n - done : STORED_MAX;
    out[at] = done + part == n;
    out[at + 1] = (uint8_t)part;
    out[at + 2] = (uint8_t)(part >> 8);
    out[at + 3] = (uint8_t)~part;
    out[at + 4] = (uint8_t)(~part >> 8);
    memcpy(out + at + 5, data + done, part);
    at += 5 + part;
    done += part;
  } while (done < n);
  put_be32(out + at, adler32_of(data, n));
  return at + 4;
}

static void add_base64(qn_text *t, const uint8_t *data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    size_t have = n - i < 3 ? n - i : 3;
    uint32_t x = (uint32_t)data[i] << 16 | (have > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (have > 2 ? data[i + 2] : 0);
    char four[4] = {digits[x >> 18], digits[x >> 12 & 63], have > 1 ? digits[x >> 6 & 63] : '=',
                    have > 2 ? digits[x & 63] : '='};
    qn_text_putn(t, four, 4);
  }
}

void qn_report_png(qn_text *t, const uint8_t *pixels, size_t rows, size_t columns) {
  static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  size_t raw = rows * (columns + 1), blocks = raw / STORED_MAX + 1;
  uint8_t *lines = malloc(raw + 1), *file = malloc(8 + 3 * CHUNK_EXTRA + 13 + raw + 5 * blocks + 6);
  if (!lines || !file) {
    t->failed = true;
  } else {
    for (size_t r = 0; r < rows; r++) {
      lines[r * (columns + 1)] = 0; /* no filter */
      memcpy(lines + r * (columns + 1) + 1, pixels + r * columns, columns);
    }
    memcpy(file, signature, sizeof signature);
    uint8_t *at = file + sizeof signature;
    put_be32(at + 8, (uint32_t)columns);
    put_be32(at + 12, (uint32_t)rows);
    memcpy(at + 16, (const uint8_t[]){8, 0, 0, 0, 0}, 5); /* 8 bits, grey */
    at = close_chunk(at, "IHDR", 13);
    at = close_chunk(at, "IDAT", deflate_stored(at + 8, lines, raw));
    at = close_chunk(at, "IEND", 0);
    qn_text_puts(t, "data:image/png;base64,");
    add_base64(t, file, (size_t)(at - file));
  }
  free(lines);
  free(file);
}
