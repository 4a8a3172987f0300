/* The code of README.md, docs/errors.md and docs/tour.md: what is shown is compiled and run, here or where it is used. */
#include "expect.h"

#include <ctype.h>

#include "quern/ops.h"
#include "quern/train.h"

static qn_status check_rate(double rate) {
  if (!(rate >= 0 && rate < 1))
    return QN_ERR(QN_INVALID, "dropout: rate is %g, expected at least 0 and less than 1", rate);
  return QN_OK;
}

static qn_status check_rates(const double *rates, size_t count) {
  for (size_t i = 0; i < count; i++)
    QN_TRY(check_rate(rates[i]));
  return QN_OK;
}

static qn_status count_lines(const char *path, size_t *out_lines) {
  qn_bytes file = {0};
  qn_status st;
  *out_lines = 0;
  QN_TRY_GOTO(st, qn_file_read(path, &file), done);
  for (size_t i = 0; i < file.size; i++)
    *out_lines += file.data[i] == '\n';
done:
  free(file.data);
  return st;
}

static qn_status product(qn_graph *g) {
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), "x");
  qn_val w = qn_graph_param(g, qn_type_of(QN_F32, 1, 4), "w");
  qn_val y = qn_sin(qn_mul(x, w)); /* fails here: y is the null value */
  return qn_graph_seal(g, &y, 1);  /* and says so here */
}

/* ---- what the pages claim ---- */

typedef struct page {
  qn_bytes file;
  char *at;
} page;

static void open_page(page *p, const char *path) {
  QN_ASSERT_OK(qn_file_read(path, &p->file));
  p->at = (char *)p->file.data;
}

/* The next block that is fenced as `kind`, cut out with a NUL behind it. */
static char *next_block(page *p, const char *kind) {
  char fence[32];
  (void)snprintf(fence, sizeof fence, "```%s\n", kind);
  char *begin = strstr(p->at, fence);
  if (!begin)
    return NULL;
  begin += strlen(fence);
  char *end = strstr(begin, "```");
  cr_assert(end != NULL, "a block without end");
  *end = '\0';
  p->at = end + 1;
  return begin;
}

/* Line numbers become 0, so that the page need not follow every edit of this file. */
static void blank_lines(char *text) {
  char *to = text;
  for (char *from = text; *from; from++) {
    bool line = from > text && from[-1] == ':' && isdigit((unsigned char)*from);
    *to++ = line ? '0' : *from;
    while (line && isdigit((unsigned char)from[1]))
      from++;
  }
  *to = '\0';
}

static void expect_block(page *p, const char *said) {
  char *block = next_block(p, "text"), *got = strdup(said);
  cr_assert(block && got, "no block left for:\n%s", said);
  size_t n = strlen(block);
  block[n ? n - 1 : 0] = '\0';
  blank_lines(block);
  blank_lines(got);
  cr_expect_str_eq(got, block);
  free(got);
}

Test(docs, errors_are_reported_as_the_page_says) {
  const double rates[] = {0.5, 1.5};
  size_t lines;
  page p;
  open_page(&p, "docs/errors.md");
  QN_EXPECT_OK(check_rates(rates, 1));
  cr_assert(check_rates(rates, 2) == QN_INVALID);
  expect_block(&p, qn_error_report());
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("product", &g));
  cr_assert(product(g) == QN_INVALID);
  expect_block(&p, qn_error_message());
  qn_graph_release(g);
  QN_EXPECT_OK(count_lines("docs/errors.md", &lines));
  cr_expect(lines > 50);
  cr_expect(count_lines("docs/absent.md", &lines) == QN_NOT_FOUND && lines == 0);
  free(p.file.data);
}

static const char *const shown[] = {
    "tests/unit/test_docs.c", "models/programs/mnist_mlp.c",    "models/layers/layers.c",
    "models/losses/losses.c", "runtime/graph/simplify_index.c", "runtime/graph/ops/unary_exp.c",
    "models/train/steps.c"};
enum { SHOWN = sizeof shown / sizeof shown[0] };

static void check_code(const char *path, int least) {
  qn_bytes sources[SHOWN];
  page p;
  int blocks = 0;
  for (size_t i = 0; i < SHOWN; i++)
    QN_ASSERT_OK(qn_file_read(shown[i], &sources[i]));
  open_page(&p, path);
  for (char *code = next_block(&p, "c"); code; code = next_block(&p, "c")) {
    bool there = false;
    for (size_t i = 0; i < SHOWN; i++)
      there = there || strstr((char *)sources[i].data, code) != NULL;
    cr_expect(there, "%s shows code that is in no source:\n%s", path, code);
    blocks++;
  }
  cr_expect(blocks >= least, "%s has %d blocks", path, blocks);
  for (size_t i = 0; i < SHOWN; i++)
    free(sources[i].data);
  free(p.file.data);
}

Test(docs, code_is_what_is_compiled) {
  check_code("docs/errors.md", 4);
  check_code("docs/tour.md", 3);
  check_code("README.md", 1);
}

/* The graph's text is the same on every machine, so the tour's lines of it are looked for in the real one. */
Test(docs, the_tour_shows_the_real_graph) {
  size_t count;
  const qn_program_def *program = qn_programs(&count);
  qn_traced fn;
  qn_compile_desc desc;
  qn_text text = {0};
  page p;
  int lines = 0;
  QN_ASSERT_OK(program->trace(&(qn_train_options){0}, &fn, &desc));
  qn_graph_print(fn.graph, &text);
  open_page(&p, "docs/tour.md");
  for (char *block = next_block(&p, "mlir"); block; block = next_block(&p, "mlir"))
    for (char *line = strtok(block, "\n"); line; line = strtok(NULL, "\n")) {
      line += strspn(line, " ");
      if (strncmp(line, "...", 3) == 0)
        continue;
      cr_expect(strstr(text.buf, line) != NULL, "docs/tour.md shows a line that the graph has not:\n%s", line);
      lines++;
    }
  cr_expect(lines >= 5, "%d lines", lines);
  free(p.file.data);
  qn_text_free(&text);
  qn_traced_free(&fn);
}
