/* Between the walker and its dialects. A dialect supplies words, templates and the few things whose shape differs (declarations, memory); order of
 * statements, control flow, names and indentation are the walker's. In templates $0 $1 $2 are operands, $T the result's type, $U the unsigned
 * type of its shape, $( and $) a cast to $T around what C promotes to int, $W the 32- or 64-bit unsigned scalar that holds it, $C a cast to uint where C's promotion would be to int, $N the lanes
 * (empty for scalars), $L the lane in `imm`, $K operand 0 as a mask as wide as operand 1, $X what makes a compare's mask one of 32 bits. */
#ifndef QUERN_KERNELS_PRINT_H
#define QUERN_KERNELS_PRINT_H

#include "quern/kernel.h"

typedef struct printer {
  const qn_kernel *k;
  const qn_dialect *d;
  const qn_device_caps *caps;
  qn_text *out;
  uint32_t *divisors;   /* NULL when memory ran out: nothing counts as aligned */
  uint8_t *array_lanes; /* per ARRAY: lanes of its elements as declared */
  int depth;
} printer;

typedef struct words {
  char s[96];
} words;

/* One operation for floats, signed, unsigned and bool; the second four for vectors, where NULL means as for scalars. */
typedef struct spelling {
  const char *f, *i, *u, *b;
  const char *vf, *vi, *vu, *vb;
} spelling;

struct qn_dialect {
  const char *name;
  const char *constant, *precise; /* in front of a value's declaration; precise: float arithmetic */
  const char *barrier, *dont_unroll;
  const char *params; /* the array of parameter words */
  const char *splat, *splat_bool, *extract, *extract_bool, *low, *high, *join, *join_bool;
  const spelling *spell;   /* by qn_sop */
  const char *select_wide; /* vectors of 64-bit elements; NULL: as the others */
  words (*type)(qn_dtype t, uint32_t lanes);
  words (*literal)(qn_dtype t, uint64_t bits);
  const char *(*lane)(uint32_t i);
  const char *(*convert)(const printer *p, const qn_kinst *in); /* a template */
  const char *(*bitcast)(const printer *p, const qn_kinst *in);
  void (*prelude)(const qn_device_caps *caps, qn_text *out);
  void (*open)(printer *p);                                 /* all before the body */
  void (*load)(printer *p, uint32_t i, const char *target); /* writes "target = ...;" */
  void (*store)(printer *p, uint32_t i);
  void (*array_load)(printer *p, uint32_t i, const char *target);
  void (*array_store)(printer *p, uint32_t i);
  void (*atomic)(printer *p, uint32_t i);
};

words qn_print_operand(const printer *p, uint32_t id);
words qn_print_lane(const printer *p, uint32_t id, uint32_t lane); /* a lane of an operand; scalars are their own */
void qn_print_indent(printer *p);
void qn_print_line(printer *p, const char *format, ...) QN_PRINTF(2, 3);
bool qn_print_aligned(const printer *p, uint32_t i, uint32_t index, uint32_t lanes); /* LOAD and STORE */
words qn_print_offset(const printer *p, uint32_t buffer, const char *word); /* word of the parameters, shifted */

/* A float whose decimal form is short and exact ("1.5"), else an empty string. */
words qn_print_decimal(double x);
double qn_print_value(qn_dtype t, uint64_t bits);
static inline const qn_kinst *print_inst(const printer *p, uint32_t id) { return &p->k->insts[id]; }
static inline uint32_t print_lanes(const printer *p, uint32_t id) { return p->k->insts[id].lanes; }
bool qn_print_uses(const qn_kernel *k, qn_kop op);
bool qn_print_touches(const qn_kinst *in); /* a memory instruction: aux is its buffer */
bool qn_print_buffer_used(const qn_kernel *k, uint32_t buffer);
#endif
