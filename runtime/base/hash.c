/* Hashes that are the same on every machine. Tables use 64-bit FNV-1a. Cache keys use a 128-bit digest: two lanes of
 * multiply, xor and rotate over 16-byte little-endian blocks, closed by the length and an avalanche; it guards against
 * accidents, not against an attacker. */
#include "quern/base.h"

#include <string.h>

uint64_t qn_hash_bytes(uint64_t h, const void *data, size_t n) {
  const uint8_t *p = data;
  for (size_t i = 0; i < n; i++)
    h = (h ^ p[i]) * UINT64_C(0x100000001b3);
  return h;
}

uint64_t qn_hash_u64(uint64_t h, uint64_t x) {
  uint8_t b[8];
  for (int i = 0; i < 8; i++)
    b[i] = (uint8_t)(x >> (8 * i));
  return qn_hash_bytes(h, b, sizeof b);
}

static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t load_le(const uint8_t *p) {
  uint64_t x = 0;
  for (int i = 0; i < 8; i++)
    x |= (uint64_t)p[i] << (8 * i);
  return x;
}

static uint64_t avalanche(uint64_t x) {
  x ^= x >> 32;
  x *= UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  x *= UINT64_C(0xd1b54a32d192ed03);
  return x ^ (x >> 32);
}

typedef struct lanes {
  uint64_t a, b;
} lanes;

static void mix(lanes *s, uint64_t x, uint64_t y) {
  s->a = rotate((s->a ^ x) * UINT64_C(0x9fb21c651e98df25), 31) + s->b;
  s->b = rotate((s->b ^ y) * UINT64_C(0xc2b2ae3d27d4eb4f), 29) + s->a;
}

qn_digest qn_digest_bytes(const void *data, size_t n) {
  const uint8_t *p = data;
  lanes s = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)};
  size_t at = 0;
  for (; n - at >= 16; at += 16)
    mix(&s, load_le(p + at), load_le(p + at + 8));
  uint8_t tail[16] = {0};
  if (n > at)
    memcpy(tail, p + at, n - at);
  mix(&s, load_le(tail), load_le(tail + 8));
  mix(&s, (uint64_t)n, ~(uint64_t)n);
  uint64_t a = avalanche(s.a + rotate(s.b, 17));
  uint64_t b = avalanche(s.b ^ rotate(a, 23));
  qn_digest d;
  for (int i = 0; i < 8; i++) {
    d.b[i] = (uint8_t)(a >> (8 * i));
    d.b[8 + i] = (uint8_t)(b >> (8 * i));
  }
  return d;
}

void qn_digest_hex(qn_digest d, char out[33]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 16; i++) {
    out[2 * i] = digits[d.b[i] >> 4];
    out[2 * i + 1] = digits[d.b[i] & 15];
  }
  out[32] = '\0';
}
