/* NumPy subscripts: slices and whole numbers by slicing, arrays by one gather or scatter over the axes that they name, made one axis. */
#include <string.h>

#include "quern/ops.h"
#include "replay.h"

typedef enum entry_kind { ENTRY_WHOLE, ENTRY_ARRAY, ENTRY_NEW } entry_kind;

typedef struct subscript {
  qn_val x;  /* after slices; whole numbers and arrays are still axes */
  int count; /* entries, one per axis of x or new axis */
  entry_kind kinds[QN_MAX_RANK];
  qn_val arrays[QN_MAX_RANK]; /* of ENTRY_ARRAY */
} subscript;

static int consumed(const cJSON *list) {
  int n = 0;
  const cJSON *e;
  cJSON_ArrayForEach(e, list) n +=
      !(cJSON_IsString(e) && (strcmp(e->valuestring, "newaxis") == 0 || strcmp(e->valuestring, "ellipsis") == 0));
  return n;
}

/* start, stop, step as Python reads them on an axis of n. */
static void read_slice(const cJSON *e, int64_t n, int64_t *start, int64_t *stop, int64_t *step) {
  const cJSON *a = cJSON_GetArrayItem(e, 0), *b = cJSON_GetArrayItem(e, 1), *c = cJSON_GetArrayItem(e, 2);
  *step = cJSON_IsNumber(c) ? c->valueint : 1;
  bool back = *step < 0;
  *start = cJSON_IsNumber(a) ? a->valueint + (a->valueint < 0 ? n : 0) : back ? n - 1 : 0;
  *stop = cJSON_IsNumber(b) ? b->valueint + (b->valueint < 0 ? n : 0) : back ? -1 : n;
  *start = *start > n - back ? n - back : *start;
  *stop = *stop > n ? n : *stop;
}

static qn_val slice_axis(qn_val x, int64_t axis, const cJSON *e) {
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK], stride[QN_MAX_RANK], from, to, step,
          n = qn_val_type(x)->dims[axis];
  memcpy(limit, qn_val_type(x)->dims, sizeof limit);
  for (int i = 0; i < QN_MAX_RANK; i++)
    stride[i] = 1;
  read_slice(e, n, &from, &to, &step);
  if (step < 0) {
    x = qn_reverse(x, 1, &axis);
    from = n - 1 - from;
    to = n - 1 - to;
    step = -step;
  }
  start[axis] = from;
  limit[axis] = to > from ? to : from;
  stride[axis] = step;
  return qn_slice(x, start, limit, stride);
}

static void push(subscript *s, entry_kind kind, qn_val array) {
  if (s->count == QN_MAX_RANK)
    return;
  s->kinds[s->count] = kind;
  s->arrays[s->count++] = array;
}

/* Reads `index`; slices are applied, or become arrays where an update needs their place. */
static subscript read_subscript(replay_build *b, const qn_val *arrays, bool keep_slices) {
  const cJSON *list = qn_replay_get(b->attrs, "index"), *e;
  subscript s = {.x = b->in[0]};
  int64_t axis = 0;
  int slices = 0;
  cJSON_ArrayForEach(e, list) slices += cJSON_IsArray(e) && keep_slices;
  cJSON_ArrayForEach(e, list) {
    int64_t n = axis < qn_val_type(s.x)->rank ? qn_val_type(s.x)->dims[axis] : 0;
    if (cJSON_IsNumber(e)) {
      push(&s, ENTRY_ARRAY, qn_scalar(b->g, QN_I32, e->valueint));
    } else if (cJSON_IsArray(e) && keep_slices) {
      int64_t from, to, step, dims[QN_MAX_RANK] = {0}, zero = 0;
      read_slice(e, n, &from, &to, &step);
      qn_val run = qn_iota(b->g, qn_type_of(QN_I32, 1, (to - from + step - 1) / step), 0);
      run = qn_add(qn_mul(run, qn_like(run, (double)step)), qn_like(run, (double)from));
      for (int i = 0; i <= slices; i++)
        dims[i] = i ? 1 : qn_val_type(run)->dims[0];
      push(&s, ENTRY_ARRAY, qn_broadcast_in_dim(run, slices + 1, dims, &zero));
      slices--;
    } else if (cJSON_IsArray(e)) {
      s.x = slice_axis(s.x, axis, e);
      push(&s, ENTRY_WHOLE, QN_NULL_VAL);
    } else if (strcmp(e->valuestring, "array") == 0) {
      push(&s, ENTRY_ARRAY, *arrays++);
    } else if (strcmp(e->valuestring, "newaxis") == 0) {
      push(&s, ENTRY_NEW, QN_NULL_VAL);
      continue;
    } else {
      for (int left = qn_val_type(s.x)->rank - consumed(list); left > 0; left--, axis++)
        push(&s, ENTRY_WHOLE, QN_NULL_VAL);
      continue;
    }
    axis++;
  }
  for (; axis < qn_val_type(s.x)->rank; axis++)
    push(&s, ENTRY_WHOLE, QN_NULL_VAL);
  return s;
}

/* x with the arrays' axes first, as one; the number that stands for them; and the permutation that was used. */
typedef struct flattened {
  qn_val x, index;
  int64_t permutation[QN_MAX_RANK];
  qn_type turned;    /* x's type after the permutation */
  int arrays, place; /* axes taken together; the result axis at which they would stand: 0 where they are apart */
} flattened;

static flattened flatten(const subscript *s, bool clip) {
  flattened f = {.x = s->x, .place = -1};
  const qn_type *t = qn_val_type(s->x);
  int n = 0, last = -1, result = 0;
  bool apart = false;
  for (int i = 0, axis = 0; i < s->count; i++) {
    if (s->kinds[i] == ENTRY_ARRAY) {
      qn_val a = s->arrays[i], size = qn_like(a, (double)t->dims[axis]), zero = qn_like(a, 0);
      a = qn_select(qn_lt(a, zero), qn_add(a, size), a);
      a = clip ? qn_clamp(zero, a, qn_sub(size, qn_like(a, 1))) : a;
      f.index = qn_val_ok(f.index) ? qn_add(qn_mul(f.index, size), a) : a;
      f.permutation[n++] = axis;
      f.place = f.place < 0 ? result : f.place;
      apart |= last >= 0 && last != i - 1;
      last = i;
    }
    result += s->kinds[i] != ENTRY_ARRAY;
    axis += s->kinds[i] != ENTRY_NEW;
  }
  f.arrays = n;
  f.place = apart ? 0 : f.place;
  for (int i = 0, axis = 0; i < s->count; i++) {
    if (s->kinds[i] == ENTRY_WHOLE)
      f.permutation[n++] = axis;
    axis += s->kinds[i] != ENTRY_NEW;
  }
  f.x = qn_transpose(s->x, f.permutation);
  f.turned = *qn_val_type(f.x);
  int64_t dims[QN_MAX_RANK] = {1};
  for (int i = 0; i < f.turned.rank; i++)
    dims[i < f.arrays ? 0 : 1 + i - f.arrays] = i < f.arrays ? dims[0] * f.turned.dims[i] : f.turned.dims[i];
  f.x = qn_reshape(f.x, 1 + f.turned.rank - f.arrays, dims);
  return f;
}

static void index_op(replay_build *b) {
  subscript s = read_subscript(b, b->in + 1, false);
  qn_val y = s.x;
  int64_t permutation[QN_MAX_RANK], dims[QN_MAX_RANK];
  int arrays = 0, n = 0, taken = 0, place = 0;
  for (int i = 0; i < s.count; i++)
    arrays += s.kinds[i] == ENTRY_ARRAY;
  if (arrays) {
    flattened f = flatten(&s, true);
    y = qn_take(f.x, f.index, 0);
    taken = qn_val_type(f.index)->rank;
    place = f.place;
  }
  /* y is [taken axes, whole axes]; new axes come in, then the taken ones move to their place. */
  const qn_type *t = qn_val_type(y);
  int whole = taken, axis = 0;
  for (int i = 0; i < taken; i++)
    dims[n++] = t->dims[i];
  for (int i = 0; i < s.count; i++)
    if (s.kinds[i] != ENTRY_ARRAY && n < QN_MAX_RANK)
      dims[n++] = s.kinds[i] == ENTRY_NEW ? 1 : t->dims[whole++];
  for (int i = 0; i < place; i++)
    permutation[axis++] = taken + i;
  for (int i = 0; i < taken; i++)
    permutation[axis++] = i;
  for (int i = taken + place; i < n; i++)
    permutation[axis++] = i;
  b->out[0] = qn_transpose(qn_reshape(y, n, dims), permutation);
}

static void index_update(replay_build *b) {
  subscript s = read_subscript(b, b->in + 2, true);
  flattened f = flatten(&s, strcmp(qn_replay_text(b->attrs, "mode"), "clip") == 0);
  const qn_type *x = qn_val_type(f.x), *index = qn_val_type(f.index);
  int64_t dims[QN_MAX_RANK], back[QN_MAX_RANK];
  qn_attr_scatter d = {
      .inserted_window_dims = {1, {0}}, .scatter_dims_to_operand_dims = {1, {0}}, .index_vector_dim = index->rank};
  int n = 0;
  for (int i = 0; i < index->rank; i++)
    dims[n++] = index->dims[i];
  for (int i = 1; i < x->rank; i++) {
    d.update_window_dims.d[d.update_window_dims.n++] = n;
    dims[n++] = x->dims[i];
  }
  qn_val updates = qn_broadcast_to(b->in[1], n, dims);
  qn_val y = qn_replay_scatter(b, qn_replay_text(b->attrs, "update"), f.x, f.index, updates, &d);
  for (int i = 0; i < f.turned.rank; i++)
    back[f.permutation[i]] = i;
  b->out[0] = qn_transpose(qn_reshape(y, f.turned.rank, f.turned.dims), back);
}

const replay_op qn_replay_subscript[] = {
    {"jnp.index", index_op},
    {"jnp.index_update", index_update},
    {NULL, NULL},
};
