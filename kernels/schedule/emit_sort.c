/* Passes of a sort, without barriers or local memory. The first pass sorts short stretches: for every element it counts how many of its stretch
 * come before it, which is its place. A later one merges pairs of sorted stretches: every item writes a fixed piece of the result; where it
 * begins in both halves is found by a binary search along the piece's diagonal. All merging passes over the same arrays are one kernel,
 * which takes the length of a stretch as a launch parameter. Which element comes first is asked of the comparator with the later element as
 * its first argument, as the reference does: equal elements keep their order on every device. */
#include "schedule.h"

#include <string.h>

enum { SORT_ARRAYS = 16, PIECE = 64, PIECE_GPU = 16 };

typedef struct sorter {
  const qn_node *n;
  const qn_attr_runs *a;
  const qn_type *t;
  int count;             /* arrays; captures follow them among the operands */
  int64_t width, blocks; /* of a row: elements of a stretch or piece, and how many of them */
  qn_ix at[QN_MAX_RANK]; /* the row; the axis is filled in for every access */
} sorter;

static sorter sorter_of(const qn_schedule *s, const sched_part *p) {
  const qn_node *n = qn_graph_node(s->g, p->hero);
  sorter w = {.n = n, .a = n->attr, .t = qn_graph_type(s->g, n->first_result), .count = n->result_count};
  int64_t length = w.t->dims[w.a->dimension];
  w.width = w.a->sorted > 1 ? (s->caps->device_class == QN_CLASS_GPU ? PIECE_GPU : PIECE) : w.a->length;
  if (w.width > length)
    w.width = length > 0 ? length : 1;
  w.blocks = (length + w.width - 1) / w.width;
  return w;
}

static int64_t rows_of(const sorter *w) {
  int64_t length = w->t->dims[w->a->dimension];
  return length > 0 ? qn_type_elements(w->t) / length : 0;
}

/* First pass: lanes are neighbours of one stretch. Merging: each lane has a piece of its own. */
static uint32_t lanes_of(const qn_schedule *s, const sorter *w) {
  uint32_t lanes = qn_emit_grid(s->caps).lanes;
  if (w->a->sorted == 1)
    return qn_emit_fit_lanes(lanes, w->width);
  if (s->caps->device_class == QN_CLASS_GPU)
    return 1;
  return qn_emit_fit_lanes(lanes, rows_of(w) * w->blocks);
}

emit_slots qn_sort_slots(const qn_schedule *s, const sched_part *p) {
  sorter w = sorter_of(s, p);
  int64_t lanes = lanes_of(s, &w), pieces = rows_of(&w) * w.blocks, chunks = (w.width + lanes - 1) / lanes;
  if (w.a->sorted == 1)
    return qn_emit_slots(s->caps, pieces, 8 * (double)(w.width * chunks));
  return qn_emit_slots(s->caps, (pieces + lanes - 1) / lanes, 16 * (double)(w.width * lanes));
}

/* Takes a number apart into the row's index and what counts inside a row; returns that. */
static qn_ix take_row(qn_emit *e, sorter *w, qn_ix number, int64_t inside) {
  int64_t dims[QN_MAX_RANK + 1];
  qn_ix idx[QN_MAX_RANK + 1];
  int n = 0;
  for (int i = 0; i < w->t->rank; i++)
    if (i != w->a->dimension)
      dims[n++] = w->t->dims[i];
  dims[n++] = inside;
  qn_ix_delinearize(e, number, n, dims, idx);
  for (int i = 0, k = 0; i < w->t->rank; i++)
    if (i != w->a->dimension)
      w->at[i] = idx[k++];
  return idx[n - 1];
}

static void read_at(qn_emit *e, sorter *w, qn_ix place, qn_sval mask, qn_sval *out) {
  w->at[w->a->dimension] = place;
  for (int i = 0; i < w->count; i++)
    out[i] = qn_emit_value(e, w->n->operands[i], w->at, mask);
}

static void write_at(qn_emit *e, sorter *w, qn_ix place, const qn_sval *x, qn_sval mask) {
  w->at[w->a->dimension] = place;
  for (int i = 0; i < w->count; i++)
    qn_emit_store(e, w->n->first_result + (uint32_t)i, w->at, x[i], mask);
}

/* Does `later` come before `earlier`? */
static qn_sval overtakes(qn_emit *e, const sorter *w, const qn_sval *later, const qn_sval *earlier) {
  qn_sval args[2 * SORT_ARRAYS + SORT_ARRAYS], less;
  int captures = w->n->operand_count - w->count;
  for (int i = 0; i < w->count; i++) {
    args[2 * i] = later[i];
    args[2 * i + 1] = earlier[i];
  }
  for (int i = 0; i < captures; i++)
    args[2 * w->count + i] = qn_emit_value(e, w->n->operands[w->count + i], NULL, (qn_sval){0});
  qn_emit_region(e, w->n->regions[0], args, &less);
  return less;
}

static qn_sval lesser(qn_emit *e, qn_sval a, qn_sval b) { return qs_select(e->k, qs_lt(e->k, a, b), a, b); }
static qn_sval greater(qn_emit *e, qn_sval a, qn_sval b) { return qs_select(e->k, qs_lt(e->k, a, b), b, a); }

/* ---- first pass ---- */

/* Lanes of a stretch: their places in the row, and which of them are there. */
typedef struct lanes_at {
  qn_ix place;
  qn_sval number, mask;
} lanes_at;

static lanes_at lanes_of_chunk(qn_emit *e, const sorter *w, qn_sval first, qn_sval end, qn_sval chunk) {
  int64_t lanes = e->lanes;
  bool whole = w->width % lanes == 0;
  qn_sval own = qs_mul(e->k, chunk, qn_emit_i32(e, lanes));
  lanes_at l = {.place = qn_ix_lanes(e, qs_add(e->k, first, own), 1, whole ? lanes : 1)};
  l.number = qn_ix_value(e, l.place);
  if (!whole || w->t->dims[w->a->dimension] % w->width)
    l.mask = qs_lt(e->k, l.number, end);
  return l;
}

/* Counts for every lane's element which others of the stretch come before it, and puts it there. */
static void rank_lanes(qn_emit *e, sorter *w, const lanes_at *l, qn_sval first, qn_sval end) {
  qn_sval mine[SORT_ARRAYS], other[SORT_ARRAYS], earlier[SORT_ARRAYS], later[SORT_ARRAYS];
  read_at(e, w, l->place, l->mask, mine);
  qn_sval count = qn_kb_var(e->b, qn_kb_splat(e->b, qn_emit_i32(e, 0), e->lanes));
  size_t mark = qn_emit_memo_mark(e);
  qn_sval j = qn_kb_loop(e->b, first, end, 1, true);
  read_at(e, w, qn_ix_scalar(e, j, 1), (qn_sval){0}, other);
  qn_sval before = qs_lt(e->k, j, l->number);
  for (int i = 0; i < w->count; i++) {
    earlier[i] = qs_select(e->k, before, other[i], mine[i]);
    later[i] = qs_select(e->k, before, mine[i], other[i]);
  }
  qn_sval counts = qs_xor(e->k, overtakes(e, w, later, earlier), before);
  counts = qs_and(e->k, counts, qs_ne(e->k, j, l->number));
  qn_kb_set(e->b, count, qs_add(e->k, qn_kb_get(e->b, count), qs_convert(e->k, QN_I32, counts)));
  qn_emit_close(e, mark);
  write_at(e, w, qn_ix_vector(e, qs_add(e->k, first, qn_kb_get(e->b, count))), mine, l->mask);
}

/* A stretch belongs to one item. It is copied before it is sorted: under a comparator that contradicts itself two elements may count the same,
 * and the place that nobody gets has to hold something. */
static void emit_blocks(qn_emit *e, sorter *w) {
  int64_t chunks = (w->width + e->lanes - 1) / e->lanes, length = w->t->dims[w->a->dimension];
  emit_slots slots = qn_sort_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  qn_ix block = take_row(e, w, qn_ix_scalar(e, slot, 1), w->blocks);
  qn_sval first = qs_mul(e->k, qn_ix_value(e, block), qn_emit_i32(e, w->width));
  qn_sval end = qs_add(e->k, first, qn_emit_i32(e, w->width));
  if (length % w->width)
    end = lesser(e, end, qn_emit_i32(e, length));
  for (int pass = 0; pass < 2; pass++) {
    size_t mark;
    qn_sval x[SORT_ARRAYS], chunk = qn_emit_loop(e, 0, chunks, 1, &mark);
    lanes_at l = lanes_of_chunk(e, w, first, end, chunk);
    if (pass == 0) {
      read_at(e, w, l.place, l.mask, x);
      write_at(e, w, l.place, x, l.mask);
    } else {
      rank_lanes(e, w, &l, first, end);
    }
    qn_emit_close(e, mark);
  }
  qn_emit_slots_close(e, &slots);
}

/* ---- merging ---- */

typedef struct pair {
  qn_sval begin, middle;   /* of the two stretches, in the row */
  qn_sval left, right;     /* their lengths */
  qn_sval last;            /* place of the row's last element: what is read beyond an end is not used */
  qn_sval piece, diagonal; /* place of the piece's first element, in the row and in the pair */
} pair;

static qn_sval launch_word(qn_emit *e, int64_t x) {
  uint32_t word = qn_kb_new_param(e->b);
  if (!QN_RESERVE(e->params, e->param_capacity, (size_t)word + 1)) {
    qn_emit_fail(e, QN_ERR(QN_OUT_OF_MEMORY, "no memory for launch parameters"));
    return qn_emit_i32(e, 0);
  }
  if (word >= e->param_count)
    e->param_count = (size_t)word + 1;
  e->params[word] = (uint32_t)x;
  return qs_bitcast(e->k, QN_I32, qn_kb_param(e->b, word));
}

static pair pair_of(qn_emit *e, const sorter *w, qn_ix piece, qn_sval run) {
  int64_t length = w->t->dims[w->a->dimension];
  qn_sink *k = e->k;
  qn_sval end = qn_emit_i32(e, length), twice = qs_add(k, run, run);
  pair p = {.last = qn_emit_i32(e, length - 1)};
  p.piece = qn_ix_value(e, qn_ix_mul_const(e, piece, w->width));
  p.begin = qs_and(k, p.piece, qs_neg(k, twice));
  p.diagonal = qs_sub(k, p.piece, p.begin);
  p.middle = lesser(e, qs_add(k, p.begin, run), end);
  p.left = qs_sub(k, p.middle, p.begin);
  p.right = qs_sub(k, lesser(e, qs_add(k, p.begin, twice), end), p.middle);
  return p;
}

static qn_ix held(qn_emit *e, const pair *p, qn_sval place) {
  return qn_ix_vector(e, greater(e, qn_emit_i32(e, 0), lesser(e, place, p->last)));
}

/* How many of the first `diagonal` elements of the merged pair come from the left stretch. */
static qn_sval search(qn_emit *e, sorter *w, const pair *p, qn_sval steps) {
  qn_sink *k = e->k;
  qn_sval one = qn_emit_i32(e, 1), a[SORT_ARRAYS], b[SORT_ARRAYS];
  qn_sval lo = qn_kb_var(e->b, greater(e, qn_emit_i32(e, 0), qs_sub(k, p->diagonal, p->right)));
  qn_sval hi = qn_kb_var(e->b, lesser(e, p->diagonal, p->left));
  size_t mark = qn_emit_memo_mark(e);
  (void)qn_kb_loop(e->b, qn_emit_i32(e, 0), steps, 1, true);
  qn_sval from = qn_kb_get(e->b, lo), to = qn_kb_get(e->b, hi);
  qn_sval mid = qs_shr(k, qs_add(k, from, to), one), open = qs_lt(k, from, to);
  qn_sval beside = qs_sub(k, qs_sub(k, p->diagonal, one), mid);
  read_at(e, w, held(e, p, qs_add(k, p->begin, mid)), (qn_sval){0}, a);
  read_at(e, w, held(e, p, qs_add(k, p->middle, beside)), (qn_sval){0}, b);
  qn_sval over = overtakes(e, w, b, a);
  qn_kb_set(e->b, hi, qs_select(k, qs_and(k, open, over), mid, to));
  qn_kb_set(e->b, lo, qs_select(k, qs_and(k, open, qs_not(k, over)), qs_add(k, mid, one), from));
  qn_emit_close(e, mark);
  return qn_kb_get(e->b, lo);
}

/* Writes one piece: the front elements of both stretches are at hand, the one that goes is replaced by its successor. */
static void merge_piece(qn_emit *e, sorter *w, const pair *p, qn_sval from_left, bool whole, qn_sval exists) {
  qn_sink *k = e->k;
  qn_sval x[SORT_ARRAYS], vars[2][SORT_ARRAYS], a[SORT_ARRAYS], b[SORT_ARRAYS], next[SORT_ARRAYS];
  qn_sval i = qn_kb_var(e->b, from_left), j = qn_kb_var(e->b, qs_sub(k, p->diagonal, from_left));
  qn_sval start[2] = {qs_add(k, p->begin, from_left), qs_add(k, p->middle, qs_sub(k, p->diagonal, from_left))};
  for (int side = 0; side < 2; side++) {
    read_at(e, w, held(e, p, start[side]), (qn_sval){0}, x);
    for (int n = 0; n < w->count; n++)
      vars[side][n] = qn_kb_var(e->b, qn_kb_splat(e->b, x[n], e->lanes));
  }
  size_t mark;
  qn_sval step = qn_emit_loop(e, 0, w->width, 1, &mark);
  qn_sval left = qn_kb_get(e->b, i), right = qn_kb_get(e->b, j);
  for (int n = 0; n < w->count; n++) {
    a[n] = qn_kb_get(e->b, vars[0][n]);
    b[n] = qn_kb_get(e->b, vars[1][n]);
  }
  qn_sval over = qs_and(k, overtakes(e, w, b, a), qs_lt(k, right, p->right));
  over = qs_or(k, over, qs_ge(k, left, p->left));
  for (int n = 0; n < w->count; n++)
    x[n] = qs_select(k, over, b[n], a[n]);
  qn_sval place = qs_add(k, p->piece, step), mask = exists;
  if (!whole)
    mask = qn_emit_and(e, mask, qs_le(k, place, p->last));
  write_at(e, w, qn_ix_vector(e, place), x, mask);
  qn_sval one = qn_emit_i32(e, 1), zero = qn_emit_i32(e, 0);
  left = qs_add(k, left, qs_select(k, over, zero, one));
  right = qs_add(k, right, qs_select(k, over, one, zero));
  qn_sval successor = qs_select(k, over, qs_add(k, p->middle, right), qs_add(k, p->begin, left));
  read_at(e, w, held(e, p, successor), (qn_sval){0}, next);
  qn_kb_set(e->b, i, left);
  qn_kb_set(e->b, j, right);
  for (int n = 0; n < w->count; n++) {
    qn_kb_set(e->b, vars[0][n], qs_select(k, over, a[n], next[n]));
    qn_kb_set(e->b, vars[1][n], qs_select(k, over, next[n], b[n]));
  }
  qn_emit_close(e, mark);
}

static void emit_merge(qn_emit *e, sorter *w) {
  int64_t pieces = rows_of(w) * w->blocks, steps = 1;
  for (int64_t run = w->a->sorted; run > 0; run /= 2)
    steps++;
  qn_sval run = launch_word(e, w->a->sorted), search_steps = launch_word(e, steps);
  emit_slots slots = qn_sort_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  qn_sval base = qs_mul(e->k, slot, qn_emit_i32(e, e->lanes)), exists = {0};
  qn_ix number = qn_ix_lanes(e, base, 1, e->lanes);
  if (pieces % e->lanes) { /* lanes behind the last piece do it once more and store nothing */
    exists = qn_emit_lane_mask(e, base, pieces);
    number = qn_ix_vector(e, lesser(e, qn_ix_value(e, number), qn_emit_i32(e, pieces - 1)));
  }
  qn_ix piece = take_row(e, w, number, w->blocks);
  pair p = pair_of(e, w, piece, run);
  qn_sval from_left = search(e, w, &p, search_steps);
  merge_piece(e, w, &p, from_left, w->t->dims[w->a->dimension] % w->width == 0, exists);
  qn_emit_slots_close(e, &slots);
}

void qn_emit_sort(qn_emit *e) {
  sorter w = sorter_of(e->s, e->part);
  if (w.count > SORT_ARRAYS || w.n->operand_count - w.count > SORT_ARRAYS) {
    qn_emit_fail(e, QN_ERR(QN_UNSUPPORTED, "sort: %d arrays and %d captured values, kernels take %d each", w.count,
                           w.n->operand_count - w.count, SORT_ARRAYS));
    return;
  }
  e->lanes = lanes_of(e->s, &w);
  if (w.a->sorted == 1)
    emit_blocks(e, &w);
  else
    emit_merge(e, &w);
}
