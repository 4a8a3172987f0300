/* The training loop on a small generated problem: history, checkpoint, resuming bit for bit, stopping, bad numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/drivers.h"
#include "quern/losses.h"
#include "quern/model.h"
#include "quern/optim.h"
#include "quern/train.h"

enum {
  INPUTS = 12,
  CLASSES = 3,
  TRAIN = 840,
  VALIDATION = 90,
  TEST = 70,
  BATCH = 8,
  SPE = 105,
  SIDE_ROWS = 3,
  SIDE_COLUMNS = 4
};

/* Three noisy directions; `poison` is the fill of the train split that turns to NaN, `stop_at` the fill that asks to stop. */
typedef struct toy {
  qn_model *model;
  qn_adam adam;
  float x[TRAIN + VALIDATION + TEST][INPUTS];
  uint8_t y[TRAIN + VALIDATION + TEST], image[SIDE_ROWS * SIDE_COLUMNS];
  size_t train_fills, validation_fills, poison, stop_at, stop_at_validation;
  volatile sig_atomic_t stop;
  qn_fit fit;
} toy;

static qn_val loss_fn(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  const toy *p = user;
  qn_val y = qn_tree_get(args[3], "y");
  qn_model_result out = qn_model_apply(p->model, args[0], args[1], qn_tree_get(args[3], "x"), true);
  qn_val loss = qn_add(qn_categorical_crossentropy_from_logits(y, out.y), out.losses);
  *out_aux = qn_tree_create(g);
  qn_tree_put(*out_aux, "non_trainable", out.non_trainable);
  qn_tree_put(*out_aux, "metrics", qn_totals_update(args[2], loss, qn_accuracy_hits(y, out.y)));
  return loss;
}

static qn_tree *train_step(qn_graph *g, qn_tree *const *args, void *user) {
  const toy *p = user;
  qn_tree *trainable = qn_tree_sub(args[0], "trainable"), *result = qn_tree_create(g);
  qn_tree *const in[] = {trainable, qn_tree_sub(args[0], "non_trainable"), qn_tree_sub(args[0], "metrics"), args[1]};
  qn_value_grad r = qn_value_and_grad(g, loss_fn, user, in, 4, &(qn_grad_desc){.has_aux = true});
  qn_update u = qn_adam_apply(&p->adam, qn_tree_sub(args[0], "optimizer"), r.grads[0], trainable);
  qn_tree_put(result, "state/trainable", u.params);
  qn_tree_put(result, "state/non_trainable", qn_tree_sub(r.aux, "non_trainable"));
  qn_tree_put(result, "state/optimizer", u.state);
  qn_tree_put(result, "state/metrics", qn_tree_sub(r.aux, "metrics"));
  qn_tree_set(result, "loss", r.value);
  return result;
}

static qn_tree *eval_step(qn_graph *g, qn_tree *const *args, void *user) {
  const toy *p = user;
  qn_val y = qn_tree_get(args[2], "y");
  qn_model_result out = qn_model_apply(p->model, qn_tree_sub(args[0], "trainable"),
                                       qn_tree_sub(args[0], "non_trainable"), qn_tree_get(args[2], "x"), false);
  qn_tree *result = qn_tree_create(g);
  qn_val loss = qn_categorical_crossentropy_from_logits(y, out.y);
  qn_tree_put(result, "totals", qn_totals_update(args[1], loss, qn_accuracy_hits(y, out.y)));
  qn_tree_set(result, "prediction", qn_argmax(out.y, -1));
  return result;
}

static qn_tree *init(qn_graph *g, qn_tree *const *args, void *user) {
  const toy *p = user;
  qn_tree *state = qn_tree_create(g), *trainable, *non_trainable;
  qn_model_init(p->model, qn_tree_get(args[0], "key"), &trainable, &non_trainable);
  qn_tree_put(state, "trainable", trainable);
  qn_tree_put(state, "non_trainable", non_trainable);
  qn_tree_put(state, "optimizer", qn_adam_init(&p->adam, g, qn_model_trainable(p->model)));
  qn_tree_put(state, "metrics", qn_totals_zero(g));
  return state;
}

static qn_status batch_def(void *user, int64_t rows, qn_treedef *out_batch) {
  (void)user;
  QN_TRY(qn_treedef_add(out_batch, "x", qn_type_of(QN_F32, 2, rows, INPUTS)));
  return qn_treedef_add(out_batch, "y", qn_type_of(QN_F32, 2, rows, CLASSES));
}

static qn_status fill(toy *p, size_t first, const uint32_t *rows, size_t count, void *const *leaves) {
  float *x = leaves[0], *y = leaves[1];
  memset(y, 0, count * CLASSES * sizeof *y);
  for (size_t i = 0; i < count; i++) {
    memcpy(x + i * INPUTS, p->x[first + rows[i]], sizeof p->x[0]);
    y[i * CLASSES + p->y[first + rows[i]]] = 1;
  }
  return QN_OK;
}

static qn_status fill_train(void *user, const uint32_t *rows, size_t count, void *const *leaves) {
  toy *p = user;
  QN_TRY(fill(p, 0, rows, count, leaves));
  p->train_fills++;
  if (p->train_fills == p->poison)
    *(float *)leaves[0] = NAN;
  if (p->train_fills == p->stop_at)
    p->stop = 1;
  return QN_OK;
}

static qn_status fill_validation(void *user, const uint32_t *rows, size_t count, void *const *leaves) {
  toy *p = user;
  QN_TRY(fill(p, TRAIN, rows, count, leaves));
  if (++p->validation_fills == p->stop_at_validation)
    p->stop = 1;
  return QN_OK;
}

static qn_status fill_test(void *user, const uint32_t *rows, size_t count, void *const *leaves) {
  return fill(user, TRAIN + VALIDATION, rows, count, leaves);
}

static const uint8_t *test_image(void *user, size_t row) {
  (void)row;
  return ((toy *)user)->image;
}

static void make_data(toy *p) {
  uint64_t h = 12345;
  for (size_t i = 0; i < TRAIN + VALIDATION + TEST; i++) {
    p->y[i] = (uint8_t)(i % CLASSES);
    for (size_t j = 0; j < INPUTS; j++) {
      h = qn_hash_u64(h, j);
      p->x[i][j] = (float)(h >> 40) / 16777216.0f - 0.5f + (j % CLASSES == p->y[i] ? 0.35f : 0);
    }
  }
}

static toy *toy_create(void) {
  static const char *const names[CLASSES] = {"a", "b", "c"};
  toy *p = calloc(1, sizeof *p);
  cr_assert_not_null(p);
  const qn_layer layers[] = {qn_dense(16, qn_act_relu), qn_dropout(0.1, 3), qn_dense(CLASSES, NULL)};
  qn_type input = qn_type_of(QN_F32, 2, BATCH, INPUTS);
  QN_ASSERT_OK(qn_sequential("toy", &input, layers, sizeof layers / sizeof *layers, &p->model));
  p->adam.learning_rate = 1e-2;
  make_data(p);
  p->fit = (qn_fit){
      .name = "toy",
      .user = p,
      .init = init,
      .train_step = train_step,
      .eval_step = eval_step,
      .totals = qn_totals_fn,
      .metrics = "metrics",
      .batch = batch_def,
      .train = {"train", TRAIN - 4, fill_train, p}, /* the last batch has four rows */
      .validation = {"validation", VALIDATION, fill_validation, p},
      .test = {"test", TEST, fill_test, p},
      .shuffle_buffer = 64,
      .class_names = names,
      .class_count = CLASSES,
      .image_rows = SIDE_ROWS,
      .image_columns = SIDE_COLUMNS,
      .image = test_image,
      .test_labels = p->y + TRAIN + VALIDATION,
      .default_epochs = 3,
      .default_batch = BATCH,
  };
  return p;
}

static void toy_free(toy *p) {
  qn_model_free(p->model);
  free(p);
}

/* ---- runs ---- */

typedef struct bench {
  toy *p;
  qn_device *d;
  qn_test_temp dir;
  qn_cache *cache; /* many runs of few programs */
  FILE *log;
} bench;

static bench open_bench(void) {
  bench b = {.p = toy_create(), .dir = qn_test_temp_make(), .log = tmpfile()};
  size_t n;
  const qn_driver *const *drivers = qn_drivers(&n);
  QN_ASSERT_OK(qn_device_open(drivers, n, "cpu", &b.d));
  QN_ASSERT_OK(qn_cache_open(qn_test_temp_file(&b.dir, "kernels.db").s, &b.cache));
  cr_assert_not_null(b.log);
  return b;
}

static void close_bench(bench *b) {
  toy_free(b->p);
  qn_device_release(b->d);
  qn_cache_close(b->cache);
  qn_test_temp_remove(&b->dir);
  (void)fclose(b->log);
}

/* A run into the folder `out` below the temporary one, fresh counters. */
static qn_status run(bench *b, const char *out, qn_train_options o) {
  qn_test_path folder = qn_test_temp_file(&b->dir, out);
  b->p->train_fills = b->p->validation_fills = 0;
  b->p->stop = 0;
  rewind(b->log);
  cr_assert_eq(ftruncate(fileno(b->log), 0), 0);
  o.out = folder.s;
  o.log = b->log;
  o.stop = &b->p->stop;
  o.cache = b->cache;
  return qn_fit_run(b->d, &b->p->fit, &o);
}

static bool logged(bench *b, const char *part) {
  char text[16384];
  (void)fflush(b->log);
  rewind(b->log);
  size_t n = fread(text, 1, sizeof text - 1, b->log);
  text[n] = '\0';
  return qn_test_contains(text, part);
}

static char *read_text(const bench *b, const char *name) {
  qn_bytes bytes;
  QN_ASSERT_OK(qn_file_read(qn_test_temp_file(&b->dir, name).s, &bytes));
  return (char *)bytes.data;
}

/* history.json without the values of "seconds". */
static char *history(const bench *b, const char *name) {
  char *text = read_text(b, name), *to = text;
  for (const char *from = text; *from;) {
    if (strncmp(from, "\"seconds\":", 10) == 0)
      from += 10 + strcspn(from + 10, "}");
    else
      *to++ = *from++;
  }
  *to = '\0';
  return text;
}

/* The tensors of a checkpoint: everything behind the header. */
static void expect_same_tensors(const bench *b, const char *one, const char *two) {
  qn_bytes x, y;
  QN_ASSERT_OK(qn_file_read(qn_test_temp_file(&b->dir, one).s, &x));
  QN_ASSERT_OK(qn_file_read(qn_test_temp_file(&b->dir, two).s, &y));
  size_t hx = 8 + (x.data[0] | (size_t)x.data[1] << 8), hy = 8 + (y.data[0] | (size_t)y.data[1] << 8);
  cr_assert_eq(x.size - hx, y.size - hy);
  cr_expect_arr_eq(x.data + hx, y.data + hy, x.size - hx);
  free(x.data);
  free(y.data);
}

static void expect_same_run(const bench *b, const char *one, const char *two) {
  char names[4][64];
  (void)snprintf(names[0], sizeof names[0], "%s/history.json", one);
  (void)snprintf(names[1], sizeof names[1], "%s/history.json", two);
  (void)snprintf(names[2], sizeof names[2], "%s/checkpoint.safetensors", one);
  (void)snprintf(names[3], sizeof names[3], "%s/checkpoint.safetensors", two);
  char *x = history(b, names[0]), *y = history(b, names[1]);
  cr_expect_str_eq(x, y);
  expect_same_tensors(b, names[2], names[3]);
  free(x);
  free(y);
}

static double last_number(const char *text, const char *key) {
  const char *at = NULL;
  for (const char *p = text; (p = strstr(p, key)); p += strlen(key))
    at = p + strlen(key);
  cr_assert_not_null(at, "%s is not there", key);
  return strtod(at, NULL);
}

static void trains_and_writes_everything(bench *b) {
  QN_ASSERT_OK(run(b, "new/deep", (qn_train_options){.seed = 1}));
  cr_expect(logged(b, "toy on cpu: "));
  cr_expect(logged(b, "\nstep 100: loss "));
  cr_expect(logged(b, "\nstep 300: loss "));
  cr_expect(logged(b, "\nepoch 3/3 - "));
  cr_expect(logged(b, " - val_loss: "));
  cr_expect(logged(b, " - val_accuracy: "));
  cr_expect(logged(b, "\ntest - loss: "));
  cr_expect(logged(b, "/new/deep/report.html\n"));
  char *h = history(b, "new/deep/history.json");
  cr_expect_lt(last_number(h, "\"loss\":"), 1.0);
  cr_expect_gt(last_number(h, "\"val_accuracy\":"), 0.8, "it learns nothing: %s", h);
  cr_expect(qn_test_contains(h, "{\"step\":1,"));
  cr_expect(qn_test_contains(h, "{\"step\":300,"));
  cr_expect(qn_test_contains(h, "\"device\":\"cpu\",\"seed\":1}"));
  char *html = read_text(b, "new/deep/report.html");
  cr_expect(qn_test_contains(html, "<svg"));
  cr_expect(qn_test_contains(html, "Confusion matrix"));
  free(h);
  free(html);
}

static void quiet_says_nothing(bench *b) {
  QN_ASSERT_OK(run(b, "x", (qn_train_options){.epochs = 1, .quiet = true}));
  (void)fflush(b->log);
  cr_expect_eq(ftell(b->log), 0);
}

static void the_summary_is_a_line_of_json(bench *b) {
  char line[4096];
  FILE *out = tmpfile();
  int kept = dup(1);
  cr_assert(out && kept >= 0);
  (void)fflush(stdout);
  (void)dup2(fileno(out), 1);
  qn_status st = run(b, "x", (qn_train_options){.epochs = 1, .json = true});
  (void)fflush(stdout);
  (void)dup2(kept, 1);
  (void)close(kept);
  QN_ASSERT_OK(st);
  rewind(out);
  cr_assert_not_null(fgets(line, sizeof line, out));
  cr_expect_eq(fgetc(out), EOF);
  (void)fclose(out);
  cr_expect_eq(strncmp(line, "{\"program\":\"toy\",\"device\":\"cpu\"", 31), 0, "%s", line);
  cr_expect(qn_test_contains(line, ",\"test_accuracy\":"));
  cr_expect(qn_test_contains(line, "x/report.html\"}\n"));
}

static void profile_gives_table_and_trace(bench *b) {
  QN_ASSERT_OK(run(b, "x", (qn_train_options){.epochs = 1, .profile = true}));
  cr_expect(logged(b, "dot_general"));
  cr_expect(logged(b, "x/trace.json"));
  char *trace = read_text(b, "x/trace.json");
  cr_expect_eq(strncmp(trace, "{\"traceEvents\":[", 16), 0);
  cr_expect(qn_test_contains(trace, "dot_general"));
  free(trace);
}

/* One process for what needs the same kernels: compiling them is most of the time. */
Test(fit, what_a_run_says_and_writes) {
  bench b = open_bench();
  trains_and_writes_everything(&b);
  quiet_says_nothing(&b);
  the_summary_is_a_line_of_json(&b);
  profile_gives_table_and_trace(&b);
  close_bench(&b);
}

static void a_limit_of_steps(bench *b) {
  QN_ASSERT_OK(run(b, "x", (qn_train_options){.steps_limit = 7}));
  cr_expect_eq(b->p->train_fills, 7);
  cr_expect(logged(b, "\ntest - loss: "));
  char *h = history(b, "x/history.json");
  cr_expect(qn_test_contains(h, "\"epochs\":[]"));
  free(h);
}

static void no_validation_and_no_test(bench *b) {
  b->p->fit.validation.rows = b->p->fit.test.rows = 0;
  QN_ASSERT_OK(run(b, "x", (qn_train_options){.epochs = 1}));
  char *h = history(b, "x/history.json");
  cr_expect(qn_test_contains(h, "\"val_loss\":null"));
  free(h);
}

static void a_batch_that_divides_the_rows(bench *b) {
  QN_ASSERT_OK(run(b, "x", (qn_train_options){.epochs = 1, .batch = 836}));
  cr_expect_eq(b->p->train_fills, 1);
}

Test(fit, unusual_sizes) {
  bench b = open_bench();
  a_limit_of_steps(&b);
  no_validation_and_no_test(&b);
  a_batch_that_divides_the_rows(&b);
  close_bench(&b);
}

Test(fit, equal_seeds_give_equal_runs) {
  bench b = open_bench();
  QN_ASSERT_OK(run(&b, "one", (qn_train_options){.seed = 9, .epochs = 2}));
  QN_ASSERT_OK(run(&b, "two", (qn_train_options){.seed = 9, .epochs = 2}));
  expect_same_run(&b, "one", "two");
  QN_ASSERT_OK(run(&b, "three", (qn_train_options){.seed = 10, .epochs = 2}));
  char *x = history(&b, "one/history.json"), *y = history(&b, "three/history.json");
  cr_expect_str_neq(x, y);
  free(x);
  free(y);
  close_bench(&b);
}

#ifdef QN_HAVE_CJSON
Test(fit, resuming_between_epochs_changes_nothing) {
  bench b = open_bench();
  QN_ASSERT_OK(run(&b, "whole", (qn_train_options){.seed = 2, .epochs = 4}));
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 2, .epochs = 1}));
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 2, .epochs = 3, .resume = true}));
  cr_expect(logged(&b, "1 epochs and 0 steps are done"));
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 2, .epochs = 4, .resume = true}));
  expect_same_run(&b, "whole", "parts");
  cr_expect_eq(b.p->train_fills, SPE);
  /* Nothing left: tests and reports again, and leaves the rest as it is. */
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 2, .epochs = 4, .resume = true}));
  cr_expect(logged(&b, "nothing left to train"));
  cr_expect_eq(b.p->train_fills, 0);
  expect_same_run(&b, "whole", "parts");
  close_bench(&b);
}

Test(fit, stopping_anywhere_and_resuming_changes_nothing) {
  static const size_t stops[] = {1, 100, 105, 150};
  bench b = open_bench();
  QN_ASSERT_OK(run(&b, "whole", (qn_train_options){.seed = 3, .epochs = 2}));
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
    char part[96];
    b.p->stop_at = stops[i];
    QN_EXPECT_FAIL(run(&b, "parts", (qn_train_options){.seed = 3, .epochs = 2}), QN_CANCELLED,
                   "resume with: quern train toy --resume");
    (void)snprintf(part, sizeof part, "behind step %zu of %d, saved to ", (stops[i] - 1) % SPE + 1, SPE);
    cr_expect(qn_test_contains(qn_error_message(), part));
    cr_expect(qn_test_contains(qn_error_message(),
                               "resume with: quern train toy --resume --epochs 2 --batch 8 --seed 3 --out /"));
    b.p->stop_at = 0;
    QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 3, .epochs = 2, .resume = true}));
    cr_expect_eq(b.p->train_fills, 2 * SPE - stops[i]);
    expect_same_run(&b, "whole", "parts");
  }
  close_bench(&b);
}

Test(fit, stopping_in_validation_and_resuming_changes_nothing) {
  bench b = open_bench();
  QN_ASSERT_OK(run(&b, "whole", (qn_train_options){.seed = 3, .epochs = 2}));
  b.p->stop_at_validation = 5;
  QN_EXPECT_FAIL(run(&b, "parts", (qn_train_options){.seed = 3, .epochs = 2}), QN_CANCELLED, "behind step 105");
  b.p->stop_at_validation = 0;
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 3, .epochs = 2, .resume = true}));
  expect_same_run(&b, "whole", "parts");
  close_bench(&b);
}

/* A crash between the two files leaves a history that is ahead of the checkpoint. */
Test(fit, a_history_ahead_of_the_checkpoint_is_cut) {
  bench b = open_bench();
  QN_ASSERT_OK(run(&b, "whole", (qn_train_options){.seed = 4, .epochs = 3}));
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 4, .epochs = 1}));
  char *ahead = read_text(&b, "whole/history.json");
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(&b.dir, "parts/history.json").s, ahead, strlen(ahead)));
  free(ahead);
  QN_ASSERT_OK(run(&b, "parts", (qn_train_options){.seed = 4, .epochs = 3, .resume = true}));
  expect_same_run(&b, "whole", "parts");
  close_bench(&b);
}

static void a_damaged_checkpoint_is_not_resumed(bench *b) {
  QN_ASSERT_OK(run(b, "x", (qn_train_options){.epochs = 1}));
  qn_test_path path = qn_test_temp_file(&b->dir, "x/checkpoint.safetensors");
  qn_bytes bytes;
  QN_ASSERT_OK(qn_file_read(path.s, &bytes));
  QN_ASSERT_OK(qn_file_write_atomic(path.s, bytes.data, bytes.size - 1));
  free(bytes.data);
  QN_EXPECT_FAIL(run(b, "x", (qn_train_options){.epochs = 2, .resume = true}), QN_CORRUPT, "x/checkpoint.safetensors");
}

Test(fit, options_must_be_those_of_the_checkpoint) {
  bench b = open_bench();
  a_damaged_checkpoint_is_not_resumed(&b);
  QN_EXPECT_FAIL(run(&b, "none", (qn_train_options){.resume = true}), QN_NOT_FOUND, "train without --resume first");
  const qn_train_options good = {.seed = 5, .epochs = 1, .scale = true, .resume = true};
  qn_train_options o = good;
  o.resume = false;
  o.batch = 16;
  QN_ASSERT_OK(run(&b, "x", o));
  o = good;
  o.seed = 6;
  QN_EXPECT_FAIL(run(&b, "x", o), QN_INVALID, "trained with --seed 5, got --seed 6");
  o = good;
  o.batch = 8;
  QN_EXPECT_FAIL(run(&b, "x", o), QN_INVALID, "trained with --batch 16, got --batch 8");
  o = good;
  o.scale = false;
  QN_EXPECT_FAIL(run(&b, "x", o), QN_INVALID, "trained with --scale: resume it with --scale");
  o = good;
  o.batchnorm = true;
  QN_EXPECT_FAIL(run(&b, "x", o), QN_INVALID, "trained without --batchnorm: resume it without --batchnorm");
  b.p->fit.train.rows--;
  QN_EXPECT_FAIL(run(&b, "x", good), QN_INVALID, "trained on 836 rows, this data has 835");
  b.p->fit.train.rows++;
  b.p->fit.name = "other";
  QN_EXPECT_FAIL(run(&b, "x", good), QN_INVALID, "is of program \"toy\", expected \"other\"");
  b.p->fit.name = "toy";
  /* Without --batch the checkpoint's is taken. */
  QN_ASSERT_OK(run(&b, "x", good));
  cr_expect(logged(&b, "batch 16"));
  close_bench(&b);
}

#endif

Test(fit, a_loss_that_is_no_number_stops_and_keeps_the_checkpoint) {
  bench b = open_bench();
  b.p->poison = 130;
  QN_EXPECT_FAIL(run(&b, "x", (qn_train_options){.epochs = 2}), QN_DIVERGED,
                 "toy: the loss is not a number at step 200 (the loss was finite at step 105)");
  cr_expect(qn_test_contains(qn_error_message(), "the checkpoint of epoch 1 is kept"));
  b.p->poison = 0;
  QN_ASSERT_OK(run(&b, "y", (qn_train_options){.epochs = 1}));
  expect_same_tensors(&b, "x/checkpoint.safetensors", "y/checkpoint.safetensors");
  /* Behind the last look of an epoch, and before the first checkpoint. */
  b.p->poison = 103;
  QN_EXPECT_FAIL(run(&b, "z", (qn_train_options){.epochs = 2}), QN_DIVERGED,
                 "the loss of the epoch is not a number at step 105");
  cr_expect(qn_test_contains(qn_error_message(), "no checkpoint was written"));
  cr_expect_not(qn_file_exists(qn_test_temp_file(&b.dir, "z/checkpoint.safetensors").s));
  /* A wish to stop does not save it either. */
  b.p->poison = 120;
  b.p->stop_at = 140;
  QN_EXPECT_FAIL(run(&b, "x", (qn_train_options){.epochs = 2}), QN_DIVERGED, "not a number at step 140");
  expect_same_tensors(&b, "x/checkpoint.safetensors", "y/checkpoint.safetensors");
  close_bench(&b);
}

Test(fit, check_nans_names_what_brought_it) {
  bench b = open_bench();
  b.p->poison = 7;
  QN_EXPECT_FAIL(run(&b, "n", (qn_train_options){.epochs = 1, .check_nans = true}), QN_DIVERGED,
                 "toy: in step 7 input");
  cr_expect(qn_test_contains(qn_error_message(), "(arg1/x)"));
  b.p->poison = 0;
  QN_ASSERT_OK(run(&b, "m", (qn_train_options){.epochs = 1, .check_nans = true}));
  QN_ASSERT_OK(run(&b, "o", (qn_train_options){.epochs = 1}));
  expect_same_tensors(&b, "m/checkpoint.safetensors", "o/checkpoint.safetensors");
  close_bench(&b);
}

Test(fit, bad_options_and_folders) {
  bench b = open_bench();
  QN_EXPECT_FAIL(run(&b, "x", (qn_train_options){.epochs = -1}), QN_INVALID, "-1 epochs");
  QN_EXPECT_FAIL(run(&b, "x", (qn_train_options){.batch = -8}), QN_INVALID, "batches of -8");
  QN_EXPECT_FAIL(run(&b, "x", (qn_train_options){.batch = 1000}), QN_INVALID,
                 "--batch 1000, but the training data has 836 rows");
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(&b.dir, "file").s, "x", 1));
  QN_EXPECT_FAIL(run(&b, "file", (qn_train_options){.epochs = 1}), QN_IO, "a file has that name");
  b.p->fit.train.rows = 0;
  QN_EXPECT_FAIL(run(&b, "x", (qn_train_options){.epochs = 1}), QN_INVALID, "the training data has 0 rows");
  close_bench(&b);
}

Test(fit, the_step_can_be_traced_alone) {
  toy *p = toy_create();
  qn_traced fn;
  qn_compile_desc desc;
  QN_ASSERT_OK(qn_fit_trace(&p->fit, 5, &fn, &desc));
  cr_expect_eq(fn.arg_count, 2);
  ptrdiff_t x = qn_treedef_find(&fn.args[1], "x");
  cr_assert_geq(x, 0);
  cr_expect_eq(fn.args[1].leaves[x].type.dims[0], 5);
  cr_expect_geq(qn_treedef_find(&fn.result, "loss"), 0);
  cr_expect_geq(qn_treedef_find(&fn.result, "state/metrics/count"), 0);
  cr_assert_eq(desc.donation_count, 1);
  cr_expect_eq(desc.donations[0].arg, 0);
  cr_expect_str_eq(desc.donations[0].prefix, "state");
  qn_traced_free(&fn);
  toy_free(p);
}
