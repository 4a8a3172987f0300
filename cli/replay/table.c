/* Operations by the names that suites give them. */
#include <string.h>

#include "replay.h"

replay_build_fn qn_replay_find_op(const char *name) {
  static const replay_op *const tables[] = {
      qn_replay_elementwise, qn_replay_activations, qn_replay_reduce, qn_replay_shape,   qn_replay_index,
      qn_replay_subscript,   qn_replay_contract,    qn_replay_random, qn_replay_control, qn_replay_linalg};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    for (const replay_op *op = tables[i]; op->name; op++)
      if (strcmp(op->name, name) == 0)
        return op->build;
  return NULL;
}

const replay_axes *qn_replay_axes(const cJSON *attrs, const char *key, replay_axes *out) {
  qn_dims d = qn_replay_dims(attrs, key);
  memcpy(out->room, d.d, sizeof out->room);
  out->count = d.n;
  const cJSON *x = qn_replay_get(attrs, key);
  out->list = x == NULL || cJSON_IsNull(x) ? NULL : out->room;
  return out;
}
