/* Programs with scans, maps and prefixes: each expression of the suite, which is Python, is a C function here over the public builders. */
#include "build_control.h"

typedef struct outer {
  qn_val v[8];
} outer;
#define OUTER(i) (((const outer *)user)->v[i])
#define BODY(name) static void name(qn_graph *g, const qn_val *in, qn_val *out, void *user)
#define UNUSED_ (void)g, (void)user

static qn_val number(const replay_build *b, double x) { return qn_scalar(b->g, QN_F32, x); }
static qn_val reversed(qn_val x) { return qn_sub(qn_like(x, 1), x); }
static qn_val joined(qn_val a, qn_val b) { return qn_concatenate(((const qn_val[]){a, b}), 2, 0); }

/* One carry and one output from `inputs` inputs. */
static void scan_one(replay_build *b, qn_val init, const qn_val *xs, size_t inputs, bool reverse, qn_body_fn body,
                     void *user, qn_val *out) {
  qn_scan_desc d = {.init = &init,
                    .carries = 1,
                    .xs = xs,
                    .inputs = inputs,
                    .outputs = 1,
                    .reverse = reverse,
                    .body = body,
                    .user = user};
  qn_scan(b->g, &d, out);
}

BODY(add_step) {
  UNUSED_;
  out[0] = out[1] = qn_add(in[0], in[1]);
}
static void cumsum(replay_build *b) { scan_one(b, number(b, 0), b->in, 1, false, add_step, NULL, b->out); }

BODY(multiply_step) {
  UNUSED_;
  out[0] = out[1] = qn_mul(in[0], in[1]);
}
static void cumprod_reverse(replay_build *b) { scan_one(b, number(b, 1), b->in, 1, true, multiply_step, NULL, b->out); }

BODY(rnn_step) {
  (void)g;
  out[0] = out[1] = qn_tanh(qn_add(qn_add(qn_dot(OUTER(0), in[0]), qn_dot(OUTER(1), in[1])), OUTER(2)));
}
static void rnn(replay_build *b) {
  outer o = {{b->in[0], b->in[1], b->in[2]}};
  scan_one(b, b->in[3], b->in + 4, 1, false, rnn_step, &o, b->out);
}

BODY(gru_step) {
  (void)g;
  qn_val hx = joined(in[0], in[1]), z = qn_logistic(qn_dot(OUTER(0), hx)), r = qn_logistic(qn_dot(OUTER(1), hx));
  qn_val candidate = qn_tanh(qn_dot(OUTER(2), joined(qn_mul(r, in[0]), in[1])));
  out[0] = out[1] = qn_add(qn_mul(reversed(z), in[0]), qn_mul(z, candidate));
}
static void gru(replay_build *b) {
  outer o = {{b->in[0], b->in[1], b->in[2]}};
  scan_one(b, b->in[3], b->in + 4, 1, false, gru_step, &o, b->out);
}

BODY(growth_step) {
  UNUSED_;
  out[0] = qn_mul(in[0], qn_like(in[0], 1.1));
  out[1] = qn_sum_all(in[0]);
}
static void no_inputs(replay_build *b) {
  qn_scan_desc d = {.init = b->in, .carries = 1, .outputs = 1, .length = 6, .body = growth_step};
  qn_scan(b->g, &d, b->out);
}

BODY(affine_step) {
  UNUSED_;
  out[0] = qn_add(qn_mul(in[0], in[1]), in[2]);
  out[1] = in[0];
}
static void two_sequences(replay_build *b) { scan_one(b, number(b, 1), b->in, 2, false, affine_step, NULL, b->out); }

BODY(square_step) {
  UNUSED_;
  out[0] = qn_sub(in[0], qn_mul(in[1], in[1]));
  out[1] = qn_exp(in[0]);
}
static void length_one(replay_build *b) { scan_one(b, number(b, 0.5), b->in, 1, false, square_step, NULL, b->out); }

BODY(row_step) {
  UNUSED_;
  out[0] = qn_add(in[0], qn_sum_all(in[1]));
  out[1] = qn_mul(in[0], in[1]);
}
static void length_zero(replay_build *b) { scan_one(b, b->in[0], b->in + 1, 1, false, row_step, NULL, b->out); }

BODY(ema_step) {
  (void)g;
  out[0] = out[1] = qn_add(qn_mul(OUTER(0), in[0]), qn_mul(reversed(OUTER(0)), in[1]));
}
static void ema(replay_build *b) {
  outer o = {{b->in[1]}};
  qn_type t = *qn_val_type(b->in[0]);
  qn_val both[2], first = qn_slice(b->in[0], ((const int64_t[]){0, 0}), ((const int64_t[]){1, t.dims[1]}), NULL);
  scan_one(b, qn_reshape(first, 1, t.dims + 1), b->in, 1, false, ema_step, &o, both);
  b->out[0] = both[1];
}

BODY(inner_step) {
  UNUSED_;
  out[0] = qn_add(qn_mul(in[0], qn_like(in[0], 0.5)), in[1]);
  out[1] = in[0];
}
BODY(outer_step) {
  (void)user;
  qn_val made[2];
  qn_scan_desc d = {.init = in, .carries = 1, .xs = in + 1, .inputs = 1, .outputs = 1, .body = inner_step};
  qn_scan(g, &d, made);
  out[0] = made[0];
  out[1] = qn_sum_all(made[1]);
}
static void nested(replay_build *b) { scan_one(b, number(b, 0), b->in, 1, false, outer_step, NULL, b->out); }

BODY(weighted_step) {
  UNUSED_;
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_add(in[1], qn_mul(in[2], qn_convert(in[0], QN_F32)));
  out[2] = in[1];
}
static void integer_carry(replay_build *b) {
  qn_val init[] = {qn_scalar(b->g, QN_I32, 1), number(b, 0)};
  qn_scan_desc d = {.init = init, .carries = 2, .xs = b->in, .inputs = 1, .outputs = 1, .body = weighted_step};
  qn_scan(b->g, &d, b->out);
}

/* in: advantage, reward, value, next value, done */
BODY(gae_step) {
  UNUSED_;
  qn_val going = reversed(in[4]), next = qn_mul(qn_mul(qn_like(in[0], 0.99), going), in[3]);
  qn_val delta = qn_sub(qn_add(in[1], next), in[2]);
  out[0] = out[1] = qn_add(delta, qn_mul(qn_mul(qn_like(in[0], 0.99 * 0.95), going), in[0]));
}
static void gae(replay_build *b) {
  int64_t n = qn_val_type(b->in[1])->dims[0], zero = 0, one = 1, last = n - 1;
  qn_val xs[] = {b->in[0], qn_slice(b->in[1], &zero, &last, NULL), qn_slice(b->in[1], &one, &n, NULL), b->in[2]},
         both[2];
  scan_one(b, number(b, 0), xs, 4, true, gae_step, NULL, both);
  b->out[0] = both[1];
}

BODY(product) {
  UNUSED_;
  out[0] = qn_mul(in[0], in[1]);
}
static void prefixes(replay_build *b) { qn_associative_scan(b->g, b->in, 1, 0, false, product, NULL, b->out); }

BODY(plus) {
  (void)g;
  out[0] = qn_add(in[0], OUTER(0));
}
BODY(times) {
  (void)g;
  out[0] = qn_mul(in[0], OUTER(0));
}
BODY(cond_step) {
  (void)user;
  outer o = {{in[1]}};
  qn_cond(g, qn_gt(in[1], qn_like(in[1], 0)), in, 1, plus, times, &o, out, 1);
  out[1] = out[0];
}
static void cond_in_scan(replay_build *b) { scan_one(b, number(b, 1), b->in, 1, false, cond_step, NULL, b->out); }

BODY(index_step) {
  (void)g;
  qn_val row = qn_reshape(qn_take(OUTER(0), qn_reshape(in[1], 1, ((const int64_t[]){1})), 0), 1,
                          qn_val_type(OUTER(0))->dims + 1);
  out[0] = out[1] = qn_add(in[0], qn_mul(row, qn_sin(in[0])));
}
static void dynamic_index(replay_build *b) {
  outer o = {{b->in[0]}};
  scan_one(b, qn_full(b->g, qn_type_of(QN_F32, 1, 3), 1), b->in + 1, 1, false, index_step, &o, b->out);
}

BODY(unit_row) {
  UNUSED_;
  out[0] = qn_div(in[0], qn_norm(in[0], 0, NULL, false));
}
static void map_rows(replay_build *b) { qn_map_rows(b->g, b->in, 1, unit_row, NULL, b->out, 1); }

BODY(row_pair) {
  UNUSED_;
  out[0] = qn_mul(in[0], in[1]);
  out[1] = qn_sum_all(in[0]);
}
static void map_tuple(replay_build *b) { qn_map_rows(b->g, b->in, 2, row_pair, NULL, b->out, 2); }

const replay_program qn_replay_scans[] = {
    {"scan(lambda c, a: (c + a, c + a), 0., x)", cumsum},
    {"scan(lambda c, a: (c * a, c * a), 1., x, reverse=True)", cumprod_reverse},
    {"scan(lambda h_, x: let(tanh(w @ h_ + u @ x + b), lambda n: (n, n)), h, xs)", rnn},
    {"scan(lambda h_, x: let(concatenate([h_, x]), lambda hx: let((sigmoid(wz @ hx), sigmoid(wr @ hx)), lambda zr: "
     "let((1 - zr[0]) * h_ + zr[0] * tanh(wh @ concatenate([zr[1] * h_, x])), lambda n: (n, n)))), h, xs)",
     gru},
    {"scan(lambda c, _: (c * 1.1, sum(c)), x, None, length=6)", no_inputs},
    {"scan(lambda c, ab: (c * ab[0] + ab[1], c), 1., (a, b))", two_sequences},
    {"scan(lambda c, a: (c - a * a, exp(c)), .5, x)", length_one},
    {"scan(lambda c_, a: (c_ + sum(a), c_ * a), c, x)", length_zero},
    {"scan(lambda c, a: let(d * c + (1 - d) * a, lambda n: (n, n)), x[0], x)[1]", ema},
    {"scan(lambda c, r: let(scan(lambda d, e: (d * .5 + e, d), c, r), lambda o: (o[0], sum(o[1]))), 0., x)", nested},
    {"scan(lambda c, a: ((c[0] + 1, c[1] + a * c[0]), c[1]), (1, 0.), x)", integer_carry},
    {"scan(lambda c, t: let(t[0] + .99 * (1 - t[3]) * t[2] - t[1] + .99 * .95 * (1 - t[3]) * c, lambda n: (n, n)), 0., "
     "(r, val[:-1], val[1:], d), reverse=True)[1]",
     gae},
    {"associative_scan(jnp.multiply, x)", prefixes},
    {"scan(lambda c, a: let(cond(a > 0, lambda q: q + a, lambda q: q * a, c), lambda n: (n, n)), 1., x)", cond_in_scan},
    {"scan(lambda c, j: let(c + t[j] * sin(c), lambda n: (n, n)), ones(3), i)", dynamic_index},
    {"fmap(lambda r: r / norm(r), x)", map_rows},
    {"fmap(lambda t: (t[0] * t[1], sum(t[0])), (x, y))", map_tuple},
    {NULL, NULL},
};
