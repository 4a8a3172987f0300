/* sin, cos, tan over the whole range, after Payne and Hanek: the part of x / (2 pi) below one turn is a fixed-point
 * product of x's mantissa with a window of the bits of 1 / (2 pi), kept to 64 bits (f32) or 128 (f64). The window is
 * picked by selects between constants and one variable shift. Below 1 the argument is its own reduction. f32 uses
 * 32-bit integers only. */
#include "expand.h"

static const double sin_f32[] = {-0.166666672, 0.00833335984, -0.000198438676, 2.73570481e-06};  /* 2^-31.1 on [0, 1] */
static const double cos_f32[] = {0.0416666679, -0.00138889358, 2.48058041e-05, -2.74276658e-07}; /* 2^-35.2 */
static const double sin_f64[] = {-0.16666666666666666,   0.0083333333333331042,   -0.00019841269841078057,
                                 2.7557319147879173e-06, -2.5052092231762311e-08, 1.6057158895113226e-10,
                                 -7.5330459585828533e-13}; /* 2^-62.9 */
static const double cos_f64[] = {0.041666666666666664,    -0.0013888888888888514, 2.4801587301355557e-05,
                                 -2.7557319150733579e-07, 2.0876743993398502e-09, -1.1469435098284664e-11,
                                 4.7092060350802904e-14}; /* 2^-63.3 */

/* Bits of 1 / (2 pi) after 23 and 52 zero bits: entry j serves exponents 32j.. and 64j.. */
static const uint64_t turn_f32[] = {0x00000051, 0x7cc1b727, 0x220a94fe, 0x13abe8fa, 0x9a6ee06d, 0xb14acc9e, 0x21c820ff};
static const uint64_t turn_f64[] = {0x000000000000028b, 0xe60db9391054a7f0, 0x9d5f47d4d377036d, 0x8a5664f10e4107f9,
                                    0x458eaf7aef1586dc, 0x91b8e909374b8019, 0x24bba827464873f8, 0x77ac72c4a69cfba2,
                                    0x08d7d4baed1213a6, 0x71c09ad17df904e6, 0x4758e60d4ce7d272, 0x117e2ef7e4a0ec7f,
                                    0xe25fff7816603fbc, 0xbc462d6829b47db4, 0xd9fb3c9f2c26dd3d, 0x18fd9a797fa8b5d4,
                                    0x9eeb1faf97c5ecf4, 0x1ce7de294a4ba9af, 0xed7ec47e35742158};

typedef struct reduced {
  qn_sval r;    /* |r| <= pi/4, or up to 1 where x is its own reduction */
  qn_sval quad; /* quarter turns, unsigned; the low two bits count */
} reduced;

/* Words j..j+3 of the table, j the bits of `exponent` above the word's shift, then shifted left by the rest:
 * w[0..2]. */
static void window(qn_sink *s, qn_dtype u, qn_sval exponent, qn_sval w[3]) {
  bool wide = u == QN_U64;
  const uint64_t *table = wide ? turn_f64 : turn_f32;
  int words = wide ? 19 : 7, shift = wide ? 6 : 5, top = wide ? 8 : 2;
  qn_sval row[19];
  for (int i = 0; i < words; ++i)
    row[i] = qs_bits(s, u, table[i]);
  for (int step = top, need = 4 + top - 1; step >= 1; step /= 2, need = 4 + step - 1) {
    qn_sval bit = qs_and(s, exponent, qs_bits(s, u, (uint64_t)step << shift));
    qn_sval on = qs_ne(s, bit, qs_bits(s, u, 0));
    for (int i = 0; i < need && i + step < words; ++i)
      row[i] = qs_select(s, on, row[i + step], row[i]);
  }
  qn_sval left = qs_and(s, exponent, qs_bits(s, u, wide ? 63 : 31));
  qn_sval right = qs_xor(s, left, qs_bits(s, u, wide ? 63 : 31));
  for (int i = 0; i < 3; ++i) {
    qn_sval low = qs_shr(s, qs_shr(s, row[i + 1], qs_bits(s, u, 1)), right);
    w[i] = qs_or(s, qs_shl(s, row[i], left), low);
  }
}

/* Upper word of a product of unsigned words, by 32-bit halves for u64: no device need have a 128-bit product. */
static qn_sval upper(qn_sink *s, qn_dtype u, qn_sval a, qn_sval b) {
  if (u == QN_U32)
    return qs_mulhi(s, a, b);
  qn_sval half = qs_bits(s, u, 32), mask = qs_bits(s, u, 0xffffffff);
  qn_sval a0 = qs_and(s, a, mask), a1 = qs_shr(s, a, half), b0 = qs_and(s, b, mask), b1 = qs_shr(s, b, half);
  qn_sval mid = qs_add(s, qs_mul(s, a1, b0), qs_shr(s, qs_mul(s, a0, b0), half));
  qn_sval mid2 = qs_add(s, qs_mul(s, a0, b1), qs_and(s, mid, mask));
  qn_sval high = qs_add(s, qs_mul(s, a1, b1), qs_shr(s, mid, half));
  return qs_add(s, high, qs_shr(s, mid2, half));
}

static reduced reduce(qn_sink *s, const qn_ex_fmt *m, qn_sval ax) {
  qn_dtype u = m->u;
  bool wide = u == QN_U64;
  int width = wide ? 64 : 32;
  qn_sval mant = qs_bits(s, u, (uint64_t)m->mant);
  qn_sval bits = qs_bitcast(s, u, ax);
  qn_sval exponent = qs_sub(s, qs_shr(s, bits, mant), qs_bits(s, u, (uint64_t)m->bias));
  qn_sval digits = qs_and(s, bits, qs_bits(s, u, (UINT64_C(1) << m->mant) - 1));
  digits = qs_or(s, digits, qs_bits(s, u, UINT64_C(1) << m->mant));
  qn_sval w[3];
  window(s, u, exponent, w);
  /* turns * 2^(2 width): the two upper words of digits * w, modulo whole turns */
  qn_sval low = qs_add(s, upper(s, u, digits, w[2]), qs_mul(s, digits, w[1]));
  qn_sval carry = qs_select(s, qs_lt(s, low, qs_mul(s, digits, w[1])), qs_bits(s, u, 1), qs_bits(s, u, 0));
  qn_sval high = qs_add(s, upper(s, u, digits, w[1]), qs_mul(s, digits, w[0]));
  high = qs_add(s, high, carry);
  /* split off the nearest quarter turn; the rest, signed, becomes a float without losing the bits beyond its
   * mantissa */
  qn_sval quarter = qs_bits(s, u, (uint64_t)width - 2);
  qn_sval quad = qs_shr(s, qs_add(s, high, qs_bits(s, u, UINT64_C(1) << (width - 3))), quarter);
  qn_sval rest = qs_bitcast(s, m->i, qs_sub(s, high, qs_shl(s, quad, quarter)));
  qn_sval head = qs_convert(s, m->t, rest);
  qn_sval tail = qs_convert(s, m->t, qs_sub(s, rest, qs_convert(s, m->i, head)));
  tail = qs_fma(s, qs_convert(s, m->t, low), qn_ex_k(s, m, wide ? 0x1p-64 : 0x1p-32), tail);
  qn_sval unit = qn_ex_k(s, m, wide ? 3.4061215800865545e-19 : 1.462918119976564e-09); /* 2 pi / 2^width */
  qn_sval unit_lo = qn_ex_k(s, m, wide ? 1.3277647201629795e-35 : -4.0709402679221638e-17);
  qn_sval r = qs_fma(s, head, unit, qs_fma(s, tail, unit, qs_mul(s, head, unit_lo)));
  qn_sval own = qs_lt(s, ax, qn_ex_k(s, m, 1));
  reduced y;
  y.r = qs_select(s, own, ax, qs_select(s, qs_lt(s, ax, qn_ex_inf(s, m)), r, qn_ex_nan(s, m)));
  y.quad = qs_select(s, own, qs_bits(s, u, 0), quad);
  return y;
}

static qn_sval sin_poly(qn_sink *s, const qn_ex_fmt *m, qn_sval r, qn_sval z) {
  int n;
  const double *c = QN_EX_PICK(m, sin_f32, sin_f64, &n);
  return qs_fma(s, qs_mul(s, r, z), qn_ex_poly(s, z, c, n), r);
}

static qn_sval cos_poly(qn_sink *s, const qn_ex_fmt *m, qn_sval z) {
  int n;
  const double *c = QN_EX_PICK(m, cos_f32, cos_f64, &n);
  qn_sval y = qs_fma(s, z, qn_ex_k(s, m, -0.5), qn_ex_k(s, m, 1));
  if (m->t == QN_F32)
    return qs_fma(s, qs_mul(s, z, z), qn_ex_poly(s, z, c, n), y);
  /* what 1 - z/2 lost goes back in */
  qn_sval lost = qs_fma(s, z, qn_ex_k(s, m, -0.5), qs_sub(s, qn_ex_k(s, m, 1), y));
  return qs_add(s, y, qs_fma(s, qs_mul(s, z, z), qn_ex_poly(s, z, c, n), lost));
}

static qn_sval odd_quad(qn_sink *s, const qn_ex_fmt *m, qn_sval quad) {
  return qs_ne(s, qs_and(s, quad, qs_bits(s, m->u, 1)), qs_bits(s, m->u, 0));
}

/* Bit 1 of the quarter turns as a sign bit. */
static qn_sval quad_sign(qn_sink *s, const qn_ex_fmt *m, qn_sval quad) {
  int up = m->u == QN_U64 ? 62 : 30;
  qn_sval sign = qs_shl(s, qs_shr(s, quad, qs_bits(s, m->u, 1)), qs_bits(s, m->u, (uint64_t)up + 1));
  return qs_bitcast(s, m->i, sign);
}

qn_sval qn_expand_sin(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  reduced a = reduce(s, m, qs_abs(s, in[0]));
  qn_sval z = qs_mul(s, a.r, a.r);
  qn_sval y = qs_select(s, odd_quad(s, m, a.quad), cos_poly(s, m, z), sin_poly(s, m, a.r, z));
  qn_sval sign = qs_xor(s, quad_sign(s, m, a.quad), qn_ex_sign_bit(s, m, in[0]));
  return qn_ex_with_sign(s, m, y, sign);
}

qn_sval qn_expand_cos(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  reduced a = reduce(s, m, qs_abs(s, in[0]));
  qn_sval z = qs_mul(s, a.r, a.r);
  qn_sval y = qs_select(s, odd_quad(s, m, a.quad), sin_poly(s, m, a.r, z), cos_poly(s, m, z));
  return qn_ex_with_sign(s, m, y, quad_sign(s, m, qs_add(s, a.quad, qs_bits(s, m->u, 1))));
}

qn_sval qn_expand_tan(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  reduced a = reduce(s, m, qs_abs(s, in[0]));
  qn_sval z = qs_mul(s, a.r, a.r);
  qn_sval sine = sin_poly(s, m, a.r, z), cosine = cos_poly(s, m, z);
  qn_sval odd = odd_quad(s, m, a.quad);
  qn_sval y = qs_div(s, qs_select(s, odd, cosine, sine), qs_select(s, odd, sine, cosine));
  int up = m->u == QN_U64 ? 63 : 31;
  qn_sval sign = qs_bitcast(s, m->i, qs_shl(s, a.quad, qs_bits(s, m->u, (uint64_t)up))); /* -cot on odd quarters */
  return qn_ex_with_sign(s, m, y, qs_xor(s, sign, qn_ex_sign_bit(s, m, in[0])));
}
