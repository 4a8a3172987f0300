/* Programs with branches: each expression of the suite, which is Python, is a C function here over the public builders. */
#include "build_control.h"

#include <string.h>

#include "quern/autodiff.h"

typedef struct outer {
  qn_val v[8];
} outer;
#define OUTER(i) (((const outer *)user)->v[i])
#define BODY(name) static void name(qn_graph *g, const qn_val *in, qn_val *out, void *user)
#define UNUSED_ (void)g, (void)user

BODY(same) {
  UNUSED_;
  out[0] = in[0];
}
BODY(sine) {
  UNUSED_;
  out[0] = qn_sin(in[0]);
}
BODY(squared) {
  UNUSED_;
  out[0] = qn_mul(in[0], in[0]);
}
BODY(decayed) {
  UNUSED_;
  out[0] = qn_exp(qn_neg(in[0]));
}
BODY(negated) {
  UNUSED_;
  out[0] = qn_neg(in[0]);
}
BODY(exponential) {
  UNUSED_;
  out[0] = qn_exp(in[0]);
}

static void cond_plain(replay_build *b) { qn_cond(b->g, b->in[0], b->in + 1, 1, sine, squared, NULL, b->out, 1); }

BODY(times_and_first) {
  UNUSED_;
  out[0] = qn_mul(in[0], in[1]);
  out[1] = in[0];
}
BODY(minus_and_second) {
  UNUSED_;
  out[0] = qn_sub(in[0], in[1]);
  out[1] = in[1];
}
static void cond_data(replay_build *b) {
  qn_val s = qn_sum_all(b->in[0]);
  qn_cond(b->g, qn_gt(s, qn_like(s, 0)), b->in, 2, times_and_first, minus_and_second, NULL, b->out, 2);
}

/* user: x, w */
BODY(weighted_sum) {
  (void)g;
  (void)in;
  out[0] = qn_sum_all(qn_mul(OUTER(1), OUTER(0)));
}
BODY(sum_times_product) {
  (void)g;
  (void)in;
  out[0] = qn_mul(qn_sum_all(OUTER(1)), qn_prod(OUTER(0), 0, NULL, false));
}
static qn_val entry(qn_val x, int64_t i) {
  const int64_t limit = i + 1;
  return qn_reshape(qn_slice(x, &i, &limit, NULL), 0, NULL);
}
static void cond_closure(replay_build *b) {
  outer o = {{b->in[0], b->in[1]}};
  qn_val first_wins = qn_gt(entry(b->in[0], 0), entry(b->in[0], 1));
  qn_cond(b->g, first_wins, NULL, 0, weighted_sum, sum_times_product, &o, b->out, 1);
}

BODY(exp_or_negate) { qn_cond(g, in[0], in + 1, 1, exponential, negated, user, out, 1); }
static void cond_vmapped(replay_build *b) {
  qn_vmap(b->g, exp_or_negate, NULL, b->in, ((const int[]){0, 0}), 2, NULL, b->out, 1);
}

BODY(cubed) {
  UNUSED_;
  out[0] = qn_mul(qn_mul(in[0], in[0]), in[0]);
}
BODY(doubled) {
  UNUSED_;
  out[0] = qn_mul(in[0], qn_like(in[0], 2));
}
BODY(cube_or_double) { qn_cond(g, qn_gt(in[0], qn_like(in[0], 1)), in, 1, cubed, doubled, user, out, 1); }
BODY(minus_square) {
  UNUSED_;
  out[0] = qn_mul(qn_neg(in[0]), in[0]);
}
static void cond_nested(replay_build *b) {
  qn_cond(b->g, qn_gt(b->in[0], qn_like(b->in[0], 0)), b->in, 1, cube_or_double, minus_square, NULL, b->out, 1);
}

static const qn_body_fn choices[] = {same, squared, sine, decayed};
static void switch_plain(replay_build *b) { qn_switch(b->g, b->in[0], choices, 4, b->in + 1, 1, NULL, b->out, 1); }
BODY(switch_of_3) { qn_switch(g, in[0], choices, 3, in + 1, 1, user, out, 1); }
static void switch_vmapped(replay_build *b) {
  qn_vmap(b->g, switch_of_3, NULL, b->in, ((const int[]){0, 0}), 2, NULL, b->out, 1);
}

BODY(times_outer) {
  (void)g;
  out[0] = qn_mul(in[1], OUTER(0));
}
BODY(three_times) {
  (void)user;
  outer o = {{in[0]}};
  qn_fori(g, 0, 3, in, 1, times_outer, &o, out);
}
static void loop_in_cond(replay_build *b) { qn_cond(b->g, b->in[0], b->in + 1, 1, three_times, same, NULL, b->out, 1); }

const replay_program qn_replay_branches[] = {
    {"cond(p, lambda q: sin(q), lambda q: q * q, x)", cond_plain},
    {"cond(sum(x) > 0, lambda a, b: (a * b, a), lambda a, b: (a - b, b), x, y)", cond_data},
    {"cond(x[0] > x[1], lambda: sum(w * x), lambda: sum(w) * prod(x))", cond_closure},
    {"vmap(lambda a, b: cond(a, lambda q: exp(q), lambda q: -q, b))(p, x)", cond_vmapped},
    {"cond(x > 0, lambda q: cond(q > 1, lambda r: r ** 3, lambda r: r * 2, q), lambda q: -q * q, x)", cond_nested},
    {"switch(i, [lambda q: q, lambda q: q * q, lambda q: sin(q), lambda q: exp(-q)], x)", switch_plain},
    {"vmap(lambda a, b: switch(a, [lambda q: q, lambda q: q * q, lambda q: sin(q)], b))(i, x)", switch_vmapped},
    {"cond(p, lambda q: fori_loop(0, 3, lambda i, a: a * q, q), lambda q: q, x)", loop_in_cond},
    {NULL, NULL},
};

/* ---- by expression ---- */
static void program(replay_build *b) {
  static const replay_program *const lists[] = {qn_replay_loops, qn_replay_scans, qn_replay_branches};
  const char *expr = qn_replay_text(b->attrs, "expr");
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const replay_program *p = lists[i]; p->expr; p++)
      if (strcmp(p->expr, expr) == 0) {
        p->build(b);
        return;
      }
  b->out[0] = qn_replay_not_built(b, expr);
}

const replay_op qn_replay_control[] = {
    {"program", program},
    {NULL, NULL},
};
