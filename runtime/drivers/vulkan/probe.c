/* Three things that drivers misreport or hide are measured when a device is opened: whether f32 subnormals survive arithmetic, whether
 * fma rounds once, and whether loops run to their end. probe.comp is the kernel, probe_words.h its words. */
#include "vk.h"

#include <string.h>

#include "probe_words.h"

/* In a buffer, so that no compiler folds them on the host. */
static const float inputs[14] = {
    0x1p-100f,          0x1p-40f, /* product 2^-140, subnormal */
    0x1p-140f,                    /* doubled: subnormal */
    1.0f + 0x1p-12f,              /* its square less the next is 2^-24 only when rounded once */
    -(1.0f + 0x1p-11f), 1.0f,     0.0f, 42.0f, [QN_PROBE_ROUNDS_AT] = QN_PROBE_ROUNDS,
};

static qn_status run(vk_device *d, qn_buffer *b, qn_program *p) {
  const uint32_t params[1] = {1};
  qn_cmd cmd = {
      .kind = QN_CMD_LAUNCH, .program = p, .groups = 1, .binding_count = 1, .params = params, .param_count = 1};
  qn_recording_desc desc = {.cmds = &cmd, .cmd_count = 1, .buffers = &b, .buffer_count = 1};
  qn_recording *r = NULL;
  QN_TRY(qn_vk_record(&d->base, &desc, &r));
  r->device = &d->base;
  return qn_vk_run_once(d, r);
}

static qn_status measure(vk_device *d, qn_buffer *b, qn_program *p) {
  float x[16] = {0};
  QN_TRY(qn_vk_buffer_write(b, 0, sizeof inputs, inputs));
  QN_TRY(run(d, b, p));
  QN_TRY(qn_vk_buffer_read(b, 0, sizeof x, x));
  if (x[12] != inputs[7])
    return QN_ERR(QN_UNSUPPORTED, "open %s (%s): a kernel that copies 42 gave %g", d->base.caps.id, d->base.caps.name,
                  (double)x[12]);
  d->base.caps.denormals = x[8] == 0x1p-140f && x[9] == 0x1p-139f && x[11] == 0x1p-140f;
  d->base.caps.fma = x[10] == 0x1p-24f;
  d->base.caps.max_loop_rounds = qn_probe_rounds(&x[14]);
  return QN_OK;
}

qn_status qn_vk_probe(vk_device *d) {
  static const qn_code_entry entry = {.name = "main",
                                      .label = "probe",
                                      .items = 1,
                                      .binding_count = 1,
                                      .param_count = 1,
                                      .spirv = probe_words,
                                      .spirv_bytes = sizeof probe_words};
  static const qn_code code = {.format = QN_CODE_SPIRV, .entries = &entry, .entry_count = 1};
  qn_buffer *b = NULL;
  qn_program *p = NULL;
  bool used;
  QN_TRY(qn_vk_buffer_create(&d->base, &(qn_buffer_desc){.size = 256, .label = "probe"}, &b));
  b->device = &d->base;
  b->size = 256;
  qn_status st = qn_vk_program_create(&d->base, &code, NULL, &used, &p);
  if (st == QN_OK) {
    p->device = &d->base;
    st = measure(d, b, p);
    if (st != QN_TIMEOUT)
      qn_vk_program_destroy(p);
  }
  qn_vk_buffer_destroy(b);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "measure");
}
