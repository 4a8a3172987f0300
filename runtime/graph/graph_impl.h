/* The graph store, private to the graph library. Nodes and values sit in tables of chunks that double in size and never
 * move, so pointers to types and nodes stay valid while a trace adds more. Everything but the tables' owner is in the arena. */
#ifndef QN_GRAPH_IMPL_H
#define QN_GRAPH_IMPL_H

#include <stdatomic.h>

#include "quern/graph.h"
#include "quern/op.h"

enum { QN_TABLE_CHUNKS = 28, QN_TABLE_FIRST = 16, QN_FAIL_TEXT = 1024 };

typedef struct qn_table {
  void *chunk[QN_TABLE_CHUNKS];
  size_t count;
} qn_table;

static inline void *qn_table_slot(const qn_table *t, size_t index, size_t size) {
  unsigned long long at = index + QN_TABLE_FIRST;
  int k = 63 - __builtin_clzll(at);
  return (char *)t->chunk[k - 4] + (at - (1ull << k)) * size;
}

static inline void *qn_table_push(qn_table *t, qn_arena *arena, size_t size) {
  unsigned long long at = t->count + QN_TABLE_FIRST;
  int k = 63 - __builtin_clzll(at);
  if (k - 4 >= QN_TABLE_CHUNKS)
    return NULL;
  if (!t->chunk[k - 4] && !(t->chunk[k - 4] = qn_arena_alloc(arena, size << k)))
    return NULL;
  return qn_table_slot(t, t->count++, size);
}

typedef struct qn_value {
  qn_type type;
  uint32_t node; /* index of the defining node */
} qn_value;

typedef struct qn_port { /* a parameter or a result */
  uint32_t value;
  const char *path;
} qn_port;

struct qn_graph {
  atomic_uint refs;
  bool sealed, has_place;
  qn_status failed;
  qn_arena arena;
  const char *name;
  qn_table nodes;   /* qn_node */
  qn_table values;  /* qn_value; id i at index i - 1 */
  qn_table params;  /* qn_port */
  qn_table results; /* qn_port; paths may be set before values */
  size_t result_count;
  struct qn_graph *parent; /* while a region is traced: the open graph around it, whose values it may use */
  qn_val *captured;        /* of the parent, one for each trailing parameter; in the arena */
  size_t captured_count, captured_capacity;
  qn_table
      held; /* qn_graph *: regions traced in this graph live as long as it, so that a value that leaks from one is told from a right one */
  qn_place place;              /* while has_place */
  const char *file, *file_own; /* last text place's file name and its copy in the arena */
  char fail_text[QN_FAIL_TEXT];
};

static inline qn_node *qn_node_slot(const qn_graph *g, size_t index) {
  return qn_table_slot(&g->nodes, index, sizeof(qn_node));
}
static inline qn_value *qn_value_slot(const qn_graph *g, uint32_t id) {
  return qn_table_slot(&g->values, (size_t)id - 1, sizeof(qn_value));
}

/* Rank, dimensions and size of a type are within bounds. `what` begins the message. */
qn_status qn_type_check(const qn_type *t, const char *what);
/* Runs a row's shape rule. `out` has room for `room` types (qn_infer_room). */
qn_status qn_infer_run(qn_op op, const qn_type *operands, size_t count, const void *attr, qn_graph *const *regions,
                       size_t region_count, const qn_type *hint, qn_type *out, size_t room, int *out_count);
size_t qn_infer_room(size_t operands, qn_graph *const *regions, size_t region_count);
/* Is `outer` the graph g, or one around it? */
bool qn_graph_sees(const qn_graph *g, const qn_graph *outer);
/* The same region with the captures `all` instead of `have` (its last parameters), all of which are among them. */
qn_status qn_region_capture(const qn_graph *region, const qn_val *have, size_t have_count, const qn_val *all,
                            size_t all_count, qn_graph **out_region);
/* Reads a decimal number of a float dtype, rounded once. */
void qn_element_parse(qn_dtype t, const char *text, void *out);
/* Number of bytes of a constant's data. */
size_t qn_constant_bytes(const qn_attr_constant *c, const qn_type *t);

/* Hash and equality of one node's op, attributes, regions and result types; operands are left to the caller. */
uint64_t qn_node_hash(const qn_graph *g, const qn_node *n);
bool qn_node_same(const qn_graph *ga, const qn_node *a, const qn_graph *gb, const qn_node *b);

#endif
