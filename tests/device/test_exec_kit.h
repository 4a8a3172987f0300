/* A training step in small, for tests of exec: state.x += batch.a in place (argument 0 is donated), result y = x + 0.5, a constant. */
#ifndef QUERN_TEST_EXEC_KIT_H
#define QUERN_TEST_EXEC_KIT_H

#include "kit.h"
#include "quern/cache.h"
#include "quern/exec.h"

enum { XK_N = 1000, XK_GROUPS = (XK_N + KIT_ITEMS - 1) / KIT_ITEMS };

/* The cpu or the null device, without a look at any other driver. */
static inline qn_status xk_open(const char *id, qn_device **out_device) {
  static const qn_driver *const drivers[] = {&qn_driver_cpu, &qn_driver_null};
  return qn_device_open(drivers, 2, id, out_device);
}

typedef struct xk_options {
  bool copy_only;    /* no kernels: y is a copy of batch.a, nothing is donated */
  bool not_in_place; /* nothing is donated; x is copied through */
  int64_t large;     /* elements of the result instead of XK_N */
} xk_options;

static inline qn_status xk_layout(const char *path, int64_t n, qn_layout *out_layout) {
  *out_layout = (qn_layout){0};
  QN_TRY(qn_layout_add(out_layout, path, QN_F32, 1, &n));
  return QN_OK;
}
static inline qn_status xk_state_layout(qn_layout *out_layout) {
  int64_t n = XK_N, none = 3;
  *out_layout = (qn_layout){0};
  QN_TRY(qn_layout_add(out_layout, "x", QN_F32, 1, &n));
  QN_TRY(qn_layout_add(out_layout, "unused", QN_U32, 1, &none));
  return QN_OK;
}

static inline qn_status xk_fill(qn_plan *p, const qn_device *d, xk_options o) {
  static float half[XK_N];
  static const qn_plan_donation donation = {.arg = 0, .prefix = "state"};
  static uint32_t add_x[5] = {0, XK_N, 0, 0, 0}, add_y[5] = {0, XK_N, 0, 64, 0};
  for (size_t i = 0; i < XK_N; i++)
    half[i] = 0.5f;
  p->args = QN_NEW(&p->arena, qn_layout, 2);
  p->cmds = QN_NEW(&p->arena, qn_plan_cmd, 5);
  p->constants = QN_NEW(&p->arena, qn_plan_constant, 1);
  p->arg_count = 2;
  QN_TRY(xk_state_layout(&p->args[0]));
  QN_TRY(xk_layout("a", XK_N, &p->args[1]));
  QN_TRY(xk_layout("y", o.large ? o.large : XK_N, &p->result));
  p->arena_bytes = 256 + sizeof half; /* 256: the constant's place, with 64 floats of nothing before it */
  p->constants[0] = (qn_plan_constant){.offset = 256, .data = half, .bytes = sizeof half};
  p->constant_count = 1;
  qn_plan_cmd copy = {.kind = QN_CMD_COPY, .src = 2, .dst = 3, .size = sizeof half, .label = "copy a"};
  if (o.copy_only) {
    p->cmds[p->cmd_count++] = copy;
    p->first_donated_write = p->cmd_count;
    return QN_OK;
  }
  p->code = kit_code(d);
  if (!o.not_in_place) {
    p->cmds[p->cmd_count++] = (qn_plan_cmd){.entry = KIT_ADD,
                                            .groups = XK_GROUPS,
                                            .binding_count = 3,
                                            .bindings = {1, 2, 1},
                                            .params = add_x,
                                            .param_count = 5,
                                            .label = "x+=a (step.c:1)",
                                            .flops = XK_N,
                                            .bytes = 3 * sizeof half};
    p->donations = QN_NEW(&p->arena, qn_plan_donation, 1);
    p->donations[0] = donation;
    p->donation_count = 1;
    p->cmds[p->cmd_count++] = (qn_plan_cmd){.kind = QN_CMD_BARRIER};
  } else {
    p->first_donated_write = 1;
  }
  p->cmds[p->cmd_count++] = (qn_plan_cmd){.entry = KIT_ADD,
                                          .groups = XK_GROUPS,
                                          .binding_count = 3,
                                          .bindings = {1, 0, 3},
                                          .params = add_y,
                                          .param_count = 5,
                                          .label = "y=x+half (step.c:2)",
                                          .flops = XK_N,
                                          .bytes = 3 * sizeof half};
  return QN_OK;
}

static inline qn_status xk_plan(const qn_device *d, xk_options o, qn_plan **out_plan) {
  QN_TRY(qn_plan_create("tiny", out_plan));
  qn_status st = xk_fill(*out_plan, d, o);
  if (st != QN_OK)
    qn_plan_free(*out_plan);
  return st;
}

static inline qn_status xk_step(qn_device *d, xk_options o, const qn_step_desc *desc, qn_step **out_step) {
  qn_plan *p;
  QN_TRY(xk_plan(d, o, &p));
  QN_TRY(qn_step_create(d, p, desc, out_step));
  return QN_OK;
}

/* State of zeros and a batch of one number. */
static inline qn_status xk_args(qn_device *d, float a, qn_tensors *out_args[2]) {
  qn_layout state, batch;
  float values[XK_N];
  for (size_t i = 0; i < XK_N; i++)
    values[i] = a;
  QN_TRY(xk_state_layout(&state));
  QN_TRY(xk_layout("a", XK_N, &batch));
  QN_TRY(qn_tensors_create(d, &state, "state", &out_args[0]));
  QN_TRY(qn_tensors_create(d, &batch, "batch", &out_args[1]));
  QN_TRY(qn_tensors_zero(out_args[0]));
  QN_TRY(qn_tensors_write(out_args[1], "a", values));
  qn_layout_free(&state);
  qn_layout_free(&batch);
  return QN_OK;
}

/* Every element of the leaf is `value`. */
static inline bool xk_all(const qn_tensors *t, const char *path, float value) {
  float x[XK_N];
  if (qn_tensors_read(t, path, x) != QN_OK)
    return false;
  for (size_t i = 0; i < XK_N; i++)
    if (x[i] != value)
      return false;
  return true;
}

#endif
