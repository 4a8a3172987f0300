/* Random graphs from seeds, and what they are held to: the oracle's values with a bound on the error of every element, computed beside
 * them by a second graph, and the bytes of other ways to run the same graph.
 *
 * A case is a step: argument 0 is a state of f32 leaves that is donated and comes back new, argument 1 a batch; further results hang off
 * both. Equal seeds give equal graphs and inputs. Ops are chosen so that a bound exists: comparisons, rounding and indexes take exact
 * values only (integers, inputs, and what movement makes of them). */
#ifndef QUERN_TEST_RANDOM_KIT_H
#define QUERN_TEST_RANDOM_KIT_H

#include "quern/compile.h"
#include "quern/ops.h"
#include "quern/tree.h"

enum { RANDOM_LEAVES = 24, RANDOM_BATCHES = 2, RANDOM_LANES = 2 };

typedef struct random_case {
  uint64_t seed;
  bool wide;          /* with 64-bit floats: not for every device */
  int nodes;          /* about so many operations */
  const char *kind;   /* how it was made of another case; NULL: of its seed */
  qn_treedef args[2]; /* state, batch */
  qn_traced plain;    /* the step */
  qn_traced judged;   /* the same, and for each float leaf "p" of the result its bound "bound/p" */
  void *state[RANDOM_LEAVES], *batch[RANDOM_BATCHES][RANDOM_LEAVES];
} random_case;
/* nodes 0: some 6 to 24, by the seed. */
qn_status random_case_make(uint64_t seed, int nodes, bool wide, random_case *out);
void random_case_free(random_case *c);

/* The step of a case over lanes (RANDOM_LANES of them, on axis 0), and with the derivative: its results, then the gradients by all floats. The
 * second has no judged graph. QN_UNSUPPORTED: it has a loop whose length is in the data. random_case_free either way. */
qn_status random_case_lanes(const random_case *c, random_case *out);
qn_status random_case_backward(const random_case *c, random_case *out);

/* Leaves in the order of plain.result, as malloc'd row-major bytes. */
typedef struct random_values {
  void *leaf[RANDOM_LEAVES], *bound[RANDOM_LEAVES]; /* bound: only from the oracle, NULL where exact */
  size_t count;
} random_values;
void random_values_free(random_values *v);

/* One call with batch 0. */
qn_status random_case_oracle(const random_case *c, random_values *out);

/* The step of a case, its state donated; compiled as the description says. */
qn_status random_case_step(qn_device *d, const random_case *c, const qn_compile_desc *desc, qn_step **out_step);
/* Calls it so many times from the first state, batches alternating, waiting for each call before the next or not; gives what the last call
 * gave. */
qn_status random_case_run(qn_step *s, qn_device *d, const random_case *c, int calls, bool waiting, random_values *out);

/* First element beyond its bound. *io_judged and *io_loose count the elements with a bound that says something, and those without. */
bool random_exceeds(const random_case *c, const random_values *got, const random_values *want, uint64_t *io_judged,
                    uint64_t *io_loose, char why[256]);
/* First leaf whose bytes differ; NaN is NaN. */
bool random_differs(const random_case *c, const random_values *a, const random_values *b, char why[256]);
/* On the oracle: the lanes of random_case_lanes against the case at each lane's inputs, bit for bit. */
bool random_lanes_differ(const random_case *c, const random_case *lanes, char why[256]);

/* ---- the generator (random_graph.c, random_ops.c, random_windows.c) ---- */
enum { RANDOM_POOL = 160, RANDOM_SIZES = 4 };
typedef struct random_item {
  qn_val v, e;  /* e: bound on the error of each element; the null value where exact, and in the plain graph */
  double bound; /* on the magnitude */
  bool exact;
  int uses;
} random_item;
typedef struct random_gen {
  qn_graph *g;
  uint64_t state;
  bool judged, wide;
  int64_t sizes[RANDOM_SIZES];
  random_item items[RANDOM_POOL];
  int count;
} random_gen;
/* One operation more, or nothing when the one drawn does not fit what was drawn for it. */
void random_grow(random_gen *z);
uint32_t random_below(random_gen *z, uint32_t n);
/* From what is there: exact ones only, or any; of a dtype. NULL: none. Later items are likelier. */
random_item *random_pick(random_gen *z, qn_dtype t, bool exact);
random_item *random_add(random_gen *z, qn_val v, qn_val e, double bound, bool exact);
/* Zeros where exact. */
qn_val random_error(const random_item *i);
/* |v| * k units in the last place of 1, and a little for what is flushed. */
qn_val random_ulps(qn_val v, double k);
enum { RANDOM_LARGEST = 4096 };

extern bool (*const random_moves[])(random_gen *z);
extern const size_t random_move_count;
extern bool (*const random_folds[])(random_gen *z);
extern const size_t random_fold_count;
extern bool (*const random_windows[])(random_gen *z);
extern const size_t random_window_count;

#endif
