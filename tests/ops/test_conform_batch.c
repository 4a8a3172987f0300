/* vmap of every row against a loop over lanes on the oracle: every choice of mapped operands, in every dtype claimed. */
#include "conform.h"

#include "quern/autodiff.h"

enum { LANES = 3 };

static void put_lane(const tensor *batch, bool mapped, int lane, tensor *one) {
  size_t bytes = (size_t)qn_type_bytes(&one->t);
  memcpy(one->data, (const char *)batch->data + (mapped ? (size_t)lane * bytes : 0), bytes);
}

static int check(qn_op op, const qn_sample *s, qn_dtype t, unsigned mask, uint64_t *seed) {
  qn_graph *f, *batched;
  if (sample_graph(op, s, t, false, &f) != QN_OK)
    return 0;
  size_t n = qn_graph_param_count(f);
  int axes[4];
  for (size_t i = 0; i < n; i++)
    axes[i] = (mask >> i & 1) != 0 ? 0 : -1;
  qn_status st = qn_vmap_graph(f, LANES, axes, &batched);
  cr_expect(st == QN_OK, "%s %s, mask %u: %s", qn_op_get(op)->name, qn_dtype_name(t), mask, qn_error_report());
  if (st == QN_OK) {
    tensor in[4], out[1], lane_in[4], lane_out[1];
    params_make(batched, in);
    results_make(batched, out);
    params_make(f, lane_in);
    results_make(f, lane_out);
    operands_draw(op, s, in, n, seed);
    cr_expect(out[0].t.rank == lane_out[0].t.rank + 1 && out[0].t.dims[0] == LANES &&
                  out[0].t.dtype == lane_out[0].t.dtype,
              "%s: lanes make %s of %s", qn_op_get(op)->name, qn_type_str(&out[0].t), qn_type_str(&lane_out[0].t));
    QN_EXPECT_OK(run(batched, in, out));
    size_t bytes = (size_t)qn_type_bytes(&lane_out[0].t);
    for (int lane = 0; lane < LANES; lane++) {
      for (size_t i = 0; i < n; i++)
        put_lane(&in[i], (mask >> i & 1) != 0, lane, &lane_in[i]);
      QN_EXPECT_OK(run(f, lane_in, lane_out));
      cr_expect(memcmp((char *)out[0].data + (size_t)lane * bytes, lane_out[0].data, bytes) == 0,
                "%s %s, mask %u: lane %d differs", qn_op_get(op)->name, qn_dtype_name(t), mask, lane);
    }
    tensors_free(in, n);
    tensors_free(lane_in, n);
    tensors_free(out, 1);
    tensors_free(lane_out, 1);
    qn_graph_release(batched);
  }
  qn_graph_release(f);
  return 1;
}

Test(conform_batch, every_row) {
  uint64_t seed = 4;
  int checked = 0;
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    int operands = d->arity >= 0 ? d->arity : 2;
    for (int s = 0; s < d->sample_count && d->kind != QN_KIND_SOURCE; s++) {
      for (int k = 0; k < DTYPES; k++) {
        for (unsigned mask = 1; mask < 1U << operands && walks((qn_op)op, all_dtypes[k]); mask++)
          checked += check((qn_op)op, &d->samples[s], all_dtypes[k], mask, &seed);
      }
    }
  }
  cr_expect(checked > 1500, "only %d batches", checked);
}
