/* Arenas: blocks of memory in a chain, freed whole. Blocks double in size up to a limit; a request that is larger than
 * a block gets one of its own. Also the geometric growth of plain arrays. */
#include "quern/base.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct qn_arena_block {
  qn_arena_block *next;
  size_t size, used; /* of the bytes behind this header */
};

#define HEADER_SIZE ((sizeof(qn_arena_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

static unsigned char *block_data(qn_arena_block *b) { return (unsigned char *)b + HEADER_SIZE; }

static qn_arena_block *add_block(qn_arena *a, size_t need) {
  size_t size = FIRST_BLOCK;
  if (a->head && a->head->size < LARGEST_BLOCK)
    size = a->head->size * 2;
  else if (a->head)
    size = LARGEST_BLOCK;
  if (size > LARGEST_BLOCK)
    size = LARGEST_BLOCK;
  bool oversized = need > size;
  if (oversized)
    size = need;
  if (size > SIZE_MAX - HEADER_SIZE)
    return NULL;
  qn_arena_block *b = malloc(HEADER_SIZE + size);
  if (!b)
    return NULL;
  b->size = size;
  b->used = 0;
  /* An oversized block is full at once: it goes behind the head, whose free rest stays in use. */
  if (oversized && a->head) {
    b->next = a->head->next;
    a->head->next = b;
  } else {
    b->next = a->head;
    a->head = b;
  }
  return b;
}

void *qn_arena_alloc(qn_arena *a, size_t size) {
  if (size > SIZE_MAX - ALIGNMENT)
    return NULL;
  size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (rounded == 0)
    rounded = ALIGNMENT;
  qn_arena_block *b = a->head;
  if (!b || b->size - b->used < rounded) {
    b = add_block(a, rounded);
    if (!b)
      return NULL;
  }
  void *p = block_data(b) + b->used;
  b->used += rounded;
  a->used += rounded;
  return memset(p, 0, rounded);
}

void *qn_arena_copy(qn_arena *a, const void *data, size_t size) {
  void *p = qn_arena_alloc(a, size);
  if (p && size)
    memcpy(p, data, size);
  return p;
}

char *qn_arena_strdup(qn_arena *a, const char *s) { return qn_arena_copy(a, s, strlen(s) + 1); }

char *qn_arena_printf(qn_arena *a, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *p = n < 0 ? NULL : qn_arena_alloc(a, (size_t)n + 1);
  if (p)
    (void)vsnprintf(p, (size_t)n + 1, format, again);
  va_end(again);
  return p;
}

void qn_arena_free(qn_arena *a) {
  for (qn_arena_block *b = a->head, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  a->head = NULL;
  a->used = 0;
}

bool qn_array_reserve(void **data, size_t *capacity, size_t need, size_t element_size) {
  if (need <= *capacity)
    return true;
  size_t grown = *capacity < 8 ? 8 : *capacity;
  while (grown < need) {
    if (grown > SIZE_MAX / 2) {
      grown = need;
      break;
    }
    grown *= 2;
  }
  if (element_size && grown > SIZE_MAX / element_size)
    return false;
  /* The caller's pointer has some object type; its bytes are moved, it is never read as a void pointer. */
  void *old;
  memcpy(&old, data, sizeof old);
  void *moved = realloc(old, grown * element_size);
  if (!moved)
    return false;
  memcpy(data, &moved, sizeof moved);
  *capacity = grown;
  return true;
}
