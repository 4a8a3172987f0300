/* What the files of kernels/ir share: facts about instruction kinds, scoped value numbering, the builder's state. */
#ifndef QUERN_KERNELS_IR_H
#define QUERN_KERNELS_IR_H

#include "quern/kernel.h"

typedef struct kop_info {
  const char *name;
  bool value; /* defines a value that others may use */
  bool pure;  /* depends on its operands only, so equal ones may be merged and moved */
} kop_info;
extern const kop_info qn_kop_infos[QN_K_COUNT];

/* Operand slot i (0 to 3) of an instruction; 0 where there is none. */
static inline uint32_t kinst_operand(const qn_kinst *in, int i) {
  return i == 0 ? in->a : i == 1 ? in->b : i == 2 ? in->c : in->d;
}
static inline void kinst_map(qn_kinst *in, const uint32_t *map) {
  in->a = map[in->a];
  in->b = map[in->b];
  in->c = map[in->c];
  in->d = map[in->d];
}
/* May this instruction be merged with an equal one before it? */
bool qn_kinst_mergeable(const qn_kernel *k, const qn_kinst *in);

/* ---- scoped value numbering ---- */
typedef struct vn_entry {
  uint64_t hash;
  uint32_t inst, next;
} vn_entry;
typedef struct vn_table {
  uint32_t *heads; /* entry + 1, 0: empty */
  size_t head_count;
  vn_entry *entries;
  size_t count, capacity;
} vn_table;                                                                     /* all zero is empty */
uint32_t qn_vn_find(const vn_table *t, const qn_kernel *k, const qn_kinst *in); /* value, or 0 */
bool qn_vn_add(vn_table *t, const qn_kernel *k, uint32_t inst);
void qn_vn_pop(vn_table *t, size_t mark); /* forgets what was added since count was `mark` */
void qn_vn_free(vn_table *t);

/* ---- the builder's state (qn_kbuild.scopes) ---- */
typedef enum scope_kind { SCOPE_LOOP, SCOPE_IF, SCOPE_ELSE, SCOPE_INLINE_LOOP, SCOPE_INLINE_IF } scope_kind;
typedef struct kscope {
  scope_kind kind;
  size_t mark;
} kscope;
typedef struct kstate {
  vn_table vn;
  kscope *scopes;
  size_t depth, scope_capacity;
  uint64_t *top; /* per value: known to lie in 0 .. top as an integer; UINT64_MAX: nothing known */
  size_t top_capacity;
  char message[256]; /* the first misuse */
} kstate;
static inline kstate *kb_state(const qn_kbuild *b) { return (kstate *)b->scopes; }
static inline const qn_kinst *kb_inst(const qn_kbuild *b, uint32_t id) { return &b->kernel->insts[id]; }

qn_sval qn_kb_pure(qn_kbuild *b, const qn_kinst *in); /* reuses an equal one, else appends */
qn_sval qn_kb_fail(qn_kbuild *b, const char *format, ...)
    QN_PRINTF(2, 3);                                                   /* records the first misuse; the null value */
bool qn_kb_const(const qn_kbuild *b, uint32_t id, uint64_t *out_bits); /* looks through SPLAT */
qn_sval qn_kb_emit(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm);
uint64_t qn_kb_range(const qn_kbuild *b, const qn_kinst *in); /* the upper bound of a new instruction */

/* ---- passes over a finished list (optimize.c) ---- */
bool qn_kernel_hoist(qn_kernel *k); /* loop-invariant code out of loops, merging again; false when memory ran out */
bool qn_kernel_sweep(qn_kernel *k); /* removes what nothing depends on */
bool qn_kernel_order(qn_kernel *k); /* order.c: the same list however the calls that built it were ordered */
void qn_kernel_name(qn_kernel *k);  /* by content */

unsigned qn_kdtype_width(qn_dtype t); /* bits; bool 1 */
#endif
