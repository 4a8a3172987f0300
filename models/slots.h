/* Paths of an optimizer's state: the slot, then the parameter's path. */
#ifndef QN_MODELS_SLOTS_H
#define QN_MODELS_SLOTS_H

#include "quern/tree.h"

/* In the graph's arena, however long; where there is no memory the graph has failed. */
static inline const char *qn_slot_path(qn_graph *g, const char *slot, const char *path) {
  const char *full = qn_arena_printf(qn_graph_arena(g), "%s/%s", slot, path);
  if (!full)
    (void)qn_graph_fail(g, QN_HERE, QN_OUT_OF_MEMORY, "%s: no memory for a path", slot);
  return full ? full : slot;
}

#endif
