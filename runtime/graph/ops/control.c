/* while, case, if: operations whose regions are whole functions over tensors. A region sees nothing but its parameters: the values that it
 * captures are trailing operands of the node and trailing parameters of every region, in the same order. */
#include <stdlib.h>
#include <string.h>

#include "control_lower.h"
#include "move_shape.h"

/* ---- shape rules ---- */
/* Region r's parameters are operands `first` and on. */
static qn_status check_region_params(const qn_infer *c, int r, const char *what, int first) {
  const qn_graph *g = c->regions[r];
  int want = c->operand_count - first;
  if (qn_graph_param_count(g) != (size_t)want)
    return QN_ERR(QN_INVALID, "%s: %s has %zu parameters, expected %d", c->name, what, qn_graph_param_count(g), want);
  for (int i = 0; i < want; ++i) {
    const qn_type *t = qn_graph_type(g, qn_graph_param_at(g, (size_t)i));
    if (!qn_type_equal(t, &c->operands[first + i]))
      return QN_ERR(QN_INVALID, "%s: parameter %d of %s is %s, expected %s as operand %d", c->name, i, what,
                    qn_type_str(t), qn_type_str(&c->operands[first + i]), first + i);
  }
  return QN_OK;
}

static const qn_type *region_type(const qn_graph *g, int i) { return qn_graph_type(g, qn_graph_result(g, (size_t)i)); }

static qn_status while_infer(qn_infer *c) {
  if (c->region_count != 2)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected a condition and a body", c->name, c->region_count);
  int64_t trips = ((const qn_attr_while *)c->attr)->trip_count;
  if (trips < -1)
    return QN_ERR(QN_INVALID, "%s: trip count %lld, expected -1 (not known) or more", c->name, (long long)trips);
  QN_TRY(check_region_params(c, 0, "the condition", 0));
  QN_TRY(check_region_params(c, 1, "the body", 0));
  const qn_graph *cond = c->regions[0], *body = c->regions[1];
  if (qn_graph_result_count(cond) != 1)
    return QN_ERR(QN_INVALID, "%s: the condition has %zu results, expected 1", c->name, qn_graph_result_count(cond));
  const qn_type *t = region_type(cond, 0);
  if (t->rank != 0 || t->dtype != QN_BOOL)
    return QN_ERR(QN_INVALID, "%s: the condition gives %s, expected bool[]", c->name, qn_type_str(t));
  int n = (int)qn_graph_result_count(body);
  if (n > c->operand_count)
    return QN_ERR(QN_INVALID, "%s: the body has %d results, at most one for each of %d operands", c->name, n,
                  c->operand_count);
  for (int i = 0; i < n; ++i) {
    if (!qn_type_equal(region_type(body, i), &c->operands[i]))
      return QN_ERR(QN_INVALID, "%s: result %d of the body is %s, expected %s as operand %d", c->name, i,
                    qn_type_str(region_type(body, i)), qn_type_str(&c->operands[i]), i);
    c->out_types[i] = c->operands[i];
  }
  c->result_count = n;
  return QN_OK;
}

static qn_status branches_infer(qn_infer *c, qn_dtype selector) {
  static const char *const sides[] = {"the true branch", "the false branch"};
  if (c->operand_count < 1)
    return QN_ERR(QN_INVALID, "%s: 0 operands, expected the %s", c->name,
                  selector == QN_BOOL ? "predicate" : "branch's index");
  QN_TRY(qn_check_scalar(c, 0, selector));
  for (int r = 0; r < c->region_count; ++r) {
    char text[32];
    const char *what = text;
    if (selector == QN_BOOL)
      what = sides[r];
    else
      (void)snprintf(text, sizeof text, "branch %d", r);
    const qn_graph *g = c->regions[r];
    QN_TRY(check_region_params(c, r, what, 1));
    c->result_count = (int)qn_graph_result_count(c->regions[0]);
    if (qn_graph_result_count(g) != (size_t)c->result_count)
      return QN_ERR(QN_INVALID, "%s: %s has %zu results, expected %d", c->name, what, qn_graph_result_count(g),
                    c->result_count);
    for (int i = 0; i < c->result_count; ++i) {
      const qn_type *want = region_type(c->regions[0], i);
      if (!qn_type_equal(region_type(g, i), want))
        return QN_ERR(QN_INVALID, "%s: result %d of %s is %s, expected %s", c->name, i, what,
                      qn_type_str(region_type(g, i)), qn_type_str(want));
      c->out_types[i] = *want;
    }
  }
  return QN_OK;
}

static qn_status case_infer(qn_infer *c) {
  if (c->region_count < 1)
    return QN_ERR(QN_INVALID, "%s: 0 regions, expected at least one branch", c->name);
  return branches_infer(c, QN_I32);
}

static qn_status if_infer(qn_infer *c) {
  if (c->region_count != 2)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected a branch for true and one for false", c->name,
                  c->region_count);
  return branches_infer(c, QN_BOOL);
}

/* ---- references ---- */
/* Carries live in two sets of buffers that change places at each step, because a body may hand one carry on as another. */
typedef struct loop {
  const qn_ref_call *call;
  const void **in; /* carries of now, then captures */
  void **now, **next, **spare;
} loop;

static qn_status loop_open(loop *l) {
  const qn_ref_call *c = l->call;
  size_t n = (size_t)c->out_count + 1;
  l->in = calloc((size_t)c->in_count + 1, sizeof *l->in);
  l->now = calloc(n, sizeof *l->now);
  l->next = calloc(n, sizeof *l->next);
  l->spare = calloc(n, sizeof *l->spare);
  if (l->in == NULL || l->now == NULL || l->next == NULL || l->spare == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  for (int i = 0; i < c->out_count; ++i) {
    size_t bytes = (size_t)qn_type_bytes(c->out_types[i]);
    l->spare[i] = malloc(bytes + 1);
    if (l->spare[i] == NULL)
      return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
    l->now[i] = c->out[i];
    l->next[i] = l->spare[i];
    if (bytes > 0)
      memcpy(c->out[i], c->in[i], bytes);
  }
  for (int i = c->out_count; i < c->in_count; ++i)
    l->in[i] = c->in[i];
  return QN_OK;
}

static void loop_close(loop *l) {
  for (int i = 0; l->spare != NULL && i < l->call->out_count; ++i)
    free(l->spare[i]);
  free(l->in);
  free(l->now);
  free(l->next);
  free(l->spare);
}

static qn_status loop_run(loop *l) {
  const qn_ref_call *c = l->call;
  for (;;) {
    bool more = false;
    void *cond_out[] = {&more};
    for (int i = 0; i < c->out_count; ++i)
      l->in[i] = l->now[i];
    QN_TRY(qn_graph_eval_ref(c->node->regions[0], l->in, cond_out));
    if (!more)
      break;
    QN_TRY(qn_graph_eval_ref(c->node->regions[1], l->in, l->next));
    void **was = l->now;
    l->now = l->next;
    l->next = was;
  }
  for (int i = 0; i < c->out_count; ++i)
    if (l->now[i] != c->out[i])
      memcpy(c->out[i], l->now[i], (size_t)qn_type_bytes(c->out_types[i]));
  return QN_OK;
}

static qn_status while_eval(const qn_ref_call *c) {
  loop l = {.call = c};
  qn_status st;
  QN_TRY_GOTO(st, loop_open(&l), done);
  QN_TRY_GOTO(st, loop_run(&l), done);
done:
  loop_close(&l);
  return st;
}

static qn_status case_eval(const qn_ref_call *c) {
  int32_t index;
  memcpy(&index, c->in[0], sizeof index);
  int last = c->node->region_count - 1;
  return qn_graph_eval_ref(c->node->regions[index < 0 || index > last ? last : index], c->in + 1, c->out);
}

static qn_status if_eval(const qn_ref_call *c) {
  bool taken = *(const uint8_t *)c->in[0] != 0;
  return qn_graph_eval_ref(c->node->regions[taken ? 0 : 1], c->in + 1, c->out);
}

static void control_batch(qn_batch *b, qn_val *out) {
  out[0] = qn_graph_fail(b->g, b->node->place, QN_INTERNAL, "%s: its regions are batched by vmap itself",
                         qn_op_get(b->node->op)->name);
}

const qn_op_def qn_op_while = {
    .name = "while",
    .doc = "Runs the body on the carries as long as the condition gives true. Operands are carries, then captures; "
           "regions are the condition and the body.",
    .arity = -1,
    .kind = QN_KIND_CONTROL,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_while),
    .infer = while_infer,
    .no_grad = "the transforms look into its regions",
    .batch = control_batch,
    .lower = qn_lower_while,
    .eval = while_eval,
};

const qn_op_def qn_op_case = {
    .name = "case",
    .doc = "Runs the branch whose number is operand 0, the last one where there is none of that number. The other "
           "operands are captures, the parameters of every branch.",
    .arity = -1,
    .kind = QN_KIND_CONTROL,
    .dtypes = QN_D_SIGNED,
    .infer = case_infer,
    .no_grad = "the transforms look into its regions",
    .batch = control_batch,
    .lower = qn_lower_choice,
    .eval = case_eval,
};

const qn_op_def qn_op_if = {
    .name = "if",
    .doc = "Runs the first branch if operand 0 is true, the second if not. The other operands are captures, the "
           "parameters of both.",
    .arity = -1,
    .kind = QN_KIND_CONTROL,
    .dtypes = QN_D_BOOL,
    .infer = if_infer,
    .no_grad = "the transforms look into its regions",
    .batch = control_batch,
    .lower = qn_lower_choice,
    .eval = if_eval,
};
