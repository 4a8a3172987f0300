/* What the walk (fuse.c), the kinds of parts (fuse_kinds.c) and loops (fuse_loop.c) share. */
#ifndef QN_FUSE_H
#define QN_FUSE_H

#include "schedule.h"

enum { CHEAP_COST = 6, COST_MAX = 1 << 20 };

/* Adds a part. Pointers to parts are good until the next one is opened. */
qn_status qn_fuse_open(qn_schedule *s, part_kind kind, const qn_type *domain, uint32_t hero, int *out_part);
qn_status qn_fuse_add_input(sched_part *p, uint32_t v, bool identity);
/* Makes sure that everything part `part` reads to compute `v` is in memory, and notes it as an input. */
qn_status qn_fuse_need(qn_schedule *s, int part, uint32_t v, bool identity);
qn_status qn_fuse_need_all(qn_schedule *s, int part, const uint32_t *values, int count, bool identity);
qn_status qn_fuse_store(qn_schedule *s, int part, uint32_t v);
qn_status qn_fuse_materialise(qn_schedule *s, uint32_t v);
/* Values that another part would have to read are stored before a new part is opened, so that it gets the higher number. */
qn_status qn_fuse_settle(qn_schedule *s, uint32_t v, int joining, uint32_t walk);
/* The results of a part that computes nothing but one node: stored by it, or there for an epilogue, stored when somebody asks for them. */
qn_status qn_fuse_store_results(qn_schedule *s, const qn_node *n, int part);
void qn_fuse_align_results(qn_schedule *s, const qn_node *n, int part);
/* `loop`: the node whose body `g` is; NULL for a whole graph. */
qn_status qn_fuse_build(qn_schedule *s, const qn_graph *g, const qn_device_caps *caps, bool no_fusion,
                        const qn_node *loop);

/* Operations that open a part of their own, or join one of their kind (fuse_kinds.c). */
typedef struct fuse_opener {
  qn_op op;
  qn_status (*open)(qn_schedule *s, uint32_t index);
} fuse_opener;
extern const fuse_opener qn_fuse_openers[];
extern const size_t qn_fuse_opener_count;
/* Factorisations and triangular solves. */
qn_status qn_fuse_open_matrix(qn_schedule *s, uint32_t index);

/* fuse_loop.c */
qn_status qn_fuse_open_loop(qn_schedule *s, uint32_t index);
/* Is the node the new value of a carry that differs from the old one in a window only? */
bool qn_fuse_updates_carry(const qn_schedule *s, const qn_node *n);
qn_status qn_fuse_open_update(qn_schedule *s, uint32_t index);
qn_status qn_fuse_add_commits(qn_schedule *s);

#endif
