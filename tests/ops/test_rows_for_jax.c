/* Every row's samples as plain StableHLO text: it comes back from its text, and JAX's parser takes it where there is a jaxlib (QN_JAX_PYTHON names
 * its Python). */
#include <string.h>
#include <sys/wait.h>

#include "conform.h"

enum { NO_JAXLIB = 77 };

/* The text of one sample, which must read as the same graph. */
static bool write_sample(const qn_test_temp *dir, qn_op op, const qn_sample *s, qn_dtype t, int number) {
  qn_graph *g = NULL, *plain = NULL, *again = NULL;
  qn_text text = {0};
  char name[64];
  if (sample_graph(op, s, t, false, &g) != QN_OK)
    return false; /* a row may refuse some of the dtypes that its class has */
  qn_status st = qn_graph_plain(g, &plain);
  qn_graph_release(g);
  if (st == QN_UNSUPPORTED)
    return false;
  QN_ASSERT_OK(st);
  QN_ASSERT_OK(qn_graph_print_plain(plain, &text));
  QN_EXPECT_OK(qn_graph_parse(text.buf, text.len, qn_op_get(op)->name, &again));
  cr_expect(again && qn_graph_equal(plain, again), "%s: its text reads as something else:\n%s", qn_op_get(op)->name,
            text.buf);
  (void)snprintf(name, sizeof name, "%d.mlir", number);
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(dir, name).s, text.buf, text.len));
  qn_text_free(&text);
  qn_graph_release(plain);
  qn_graph_release(again);
  return true;
}

Test(rows_for_jax, every_sample, .timeout = 200) {
  static const qn_dtype dtypes[] = {QN_BOOL, QN_I32, QN_U8, QN_BF16, QN_F32, QN_C64};
  qn_test_temp dir = qn_test_temp_make();
  int count = 0;
  for (int op = QN_OP_NONE + 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    for (int i = 0; d && op != QN_OP_PARAMETER && i < d->sample_count; i++)
      for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        if (walks((qn_op)op, dtypes[t]))
          count += write_sample(&dir, (qn_op)op, &d->samples[i], dtypes[t], count);
  }
  cr_assert_gt(count, 100);
  const char *python = getenv("QN_JAX_PYTHON");
  char command[2048];
  (void)snprintf(command, sizeof command, "'%s' tests/cli/read_with_jax.py '%s'/*.mlir", python ? python : "python3",
                 dir.path);
  int code = system(command);
  if (WIFEXITED(code) && (WEXITSTATUS(code) == NO_JAXLIB || WEXITSTATUS(code) == 127))
    printf("no jaxlib: %d texts came back, JAX was not asked\n", count);
  else
    cr_expect(WIFEXITED(code) && WEXITSTATUS(code) == 0, "JAX refuses some");
  qn_test_temp_remove(&dir);
}
