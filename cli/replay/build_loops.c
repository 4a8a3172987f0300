/* Programs with loops: each expression of the suite, which is Python, is a C function here over the public builders. */
#include "build_control.h"

#include "quern/autodiff.h"

/* What is outside of a body and used in it. */
typedef struct outer {
  qn_val v[8];
} outer;
#define OUTER(i) (((const outer *)user)->v[i])
#define BODY(name) static void name(qn_graph *g, const qn_val *in, qn_val *out, void *user)
#define UNUSED_ (void)g, (void)user

static qn_val matvec(qn_val a, qn_val x) { return qn_dot(a, x); }

/* ---- fori_loop ---- */
BODY(sum_step) {
  (void)g;
  out[0] = qn_add(in[1], qn_mul(OUTER(0), qn_convert(in[0], QN_F32)));
}
static void fori_sum(replay_build *b) {
  outer o = {{b->in[0]}};
  qn_val zero = qn_zeros_like(b->in[0]);
  qn_fori(b->g, 0, 7, &zero, 1, sum_step, &o, b->out);
}

BODY(power_step) {
  (void)g;
  out[0] = qn_mul(in[1], qn_sin(qn_add(OUTER(0), qn_convert(in[0], QN_F32))));
}
static void fori_power(replay_build *b) {
  outer o = {{b->in[0]}};
  qn_val one = qn_full(b->g, *qn_val_type(b->in[0]), 1);
  qn_fori(b->g, 0, 4, &one, 1, power_step, &o, b->out);
}

BODY(matvec_step) {
  (void)g;
  out[0] = qn_tanh(matvec(OUTER(0), in[1]));
}
static void fori_matvec(replay_build *b) {
  outer o = {{b->in[0]}};
  qn_fori(b->g, 0, 6, &b->in[1], 1, matvec_step, &o, b->out);
}

BODY(double_step) {
  UNUSED_;
  out[0] = qn_mul(in[1], qn_like(in[1], 2));
}
static void fori_empty(replay_build *b) { qn_fori(b->g, 3, 3, &b->in[0], 1, double_step, NULL, b->out); }

BODY(int_step) {
  UNUSED_;
  out[0] = qn_add(qn_mul(in[1], qn_like(in[1], 3)), in[0]);
}
static void fori_int(replay_build *b) {
  qn_val one = qn_scalar(b->g, QN_I32, 1);
  qn_fori_between(b->g, qn_scalar(b->g, QN_I32, 0), b->in[0], &one, 1, int_step, NULL, b->out);
}

BODY(update_step) {
  (void)g;
  const int64_t one[] = {1}, dims[] = {1};
  qn_val before = qn_sub(in[0], qn_like(in[0], 1));
  qn_val last = qn_dynamic_slice(in[1], &before, one), x = qn_dynamic_slice(OUTER(0), &in[0], one);
  qn_val now = qn_add(qn_mul(last, qn_like(last, 0.9)), x);
  out[0] = qn_dynamic_update_slice(in[1], qn_reshape(now, 1, dims), &in[0]);
}
static void dynamic_update_in_fori(replay_build *b) {
  outer o = {{b->in[0]}};
  qn_fori(b->g, 1, 8, &b->in[0], 1, update_step, &o, b->out);
}

static qn_val squared_error(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)g;
  (void)out_aux;
  (void)user;
  qn_val r = qn_sub(matvec(qn_tree_get(args[1], "x"), qn_tree_get(args[0], "q")), qn_tree_get(args[1], "y"));
  return qn_mean(qn_square(r), 0, NULL, false);
}

BODY(sgd_step) {
  qn_tree *p = qn_tree_create(g), *data = qn_tree_create(g);
  qn_tree_set(p, "q", in[1]);
  qn_tree_set(data, "x", OUTER(0));
  qn_tree_set(data, "y", OUTER(1));
  qn_value_grad vg = qn_value_and_grad(g, squared_error, NULL, ((qn_tree *[]){p, data}), 2, NULL);
  if (vg.grads[0] != NULL)
    out[0] = qn_sub(in[1], qn_mul(qn_like(in[1], 0.1), qn_tree_get(vg.grads[0], "q")));
}
static void sgd_steps(replay_build *b) {
  outer o = {{b->in[1], b->in[2]}};
  qn_fori(b->g, 0, 5, &b->in[0], 1, sgd_step, &o, b->out);
}

/* ---- while_loop ---- */
BODY(below_20) {
  UNUSED_;
  out[0] = qn_lt(in[0], qn_like(in[0], 20));
}
BODY(grow_step) {
  UNUSED_;
  out[0] = qn_add(qn_mul(in[0], qn_like(in[0], 1.5)), qn_like(in[0], 0.1));
  out[1] = qn_add(in[1], qn_like(in[1], 1));
}
static void while_count(replay_build *b) {
  qn_val init[] = {b->in[0], qn_scalar(b->g, QN_I32, 0)};
  qn_while(b->g, init, 2, below_20, grow_step, NULL, b->out);
}

BODY(is_not_1) {
  UNUSED_;
  out[0] = qn_ne(in[0], qn_like(in[0], 1));
}
BODY(collatz_step) {
  UNUSED_;
  qn_val n = in[0], odd = qn_rem(n, qn_like(n, 2));
  out[0] =
      qn_select(qn_eq(odd, qn_like(n, 0)), qn_div(n, qn_like(n, 2)), qn_add(qn_mul(qn_like(n, 3), n), qn_like(n, 1)));
  out[1] = qn_add(in[1], qn_like(in[1], 1));
}
static void while_collatz(replay_build *b) {
  qn_val init[] = {b->in[0], qn_scalar(b->g, QN_I32, 0)};
  qn_while(b->g, init, 2, is_not_1, collatz_step, NULL, b->out);
}

BODY(above_100) {
  UNUSED_;
  out[0] = qn_gt(in[0], qn_like(in[0], 100));
}
BODY(add_one_step) {
  UNUSED_;
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_add(in[1], qn_like(in[1], 1));
}
static void while_zero_trips(replay_build *b) {
  qn_val init[] = {b->in[0], qn_scalar(b->g, QN_I32, 0)};
  qn_while(b->g, init, 2, above_100, add_one_step, NULL, b->out);
}

BODY(second_is_not_0) {
  UNUSED_;
  out[0] = qn_ne(in[1], qn_like(in[1], 0));
}
BODY(gcd_step) {
  UNUSED_;
  out[0] = in[1];
  out[1] = qn_rem(in[0], in[1]);
}
static void while_gcd(replay_build *b) {
  qn_val both[2];
  qn_while(b->g, b->in, 2, second_is_not_0, gcd_step, NULL, both);
  b->out[0] = both[0];
}

BODY(root_is_far) {
  (void)g;
  out[0] = qn_gt(qn_abs(qn_sub(qn_mul(in[0], in[0]), OUTER(0))), qn_like(in[0], 1e-4));
}
BODY(newton_step) {
  (void)g;
  out[0] = qn_mul(qn_like(in[0], 0.5), qn_add(in[0], qn_div(OUTER(0), in[0])));
}
static void while_newton_sqrt(replay_build *b) {
  outer o = {{b->in[0]}};
  qn_while(b->g, b->in, 1, root_is_far, newton_step, &o, b->out);
}

BODY(below_10) {
  UNUSED_;
  out[0] = qn_lt(in[0], qn_like(in[0], 10));
}
BODY(doubling_step) {
  UNUSED_;
  out[0] = qn_mul(in[0], qn_like(in[0], 2));
  out[1] = qn_add(in[1], qn_like(in[1], 1));
}
BODY(double_to_10) {
  qn_val init[] = {in[0], qn_scalar(g, QN_I32, 0)};
  qn_while(g, init, 2, below_10, doubling_step, user, out);
}
static void while_vmapped(replay_build *b) {
  qn_vmap(b->g, double_to_10, NULL, b->in, (const int[]){0}, 1, NULL, b->out, 2);
}

BODY(first_below) {
  (void)g;
  out[0] = qn_lt(in[0], OUTER(0));
}
BODY(inner_step) {
  (void)g;
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_add(in[1], qn_mul(in[0], OUTER(0)));
}
BODY(outer_step) {
  (void)user;
  qn_val zero = qn_like(in[0], 0), init[] = {zero, zero}, made[2];
  outer mine = {{in[0]}};
  qn_while(g, init, 2, first_below, inner_step, &mine, made);
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_add(in[1], made[1]);
}
static void while_nested(replay_build *b) {
  outer o = {{b->in[0]}};
  qn_val zero = qn_scalar(b->g, QN_I32, 0), init[] = {zero, zero}, both[2];
  qn_while(b->g, init, 2, first_below, outer_step, &o, both);
  b->out[0] = both[1];
}

BODY(below_5) {
  UNUSED_;
  out[0] = qn_lt(in[0], qn_like(in[0], 5));
}
BODY(matrix_step) {
  (void)g;
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_add(matvec(OUTER(0), in[1]), OUTER(1));
}
static void while_matrix_carry(replay_build *b) {
  outer o = {{b->in[0], b->in[1]}};
  qn_val init[] = {qn_scalar(b->g, QN_I32, 0), b->in[1]}, both[2];
  qn_while(b->g, init, 2, below_5, matrix_step, &o, both);
  b->out[0] = both[1];
}

const replay_program qn_replay_loops[] = {
    {"fori_loop(0, 7, lambda i, a: a + x * i, zeros_like(x))", fori_sum},
    {"fori_loop(0, 4, lambda i, a: a * sin(x + i), ones_like(x))", fori_power},
    {"fori_loop(0, 6, lambda i, h: tanh(w @ h), x)", fori_matvec},
    {"fori_loop(3, 3, lambda i, a: a * 2., x)", fori_empty},
    {"fori_loop(0, n, lambda i, a: a * 3 + i, 1)", fori_int},
    {"fori_loop(1, 8, lambda i, a: a.at[i].set(a[i - 1] * .9 + x[i]), x)", dynamic_update_in_fori},
    {"fori_loop(0, 5, lambda i, p: p - .1 * grad(lambda q: mean((x @ q - y) ** 2))(p), w)", sgd_steps},
    {"while_loop(lambda s: s[0] < 20., lambda s: (s[0] * 1.5 + .1, s[1] + 1), (x, 0))", while_count},
    {"while_loop(lambda s: s[0] != 1, lambda s: (where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))",
     while_collatz},
    {"while_loop(lambda s: s[0] > 100., lambda s: (s[0] + 1., s[1] + 1), (x, 0))", while_zero_trips},
    {"while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]", while_gcd},
    {"while_loop(lambda s: abs(s * s - x) > 1e-4, lambda s: .5 * (s + x / s), x)", while_newton_sqrt},
    {"vmap(lambda q: while_loop(lambda s: s[0] < 10., lambda s: (s[0] * 2., s[1] + 1), (q, 0)))(x)", while_vmapped},
    {"while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + while_loop(lambda t: t[0] < s[0], lambda t: (t[0] + "
     "1, t[1] + t[0] * s[0]), (0, 0))[1]), (0, 0))[1]",
     while_nested},
    {"while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, a @ s[1] + x), (0, x))[1]", while_matrix_carry},
    {NULL, NULL},
};
