/* Cases made of a case: its step over lanes, and its reverse-mode derivative. The first has bounds, its judged graph being that of the case over
 * lanes; the second has none, and only the ways to run it are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/autodiff.h"
#include "random_kit.h"

/* Lane 1 of a state is that of lane 0 with its signs changed; lane 1 of a batch is the next batch. */
static void *lanes_of(const qn_type *t, const void *first, const void *second, bool negate) {
  size_t bytes = (size_t)qn_type_bytes(t);
  uint32_t *both = malloc(2 * bytes + 1);
  if (!both)
    return NULL;
  memcpy(both, first, bytes);
  memcpy((char *)both + bytes, second, bytes);
  for (size_t i = bytes / 4; negate && i < bytes / 2; i++)
    both[i] ^= UINT32_C(0x80000000);
  return both;
}

static void *copy_of(const qn_type *t, const void *data) {
  void *p = malloc((size_t)qn_type_bytes(t) + 1);
  return p ? memcpy(p, data, (size_t)qn_type_bytes(t)) : NULL;
}

/* The axes of the parameters, states first, and their data. Batches may be shared by the lanes. */
static qn_status lane_inputs(const random_case *c, random_case *out, int *axes) {
  size_t n = 0;
  uint64_t shared = c->seed * UINT64_C(0x9e3779b97f4a7c15) >> 40;
  for (int a = 0; a < 2; a++)
    for (size_t i = 0; i < c->args[a].count; i++, n++) {
      const qn_treedef_leaf *leaf = &c->args[a].leaves[i];
      qn_type t = leaf->type;
      axes[n] = a && (shared >> i & 3) == 3 ? -1 : 0;
      if (axes[n] == 0) {
        memmove(t.dims + 1, t.dims, sizeof *t.dims * (size_t)t.rank++);
        t.dims[0] = RANDOM_LANES;
      }
      QN_TRY(qn_treedef_add(&out->args[a], leaf->path, t));
      bool ok = true;
      if (!a)
        ok = (out->state[i] = lanes_of(&leaf->type, c->state[i], c->state[i], true)) != NULL;
      for (int b = 0; a && b < RANDOM_BATCHES; b++) {
        const void *next = c->batch[(b + 1) % RANDOM_BATCHES][i];
        out->batch[b][i] =
            axes[n] ? copy_of(&leaf->type, c->batch[b][i]) : lanes_of(&leaf->type, c->batch[b][i], next, false);
        ok = ok && out->batch[b][i];
      }
      if (!ok)
        return QN_ERR(QN_OUT_OF_MEMORY, "no memory for lanes");
    }
  return QN_OK;
}

/* `from`'s paths for the results of a graph, from the k-th on. */
static qn_status named(qn_treedef *r, const qn_treedef *from, const char *prefix, const qn_graph *g, size_t k) {
  char path[64];
  for (size_t i = 0; i < from->count; i++)
    if (!*prefix || qn_dtype_is_float(from->leaves[i].type.dtype)) {
      (void)snprintf(path, sizeof path, "%s%.40s", prefix, from->leaves[i].path);
      QN_TRY(qn_treedef_add(r, path, *qn_graph_type(g, qn_graph_result(g, k++))));
    }
  return QN_OK;
}

static qn_status copied_args(const qn_treedef *from, qn_traced *out) {
  out->arg_count = 2;
  if (!(out->args = calloc(2, sizeof *out->args)))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for arguments");
  for (int a = 0; a < 2; a++)
    for (size_t i = 0; i < from[a].count; i++)
      QN_TRY(qn_treedef_add(&out->args[a], from[a].leaves[i].path, from[a].leaves[i].type));
  return QN_OK;
}

qn_status random_case_lanes(const random_case *c, random_case *out) {
  int axes[2 * RANDOM_LEAVES];
  *out = (random_case){.seed = c->seed, .wide = c->wide, .nodes = c->nodes, .kind = "over lanes"};
  QN_TRY(lane_inputs(c, out, axes));
  QN_TRY(qn_vmap_graph(c->plain.graph, RANDOM_LANES, axes, &out->plain.graph));
  QN_TRY(qn_vmap_graph(c->judged.graph, RANDOM_LANES, axes, &out->judged.graph));
  QN_TRY(copied_args(out->args, &out->plain));
  QN_TRY(copied_args(out->args, &out->judged));
  QN_TRY(named(&out->plain.result, &c->plain.result, "", out->plain.graph, 0));
  return named(&out->judged.result, &c->judged.result, "", out->judged.graph, 0);
}

/* The same case with the inputs of one lane. */
static qn_status oracle_of_lane(const random_case *c, int lane, const random_case *lanes, random_values *out) {
  random_case one = *c;
  for (size_t i = 0; i < c->args[0].count; i++)
    one.state[i] = (char *)lanes->state[i] + (size_t)lane * (size_t)qn_type_bytes(&c->args[0].leaves[i].type);
  for (size_t i = 0; i < c->args[1].count; i++) {
    size_t bytes = (size_t)qn_type_bytes(&c->args[1].leaves[i].type);
    bool mapped = lanes->args[1].leaves[i].type.rank > c->args[1].leaves[i].type.rank;
    one.batch[0][i] = (char *)lanes->batch[0][i] + (mapped ? (size_t)lane * bytes : 0);
  }
  return random_case_oracle(&one, out);
}

bool random_lanes_differ(const random_case *c, const random_case *lanes, char why[256]) {
  random_values all = {.count = 0}, one = {.count = 0}, part = {.count = c->plain.result.count};
  bool differs = random_case_oracle(lanes, &all) != QN_OK;
  if (differs)
    (void)snprintf(why, 256, "the oracle: %.200s", qn_error_report());
  for (int lane = 0; lane < RANDOM_LANES && !differs; lane++) {
    if (oracle_of_lane(c, lane, lanes, &one) != QN_OK) {
      (void)snprintf(why, 256, "the oracle of a lane: %.200s", qn_error_report());
      differs = true;
      break;
    }
    for (size_t r = 0; r < part.count; r++)
      part.leaf[r] = (char *)all.leaf[r] + (size_t)lane * (size_t)qn_type_bytes(&c->plain.result.leaves[r].type);
    differs = random_differs(c, &part, &one, why);
    random_values_free(&one);
  }
  random_values_free(&all);
  random_values_free(&one);
  return differs;
}

qn_status random_case_backward(const random_case *c, random_case *out) {
  *out = (random_case){.seed = c->seed, .wide = c->wide, .nodes = c->nodes, .kind = "backward"};
  QN_TRY(qn_vjp_graph(c->plain.graph, &out->plain.graph));
  for (int a = 0; a < 2; a++)
    for (size_t i = 0; i < c->args[a].count; i++)
      QN_TRY(qn_treedef_add(&out->args[a], c->args[a].leaves[i].path, c->args[a].leaves[i].type));
  for (size_t i = 0; i < c->plain.result.count; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "to_%.40s", c->plain.result.leaves[i].path);
    for (char *p = path; *p; p++)
      *p = *p == '/' ? '_' : *p;
    if (qn_dtype_is_float(c->plain.result.leaves[i].type.dtype))
      QN_TRY(qn_treedef_add(&out->args[1], path, c->plain.result.leaves[i].type));
  }
  QN_TRY(copied_args(out->args, &out->plain));
  QN_TRY(named(&out->plain.result, &c->plain.result, "", out->plain.graph, 0));
  size_t k = c->plain.result.count;
  QN_TRY(named(&out->plain.result, &c->args[0], "grad/state_", out->plain.graph, k));
  QN_TRY(named(&out->plain.result, &c->args[1], "grad/batch_", out->plain.graph, k + c->args[0].count));
  for (int a = 0; a < 2; a++)
    for (size_t i = 0; i < out->args[a].count; i++)
      for (int b = 0; b < (a ? RANDOM_BATCHES : 1); b++) {
        const qn_type *t = &out->args[a].leaves[i].type;
        const void *from = !a ? c->state[i] : i < c->args[1].count ? c->batch[b][i] : NULL;
        float *p = from ? copy_of(t, from) : malloc((size_t)qn_type_bytes(t) + 1);
        *(a ? &out->batch[b][i] : &out->state[i]) = p;
        if (!p)
          return QN_ERR(QN_OUT_OF_MEMORY, "no memory for cotangents");
        for (int64_t e = 0; !from && e < qn_type_elements(t); e++)
          p[e] = (float)((e * 7 + b) % 9 - 4) / 4;
      }
  return QN_OK;
}
