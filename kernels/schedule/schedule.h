/* The scheduler's own types: parts (clusters of one loop nest), values and where they live. Private to this folder.
 *
 * A part computes its outputs over one domain and inlines every value that isn't in memory ("lazy") at the index where it's needed. Parts are
 * numbered in dependency order: a part reads only what parts of lower numbers stored. A value is *aligned* with a part when it can be
 * computed there, element for element, as an epilogue: in the space of the part's results (SPACE_P) or, for rows, in that of
 * the reduced operand (SPACE_PR).
 *
 * A loop is a part whose body is a schedule of its own over the same slabs. Each carry has one place for the whole loop, that of the loop's result; the
 * initial carry is computed there, and what the body computes is written over it (lower_loop.c says in which form the body arrives). */
#ifndef QN_SCHEDULE_H
#define QN_SCHEDULE_H

#include "quern/compile.h"
#include "quern/kernel.h"
#include "quern/op.h"

/* Outputs of one part: all of an element's are computed before the first is stored, so that updates in place are safe. */
enum { PART_OUTPUTS = 48, PART_OUTPUTS_ROOM = 64 };

typedef enum part_kind {
  PART_MAP,
  PART_ROW,
  PART_CONTRACT,
  PART_SCATTER,
  PART_SORT,
  PART_MATRIX,
  PART_SCAN,
  PART_LOOP,
  PART_UPDATE,
  PART_KINDS
} part_kind;
typedef enum part_space { SPACE_NONE, SPACE_P, SPACE_PR } part_space;

typedef struct sched_input {
  uint32_t value;
  bool identity; /* every read is of the element that the part is computing */
} sched_input;

typedef struct sched_part {
  part_kind kind;
  uint32_t hero;     /* index of the node that it is there for; the first reduce of a row part */
  uint32_t *reduces; /* node indexes, in dependency order */
  size_t reduce_count, reduce_capacity;
  qn_type domain;    /* shape: results (map, contract, scatter, sort) or the reduced operand (row) */
  uint32_t reduced;  /* row: bit per reduced axis of the domain */
  uint32_t *outputs; /* value ids to store */
  size_t output_count, output_capacity;
  sched_input *inputs; /* values read from memory */
  size_t input_count, input_capacity;
  uint64_t cost;   /* of its outputs, shared values counted again */
  int level;       /* launch */
  uint32_t groups; /* set by emission */
  double flops;
  uint64_t sources;         /* sketch of the memory values that the operands come from */
  struct qn_schedule *body; /* loop */
  uint64_t scratch;         /* loop: bytes in the arena where the body's own values lie */
} sched_part;

typedef enum value_home { HOME_NONE, HOME_ARENA, HOME_ARG, HOME_RESULT, HOME_CONSTANT } value_home;

typedef struct sched_value {
  bool material;                /* in memory: parameter, large constant, or an output of `part` */
  int32_t walked, walked_moved; /* last part + 1 whose needs were walked through here, at the element and off it */
  uint32_t settled;             /* last settling walk */
  int32_t read_by;              /* part + 1 that reads it from memory, during emission */
  int32_t part;                 /* that computes it; -1: parameter or constant */
  int32_t align;                /* part in which it can be computed element for element; -1 */
  part_space space;
  int32_t dep;   /* highest part that it depends on; -1 */
  uint32_t uses; /* consumers */
  uint32_t cost; /* scalar operations to recompute it from memory, saturating */
  uint64_t sources;
  value_home home;
  uint32_t slab;
  uint64_t offset; /* bytes in the slab */
  uint32_t carry;  /* 1 + the carry of the loop that it is the new value of, in a body; placed with it */
  uint32_t shares; /* value whose place it has: an initial carry is computed where the loop's result lies */
  int32_t first;   /* part that writes its place first, where that isn't `part` */
} sched_value;

/* In a body that is run a few times more than it should, so that the host needs to look only now and then: kernels do nothing when the flag is
 * down. */
typedef struct sched_guard {
  bool on;
  uint32_t slab;
  uint64_t offset;
} sched_guard;

typedef struct qn_schedule {
  const qn_graph *g;
  const qn_device_caps *caps;
  bool no_fusion;
  sched_value *values; /* by value id */
  sched_part *parts;
  size_t part_count, part_capacity;
  int level_count;
  uint32_t walks;
  bool *needed; /* by value id: has to be in memory (contexts.c) */
  /* a loop's body */
  const qn_node *loop;  /* NULL: not one */
  int flag_part;        /* commits the flag; -1: there is none */
  uint64_t arena_bytes; /* its own values */
  sched_guard guard;
} qn_schedule;

/* ---- fuse.c, fuse_kinds.c, fuse_loop.c: graph -> parts ---- */
qn_status qn_schedule_build(qn_schedule *s, const qn_graph *g, const qn_device_caps *caps, bool no_fusion);
void qn_schedule_free(qn_schedule *s);
/* Is the value, a result of a loop's body, the commit of another? Then that is *out_from. */
bool qn_schedule_commits(const qn_schedule *s, size_t result, uint32_t *out_from);
/* Does some loop of the schedule run as long as a flag says? */
bool qn_schedule_has_flags(const qn_schedule *s);
bool qn_op_opens_part(qn_op op); /* its results are in memory, computed once */
/* contexts.c: sets out_needed[value id] for values that would be computed at too many indexes. */
qn_status qn_schedule_contexts(const qn_graph *g, bool *out_needed);

/* ---- emit*.c: part -> loop program ---- */
enum { REDUCE_LANES = 16 }; /* the order of a sum over a minor-most axis: docs/numerics.md */

typedef struct qn_ix { /* an index, one per lane: base + stride * lane, or a vector */
  qn_sval base;        /* i32 scalar */
  int64_t stride;      /* between lanes; 0: the same in all */
  int64_t divisor;     /* base is a multiple of it (0: base is 0) */
  qn_sval vec;         /* i32 lanes; none: linear */
} qn_ix;

/* The index tuple that a linear index was taken apart into: offsets into arrays of the same shape are that linear index again. */
typedef struct qn_ix_origin {
  bool on;
  qn_type shape;
  qn_ix linear, idx[QN_MAX_RANK];
} qn_ix_origin;

typedef struct emit_override {
  uint32_t value;
  qn_sval val;
} emit_override;
typedef struct emit_memo emit_memo;
typedef struct qn_emit {
  qn_schedule *s;
  const sched_part *part;
  int part_index;
  qn_kbuild *b;
  qn_sink *k; /* = &b->sink */
  uint32_t lanes;
  uint32_t *buffers;      /* by value id: kernel buffer + 1 */
  uint32_t *slab_binding; /* by slab: binding + 1 */
  uint32_t *bindings;     /* slab of each binding */
  uint32_t binding_count;
  uint32_t *params; /* launch parameter words; the caller owns it */
  size_t param_count, param_capacity;
  qn_sval group; /* group index within the part, i32 */
  emit_override *overrides;
  size_t override_count, override_capacity;
  emit_memo *memo;
  qn_ix_origin origin;
  qn_status status; /* first failure */
} qn_emit;

static inline qn_sval qn_emit_i32(qn_emit *e, int64_t x) { return qs_bits(e->k, QN_I32, (uint64_t)(uint32_t)x); }

/* index arithmetic (emit_index.c) */
qn_ix qn_ix_const(qn_emit *e, int64_t x);
qn_ix qn_ix_scalar(qn_emit *e, qn_sval i32_scalar, int64_t divisor);
qn_ix qn_ix_lanes(qn_emit *e, qn_sval base, int64_t stride, int64_t divisor);
qn_ix qn_ix_vector(qn_emit *e, qn_sval v); /* any i32 value, scalar or lanes */
qn_ix qn_ix_add(qn_emit *e, qn_ix a, qn_ix b);
qn_ix qn_ix_add_const(qn_emit *e, qn_ix a, int64_t c);
qn_ix qn_ix_mul_const(qn_emit *e, qn_ix a, int64_t c);
qn_ix qn_ix_div_const(qn_emit *e, qn_ix a, int64_t d); /* a >= 0 */
qn_ix qn_ix_mod_const(qn_emit *e, qn_ix a, int64_t d);
qn_ix qn_ix_sub_from(qn_emit *e, int64_t c, qn_ix a); /* c - a */
qn_sval qn_ix_value(qn_emit *e, qn_ix a);             /* i32, scalar if uniform, else lanes */
bool qn_ix_same(const qn_ix *a, const qn_ix *b);
/* linear offset of an index tuple in a row-major array */
qn_ix qn_ix_offset(qn_emit *e, const qn_ix *idx, const qn_type *t);
void qn_ix_delinearize(qn_emit *e, qn_ix linear, int rank, const int64_t *dims, qn_ix *out);

/* values at an index (emit_eval.c) */
qn_sval qn_emit_value(qn_emit *e, uint32_t value, const qn_ix *idx, qn_sval mask);
/* An index value as i32, held in 0 .. most; `out_fits` (may be NULL) tells whether it was there already. */
qn_sval qn_emit_start(qn_emit *e, qn_sval raw, int64_t most, qn_sval *out_fits);
void qn_emit_region(qn_emit *e, const qn_graph *region, const qn_sval *args, qn_sval *out);
void qn_emit_override(qn_emit *e, uint32_t value, qn_sval val);
void qn_emit_overrides_drop(qn_emit *e, size_t count); /* keeps the first `count` */
size_t qn_emit_memo_mark(qn_emit *e);                  /* scopes of the memo follow loops and branches */
void qn_emit_memo_drop(qn_emit *e, size_t mark);
void qn_emit_store(qn_emit *e, uint32_t value, const qn_ix *idx, qn_sval val, qn_sval mask);
/* The word that says whether the kernel is to do anything. */
qn_sval qn_emit_flag(qn_emit *e, const sched_guard *guard);
uint32_t qn_emit_buffer(qn_emit *e, uint32_t value, bool write);      /* a value's memory as a buffer of the kernel */
qn_sval qn_emit_reload(qn_emit *e, uint32_t value, const qn_ix *idx); /* of an output that this kernel writes */
qn_sval qn_emit_and(qn_emit *e, qn_sval a, qn_sval b);                /* of masks; none means true */
qn_sval qn_emit_lane_mask(qn_emit *e, qn_sval base, int64_t limit);   /* base + lane < limit */
/* index tuple of an aligned value, from that of the part's results (SPACE_P: unit axes aside, in order) */
void qn_emit_space_index(qn_emit *e, const qn_type *from, const qn_ix *idx, const qn_type *to, qn_ix *out);
void qn_emit_fail(qn_emit *e, qn_status st);
void qn_emit_free(qn_emit *e); /* the memo */

typedef struct emit_slots {
  int64_t count, per_item;
  uint32_t groups, items;
} emit_slots;

/* kinds (emit_map.c, emit_row.c, emit_contract.c, emit_scatter.c, emit_sort.c, emit_scan.c, emit_matrix.c): each knows its cut into slots and emits
 * the body for this group */
typedef struct emit_grid {
  uint32_t items, lanes;
} emit_grid;
emit_grid qn_emit_grid(const qn_device_caps *caps);
emit_slots qn_map_slots(const qn_schedule *s, const sched_part *p);
emit_slots qn_row_slots(const qn_schedule *s, const sched_part *p);
emit_slots qn_contract_slots(const qn_schedule *s, const sched_part *p);
emit_slots qn_scatter_slots(const qn_schedule *s, const sched_part *p);
emit_slots qn_sort_slots(const qn_schedule *s, const sched_part *p);
emit_slots qn_matrix_slots(const qn_schedule *s, const sched_part *p);
emit_slots qn_scan_slots(const qn_schedule *s, const sched_part *p);
void qn_emit_map(qn_emit *e);
void qn_emit_update(qn_emit *e);
typedef void (*qn_emit_body)(qn_emit *e, const qn_ix *idx, qn_sval mask);
void qn_emit_over_domain(qn_emit *e, qn_emit_body body); /* lanes along the linear index of the part's domain */
void qn_part_whole(const qn_schedule *s, sched_part *p); /* an update that can't be in place becomes a map */
void qn_emit_row(qn_emit *e);
void qn_emit_contract(qn_emit *e);
void qn_emit_scatter(qn_emit *e);
void qn_emit_sort(qn_emit *e);
void qn_emit_matrix(qn_emit *e);
void qn_emit_scan(qn_emit *e);
uint32_t qn_part_groups(const qn_schedule *s, const sched_part *p);
void qn_emit_part(qn_emit *e);

/* What is particular to a kind (kinds.c). */
typedef struct part_traits {
  const char *name;
  bool one_node; /* computes its hero; what else it stores is an epilogue */
  bool in_place; /* reads what it may be written over only at the element that it writes */
  emit_slots (*slots)(const qn_schedule *s, const sched_part *p); /* NULL: no kernel of its own */
  void (*emit)(qn_emit *e);
  double (*flops)(const qn_schedule *s, const sched_part *p); /* NULL: elements times operations */
} part_traits;
extern const part_traits qn_part_kinds[PART_KINDS];

/* how slots of work are cut into groups and items (emit_grid.c) */
emit_slots qn_emit_slots(const qn_device_caps *caps, int64_t count, double cost);
/* Opens the loop over this item's slots and returns the slot index (i32); the body sees slots below count only. */
qn_sval qn_emit_slots_open(qn_emit *e, const emit_slots *s);
void qn_emit_slots_close(qn_emit *e, const emit_slots *s);
/* Loops and branches with their memo scope. */
qn_sval qn_emit_loop(qn_emit *e, int64_t begin, int64_t end, int64_t step, size_t *out_mark);
void qn_emit_close(qn_emit *e, size_t mark);
/* Takes a linear lane index apart over `shape` and makes it the origin. */
void qn_emit_set_origin(qn_emit *e, qn_ix linear, const qn_type *shape, qn_ix *out);
uint32_t qn_emit_fit_lanes(uint32_t lanes, int64_t count); /* the largest power of two <= both, at least 1 */
/* A scalar that one of the simple bodies leaves others alone with (emit_row.c). */
qn_sval qn_emit_identity(qn_emit *e, qn_op op, qn_dtype t);
qn_type qn_row_results(const sched_part *p); /* shape of a row part's results */

/* ---- place.c: parts -> levels, and where every value lives ---- */
typedef struct sched_copy {
  uint32_t src_slab, dst_slab;
  uint64_t src_offset, dst_offset, bytes;
  int stage; /* -1: before the first launch; 0, 1: after the last one, in that order */
} sched_copy;
typedef struct sched_places {
  uint64_t arena_bytes, constant_bytes;
  sched_copy *copies;
  size_t copy_count, copy_capacity;
  uint32_t in_place; /* donated results that are written where they belong */
} sched_places;
qn_status qn_schedule_place(qn_schedule *s, const qn_traced *fn, const qn_compile_desc *desc, const qn_plan *plan,
                            sched_places *out_places);
/* Which part runs before which. */
typedef struct sched_order {
  bool *edge; /* part_count squared: edge[a * n + b]: a runs before b */
  size_t n;
} sched_order;
/* What place.c and place_loop.c share: edges from inputs, levels from edges, and the arena for everything that has no home. */
qn_status qn_order_create(const qn_schedule *s, sched_order *out_order);
bool qn_order_in_place(const qn_schedule *s, sched_order *o, uint32_t result, uint32_t param, bool *seen);
qn_status qn_order_levels(qn_schedule *s, const sched_order *o);
qn_status qn_place_arena(qn_schedule *s, bool reuse, uint64_t begin, uint64_t *out_end);
/* place_loop.c: every body below s, before s itself; then, when s is placed, where everything in them lies. */
qn_status qn_place_bodies(qn_schedule *s, bool reuse);
void qn_place_resolve(qn_schedule *s, uint64_t base);
void qn_schedule_places_free(sched_places *p);
/* Where a result leaf belongs: slab and offset by the plan's layouts and donations. */
qn_status qn_result_home(const qn_traced *fn, const qn_plan *plan, size_t result, uint32_t *out_slab,
                         uint64_t *out_offset, bool *out_donated);

/* ---- launch.c: levels -> kernels and commands ---- */
typedef enum sched_launch_kind { LAUNCH_KERNEL, LAUNCH_LOOP, LAUNCH_LOOP_END } sched_launch_kind;
typedef struct sched_launch {
  sched_launch_kind kind;
  int64_t trips;    /* loop: -1: as long as the flag is up */
  sched_guard flag; /* loop: `on` if the body is guarded by it */
  uint32_t kernel;  /* of kernels[] */
  uint32_t groups;
  uint32_t binding_count, bindings[QN_MAX_BINDINGS];
  uint32_t *params;
  size_t param_count;
  int stage; /* a barrier lies between stages */
  const char *label;
  double flops;
  uint64_t bytes;
} sched_launch;
typedef struct sched_program {
  qn_kernel **kernels; /* different ones, by name */
  const char **labels;
  size_t kernel_count, kernel_capacity;
  sched_launch *launches;
  size_t launch_count, launch_capacity;
  int stages;
} sched_program;
qn_status qn_schedule_launches(qn_schedule *s, qn_arena *arena, sched_program *out_program);
void qn_schedule_program_free(sched_program *p);
/* "dot_general+add+maximum (mnist_mlp.c:41)": the operations that a part computes, and the place of its hero */
const char *qn_part_label(const qn_schedule *s, const sched_part *p, qn_arena *arena);
double qn_part_flops(const qn_schedule *s, const sched_part *p);
uint64_t qn_part_bytes(const qn_schedule *s, const sched_part *p);
void qn_schedule_print(const qn_schedule *s, qn_text *out);

#endif
