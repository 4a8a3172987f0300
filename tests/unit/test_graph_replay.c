/* Programs that JAX printed, replayed by the oracle as they are and optimised, against what jaxlib computed for them. */
#include <dirent.h>
#include <stdlib.h>

#include "expect.h"
#include "golden.h"
#include "quern/op.h"

enum { MOST = 256 };

/* A tensor of the file for every parameter or result, by number: "in0", "out0"; complex ones are joined of "in0.re" and "in0.im". */
typedef struct replay {
  const char *path;
  qn_golden_tensor in[MOST], out[MOST];
  size_t in_count, out_count;
  double rtol, atol;
} replay;

static void expect_outputs(const replay *r, const qn_graph *g, const char *which) {
  const void *inputs[MOST];
  void *outputs[MOST];
  char why[256];
  for (size_t i = 0; i < r->in_count; i++)
    inputs[i] = r->in[i].data;
  for (size_t i = 0; i < r->out_count; i++)
    outputs[i] = calloc((size_t)qn_type_bytes(&r->out[i].type) + 1, 1);
  qn_status st = qn_graph_eval_ref(g, inputs, outputs);
  cr_expect(st == QN_OK, "%s: %s", r->path, qn_error_message());
  for (size_t i = 0; i < r->out_count; i++) {
    qn_type t = r->out[i].type;
    if (qn_dtype_is_complex(t.dtype)) { /* compared by parts */
      t.dims[t.rank++] = 2;
      t.dtype = qn_dtype_part(t.dtype);
    }
    bool ok = qn_golden_matches(&t, outputs[i], r->out[i].data, r->rtol, r->atol, why, sizeof why);
    cr_expect(st != QN_OK || ok, "%s, %s, result %zu: %s", r->path, which, i, why);
    free(outputs[i]);
  }
}

/* False if the program has operations without a row. */
static bool run(const replay *r) {
  qn_bytes text;
  qn_graph *g, *better;
  QN_ASSERT_OK(qn_file_read(r->path, &text));
  qn_status st = qn_graph_parse((const char *)text.data, text.size, r->path, &g);
  free(text.data);
  if (st != QN_OK)
    return false;
  cr_assert(qn_graph_param_count(g) == r->in_count && qn_graph_result_count(g) == r->out_count, "%s", r->path);
  for (size_t i = 0; i < r->in_count; i++)
    cr_assert(qn_type_equal(&r->in[i].type, qn_graph_type(g, qn_graph_param_at(g, i))), "%s: input %zu", r->path, i);
  for (size_t i = 0; i < r->out_count; i++)
    cr_assert(qn_type_equal(&r->out[i].type, qn_graph_type(g, qn_graph_result(g, i))), "%s: output %zu", r->path, i);
  expect_outputs(r, g, "as it is");
  QN_ASSERT_OK(qn_graph_optimize(g, NULL, &better));
  expect_outputs(r, better, "optimised");
  qn_graph_release(g);
  qn_graph_release(better);
  return true;
}

/* The suite's results are those of transformed functions, so here each program is its own witness: optimised against as it is. */
static bool same_optimised(const char *path, const qn_golden_tensor *in, size_t in_count) {
  static replay r;
  static uint8_t room[MOST][1 << 16];
  void *outputs[MOST];
  const void *inputs[MOST];
  qn_bytes text;
  qn_graph *g, *better;
  QN_ASSERT_OK(qn_file_read(path, &text));
  qn_status st = qn_graph_parse((const char *)text.data, text.size, path, &g);
  free(text.data);
  if (st != QN_OK)
    return false;
  bool fits = in_count == qn_graph_param_count(g);
  for (size_t i = 0; fits && i < in_count; i++)
    fits = qn_type_equal(&in[i].type, qn_graph_type(g, qn_graph_param_at(g, i)));
  if (fits) {
    r = (replay){.path = path, .in_count = in_count, .out_count = qn_graph_result_count(g), .rtol = 2e-6, .atol = 1e-7};
    memcpy(r.in, in, in_count * sizeof *in);
    for (size_t i = 0; i < r.out_count; i++) {
      r.out[i] = (qn_golden_tensor){*qn_graph_type(g, qn_graph_result(g, i)), room[i]};
      cr_assert(qn_type_bytes(&r.out[i].type) <= (int64_t)sizeof room[i]);
      outputs[i] = room[i];
    }
    for (size_t i = 0; i < in_count; i++)
      inputs[i] = in[i].data;
    QN_ASSERT_OK(qn_graph_eval_ref(g, inputs, outputs));
    QN_ASSERT_OK(qn_graph_optimize(g, NULL, &better));
    expect_outputs(&r, better, "optimised");
    qn_graph_release(better);
  }
  qn_graph_release(g);
  return fits;
}

Test(replay, transforms, .timeout = 55) {
  qn_golden suite;
  char folder[1024], path[2048];
  int done = 0;
  if (!qn_golden_open("transforms", &suite) || !qn_test_shared_path("golden", folder, sizeof folder))
    cr_skip_test("no shared data");
  const cJSON *c;
  cJSON_ArrayForEach(c, suite.cases) {
    qn_golden_tensor in[MOST];
    const char *program = qn_golden_string(qn_golden_get(c, "attrs"), "program");
    (void)snprintf(path, sizeof path, "%s/%s", folder, program);
    size_t count = qn_golden_tensors(&suite, qn_golden_get(c, "inputs"), in, MOST);
    done += *program && same_optimised(path, in, count);
  }
  cr_expect(done >= 100, "%d programs", done);
  qn_golden_close(&suite);
}

static bool joined(qn_golden *file, qn_arena *arena, const char *name, qn_golden_tensor *out) {
  qn_golden_tensor part[2];
  static const char *const suffixes[2] = {".re", ".im"};
  for (int k = 0; k < 2; k++) {
    char full[40];
    (void)snprintf(full, sizeof full, "%s%s", name, suffixes[k]);
    if (!qn_golden_tensor_find(file, full, &part[k]))
      return false;
  }
  size_t size = qn_dtype_size(part[0].type.dtype), count = (size_t)qn_type_elements(&part[0].type);
  uint8_t *pairs = qn_arena_alloc(arena, 2 * size * count + 1);
  cr_assert(pairs != NULL);
  for (size_t i = 0; i < 2 * count; i++)
    memcpy(pairs + i * size, (const uint8_t *)part[i % 2].data + i / 2 * size, size);
  *out = (qn_golden_tensor){part[0].type, pairs};
  out->type.dtype = size == 4 ? QN_C64 : QN_C128;
  return true;
}

static size_t numbered(qn_golden *file, qn_arena *arena, const char *prefix, qn_golden_tensor *out) {
  size_t n = 0;
  for (char name[32]; n < MOST; n++) {
    (void)snprintf(name, sizeof name, "%s%zu", prefix, n);
    if (!qn_golden_tensor_find(file, name, &out[n]) && !joined(file, arena, name, &out[n]))
      break;
  }
  return n;
}

Test(replay, programs, .timeout = 55) {
  char folder[1024], path[2048];
  int done = 0;
  if (!qn_test_shared_path("stablehlo", folder, sizeof folder))
    cr_skip_test("no shared data");
  DIR *dir = opendir(folder);
  cr_assert(dir != NULL);
  for (struct dirent *e; (e = readdir(dir)) != NULL;) {
    static replay r;
    size_t n = strlen(e->d_name);
    if (n < 6 || strcmp(e->d_name + n - 5, ".mlir") != 0)
      continue;
    qn_golden file = {0};
    (void)snprintf(path, sizeof path, "%s/%.*s.safetensors", folder, (int)n - 5, e->d_name);
    QN_ASSERT_OK(qn_safetensors_open(path, &file.tensors));
    qn_arena arena = {0};
    r.in_count = numbered(&file, &arena, "in", r.in);
    r.out_count = numbered(&file, &arena, "out", r.out);
    r.rtol = r.atol = strstr(e->d_name, "bf16") ? 2e-2 : 1e-3; /* bf16 rounds where it is asked to */
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    r.path = path;
    done += r.out_count > 0 && run(&r);
    qn_arena_free(&arena);
    qn_safetensors_close(file.tensors);
  }
  closedir(dir);
  cr_expect(done >= 40, "%d programs", done);
}
