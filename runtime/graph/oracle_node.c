/* One node on host memory: the row's own `eval`, or its scalar references over chunks of elements, in the class's widest type. */
#include <string.h>

#include "oracle.h"

enum { CHUNK = 256, MAX_ARITY = 3 };

static void run_f(const qn_op_def *def, const qn_ref_call *c, int64_t first, int64_t n) {
  double in[MAX_ARITY][CHUNK], out[CHUNK], x[MAX_ARITY];
  for (int k = 0; k < c->in_count; k++)
    qn_oracle_load_f(c->in_types[k]->dtype, c->in[k], first, n, in[k]);
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < c->in_count; k++)
      x[k] = in[k][i];
    out[i] = def->ref(x);
  }
  qn_oracle_store_f(c->out_types[0]->dtype, c->out[0], first, n, out);
}

static void run_i(const qn_op_def *def, const qn_ref_call *c, int64_t first, int64_t n) {
  int64_t in[MAX_ARITY][CHUNK], out[CHUNK], x[MAX_ARITY];
  int bits = qn_oracle_bits(c->in_types[0]->dtype);
  for (int k = 0; k < c->in_count; k++)
    qn_oracle_load_i(c->in_types[k]->dtype, c->in[k], first, n, in[k]);
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < c->in_count; k++)
      x[k] = in[k][i];
    out[i] = def->ref_i(x, bits);
  }
  qn_oracle_store_i(c->out_types[0]->dtype, c->out[0], first, n, out);
}

static void run_u(const qn_op_def *def, const qn_ref_call *c, int64_t first, int64_t n) {
  uint64_t in[MAX_ARITY][CHUNK], out[CHUNK], x[MAX_ARITY];
  int bits = qn_oracle_bits(c->in_types[0]->dtype);
  for (int k = 0; k < c->in_count; k++)
    qn_oracle_load_u(c->in_types[k]->dtype, c->in[k], first, n, in[k]);
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < c->in_count; k++)
      x[k] = in[k][i];
    out[i] = def->ref_u(x, bits);
  }
  qn_oracle_store_u(c->out_types[0]->dtype, c->out[0], first, n, out);
}

static void run_c(const qn_op_def *def, const qn_ref_call *c, int64_t first, int64_t n) {
  double in[MAX_ARITY][2 * CHUNK], out[2 * CHUNK];
  qn_dtype part = qn_dtype_part(c->in_types[0]->dtype), to = c->out_types[0]->dtype;
  bool real = !qn_dtype_is_complex(to);
  for (int k = 0; k < c->in_count; k++)
    qn_oracle_load_f(part, c->in[k], 2 * first, 2 * n, in[k]);
  for (int64_t i = 0; i < n; i++) {
    qn_complex x[MAX_ARITY];
    for (int k = 0; k < c->in_count; k++)
      x[k] = (qn_complex){in[k][2 * i], in[k][2 * i + 1]};
    qn_complex y = def->ref_c(x);
    out[real ? i : 2 * i] = y.re;
    if (!real)
      out[2 * i + 1] = y.im;
  }
  qn_oracle_store_f(part, c->out[0], real ? first : 2 * first, real ? n : 2 * n, out);
}

qn_status qn_oracle_node(const qn_ref_call *c) {
  const qn_op_def *def = qn_op_get(c->node->op);
  if (def->eval != NULL) {
    QN_TRY(def->eval(c));
    return QN_OK;
  }
  qn_dtype t = c->in_count > 0 ? c->in_types[0]->dtype : QN_DTYPE_NONE;
  qn_dtype_class class = qn_dtype_classify(t);
  void (*run)(const qn_op_def *, const qn_ref_call *, int64_t, int64_t) = NULL;
  if (class == QN_CLASS_FLOAT && def->ref != NULL)
    run = run_f;
  else if (class == QN_CLASS_SIGNED && def->ref_i != NULL)
    run = run_i;
  else if ((class == QN_CLASS_UNSIGNED || class == QN_CLASS_BOOL) && def->ref_u != NULL)
    run = run_u;
  else if (class == QN_CLASS_COMPLEX && def->ref_c != NULL)
    run = run_c;
  if (run == NULL || c->in_count < 1 || c->in_count > MAX_ARITY || c->out_count != 1)
    return QN_ERR(QN_UNSUPPORTED, "%s: the oracle has no reference for %s", def->name,
                  c->in_count > 0 ? qn_type_str(c->in_types[0]) : "no operands");
  int64_t total = qn_type_elements(c->out_types[0]);
  for (int64_t first = 0; first < total; first += CHUNK)
    run(def, c, first, total - first < CHUNK ? total - first : CHUNK);
  return QN_OK;
}
