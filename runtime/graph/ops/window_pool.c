/* Pooling, made of windowed reductions. */
#include "window.h"

qn_val qn_max_pool_at(qn_place at, qn_val x, const qn_attr_window *window) {
  return qn_reduce_window_op_at(at, x, QN_OP_MAXIMUM, window);
}

qn_val qn_avg_pool_at(qn_place at, qn_val x, const qn_attr_window *window, bool count_include_pad) {
  qn_val sum = qn_reduce_window_op_at(at, x, QN_OP_ADD, window);
  if (!qn_val_ok(sum))
    return sum;
  double size = 1;
  for (int i = 0; i < window->size.n; ++i)
    size *= (double)window->size.d[i];
  qn_type t = *qn_val_type(x);
  if (count_include_pad || !qn_window_padded(window, &t, qn_val_type(sum)))
    return qn_divide_at(at, sum, qn_like_at(at, sum, size));
  qn_val count = qn_reduce_window_op_at(at, qn_full_at(at, x.graph, t, 1.0), QN_OP_ADD, window);
  return qn_divide_at(at, sum, count);
}
