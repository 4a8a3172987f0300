/* Shared by the files that rewrite a kernel for a device. A value of the original becomes parts (vectors no wider than the device's) of one or
 * two words: 64-bit integers without 64-bit arithmetic are two u32, narrow integers are held extended in 32 bits, f16 and bf16 as their bits. */
#ifndef QUERN_KERNELS_LEGALIZE_H
#define QUERN_KERNELS_LEGALIZE_H

#include "ir.h"

typedef enum hold_kind {
  HOLD_SAME,   /* the device has the dtype */
  HOLD_NARROW, /* i8, i16 in i32; u8, u16 in u32; always extended */
  HOLD_HALF,   /* f16, bf16: bits in u32 */
  HOLD_PAIR    /* i64, u64: low and high u32 */
} hold_kind;

typedef enum view_kind {
  VIEW_DIRECT, /* elements as they are in memory (f16 and bf16 as u16) */
  VIEW_PAIR,   /* twice as many u32 */
  VIEW_PACKED  /* several elements in a u32 */
} view_kind;

typedef struct lword {
  qn_sval w[2]; /* w[1] is used by pairs only */
} lword;

typedef struct lview {
  view_kind kind;
  uint32_t buffer; /* in the new kernel */
  qn_dtype memory; /* its dtype */
  unsigned shift;  /* packed: log2 of the elements in a word */
} lview;

typedef struct legalizer {
  const qn_kernel *k;
  const qn_device_caps *caps;
  qn_kbuild b;
  qn_sink *s; /* &b.sink */
  uint32_t max_lanes;
  bool wide64;       /* 64-bit mulhi, popcnt and clz exist */
  uint32_t *factors; /* per instruction: copies of a loop's body */
  uint32_t *first;   /* per old value: its first part in pool */
  lword *pool;
  size_t pool_count, pool_capacity;
  lview *views;
  qn_status st;
} legalizer;

/* loops.c: by instruction, how often a loop's body is to be repeated in a round; QN_UNSUPPORTED where no unrolling is enough. */
qn_status qn_loops_fit(const qn_kernel *k, const qn_device_caps *caps, uint32_t *factors);

hold_kind qn_legal_hold(const legalizer *l, qn_dtype t);
qn_dtype qn_legal_held(const legalizer *l, qn_dtype t); /* dtype of a word */
void qn_legal_fail(legalizer *l, qn_status st);

/* One part of a scalar operation. */
lword qn_legal_scalar(legalizer *l, qn_sop op, qn_dtype result, qn_dtype operand, const lword *in);
lword qn_legal_const(legalizer *l, qn_dtype t, uint64_t bits);
/* Between a value as held and its bits in a u32 (dtypes of at most 32 bits). */
qn_sval qn_legal_to_bits(legalizer *l, qn_dtype t, qn_sval v);
qn_sval qn_legal_from_bits(legalizer *l, qn_dtype t, qn_sval bits);

/* 64-bit integers as two words (legalize_pair.c). */
lword qn_pair_op(legalizer *l, qn_sop op, bool is_signed, const lword *in);  /* compares: the bool in w[0] */
lword qn_pair_from_f32(legalizer *l, qn_sval x, bool is_signed, qn_dtype t); /* t: f32 or f64 */
/* u32 to f32 with one rounding; not every Vulkan driver's own conversion is one above 2^31. */
qn_sval qn_legal_u32_to_f32(legalizer *l, qn_sval x);
qn_sval qn_pair_to_float(legalizer *l, qn_dtype to, lword x, bool is_signed); /* f32, f64 */
/* Rounds to 24 bits with the lost ones or-ed into the last, so that rounding again to 8 or 11 bits is right. */
qn_sval qn_pair_to_odd_f32(legalizer *l, lword x, bool is_signed);

/* Memory (legalize_memory.c). `index`: scalar or vector of i32 or u32. */
bool qn_legal_views(legalizer *l);
lword qn_legal_load(legalizer *l, uint32_t view, qn_sval index, uint32_t lanes, qn_sval mask, bool gather);
void qn_legal_store(legalizer *l, uint32_t view, qn_sval index, lword value, uint32_t lanes, qn_sval mask,
                    bool scatter);

static inline qn_sval lu32(legalizer *l, uint32_t x) { return qs_bits(l->s, QN_U32, x); }
#endif
