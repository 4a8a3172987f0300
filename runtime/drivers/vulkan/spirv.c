/* A look at a module before the driver sees it: drivers may crash on what they do not know. The structure has to hold,
 * every capability has to be one that was enabled, and entry point and group size have to be what the caller says. */
#include "vk.h"

#include <string.h>

enum { OP_CAPABILITY = 17, OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, MODE_LOCAL_SIZE = 17, MODEL_COMPUTE = 5 };

typedef struct capability_row {
  uint32_t number;
  const char *name;
  size_t cap; /* offset of a bool in qn_device_caps, or ALWAYS */
} capability_row;

#define ALWAYS SIZE_MAX
#define CAP(field) offsetof(qn_device_caps, field)
static const capability_row capabilities[] = {
    {0, "Matrix", ALWAYS},
    {1, "Shader", ALWAYS},
    {9, "Float16", CAP(f16)},
    {10, "Float64", CAP(f64)},
    {11, "Int64", CAP(i64)},
    {22, "Int16", CAP(i16)},
    {39, "Int8", CAP(i8)},
    {50, "ImageQuery", ALWAYS},
    {4433, "StorageBuffer16BitAccess", CAP(storage16)},
    {4448, "StorageBuffer8BitAccess", CAP(storage8)},
};
#undef CAP

static qn_status check_capability(const vk_device *d, const char *label, uint32_t number) {
  for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++) {
    if (capabilities[i].number != number)
      continue;
    if (capabilities[i].cap == ALWAYS || *(const bool *)((const char *)&d->base.caps + capabilities[i].cap))
      return QN_OK;
    return QN_ERR(QN_COMPILE, "device %s: kernel %s needs %s, which the device lacks", d->base.caps.id, label,
                  capabilities[i].name);
  }
  return QN_ERR(QN_COMPILE, "device %s: kernel %s needs SPIR-V capability %u, which is not enabled", d->base.caps.id,
                label, number);
}

typedef struct module_facts {
  bool entry;
  uint32_t items;
} module_facts;

static qn_status look(const vk_device *d, const char *label, const uint32_t *word, uint32_t length,
                      module_facts *facts) {
  uint32_t op = word[0] & 0xffff;
  if (op == OP_CAPABILITY && length == 2)
    QN_TRY(check_capability(d, label, word[1]));
  else if (op == OP_ENTRY_POINT && length >= 5)
    facts->entry = facts->entry || (word[1] == MODEL_COMPUTE && memcmp(&word[3], "main\0\0\0", 8) == 0);
  else if (op == OP_EXECUTION_MODE && length == 6 && word[2] == MODE_LOCAL_SIZE)
    facts->items = word[3] * word[4] * word[5];
  return QN_OK;
}

qn_status qn_vk_check_module(const vk_device *d, const qn_code_entry *e) {
  const char *label = qn_code_entry_label(e);
  const uint32_t *words = e->spirv;
  size_t count = e->spirv_bytes / 4;
  module_facts facts = {0};
  for (size_t at = 5; at < count;) {
    uint32_t length = words[at] >> 16;
    if (length == 0 || length > count - at)
      return QN_ERR(QN_COMPILE, "device %s: kernel %s: its SPIR-V module is broken at word %zu of %zu", d->base.caps.id,
                    label, at, count);
    QN_TRY(look(d, label, words + at, length, &facts));
    at += length;
  }
  if (!facts.entry)
    return QN_ERR(QN_COMPILE, "device %s: kernel %s: its SPIR-V module has no compute entry point \"main\"",
                  d->base.caps.id, label);
  if (facts.items != e->items)
    return QN_ERR(QN_COMPILE, "device %s: kernel %s: its SPIR-V module has %u items a group, expected %u",
                  d->base.caps.id, label, facts.items, e->items);
  return QN_OK;
}
