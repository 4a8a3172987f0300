/* The only file that knows glslang. Its process state is set up once and stays, since a library cannot know when the last user is done. */
#include "quern/spirv.h"

#include <stdlib.h>
#include <string.h>

#ifdef QN_HAVE_GLSLANG
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void initialize(void) { (void)glslang_initialize_process(); }

/* The line of "ERROR: 0:12: ..." in a log; 0 where there is none. */
static unsigned error_line(const char *log) {
  const char *at = strstr(log, "ERROR: ");
  at = at ? strchr(at + 7, ':') : NULL;
  return at ? (unsigned)strtoul(at + 1, NULL, 10) : 0;
}

/* Two lines before to two lines behind, numbered. */
static void excerpt(const char *text, unsigned line, char *out, size_t size) {
  unsigned n = 1;
  size_t used = 0;
  out[0] = 0;
  for (const char *s = text; *s && used + 1 < size; ++n) {
    const char *end = strchr(s, '\n');
    size_t length = end ? (size_t)(end - s) : strlen(s);
    if (line && n + 2 >= line && n <= line + 2) {
      int wrote = snprintf(out + used, size - used, "%s%5u | %.*s\n", n == line ? ">" : " ", n,
                           (int)(length < 160 ? length : 160), s);
      used += wrote < 0 ? 0 : (size_t)wrote;
    }
    s += length + (end ? 1 : 0);
  }
}

static qn_status compile_error(const char *stage, const char *label, const char *log, const char *text) {
  char lines[700];
  excerpt(text, error_line(log ? log : ""), lines, sizeof lines);
  return QN_ERR(QN_COMPILE, "shader %s: %s failed: %.900s\n%s", label, stage, log ? log : "(no log)", lines);
}

static qn_status take_words(glslang_program_t *program, const char *label, qn_bytes *out) {
  glslang_program_SPIRV_generate(program, GLSLANG_STAGE_COMPUTE);
  size_t words = glslang_program_SPIRV_get_size(program);
  const char *messages = glslang_program_SPIRV_get_messages(program);
  if (words == 0)
    return QN_ERR(QN_COMPILE, "shader %s: no SPIR-V came out: %.900s", label, messages ? messages : "(no log)");
  out->size = words * 4;
  out->data = malloc(out->size);
  if (!out->data) {
    out->size = 0;
    return QN_ERR(QN_OUT_OF_MEMORY, "shader %s: %zu words of SPIR-V", label, words);
  }
  glslang_program_SPIRV_get(program, (unsigned int *)(void *)out->data);
  return QN_OK;
}

static qn_status link_and_take(glslang_shader_t *shader, const char *label, const char *text, qn_bytes *out) {
  glslang_program_t *program = glslang_program_create();
  if (!program)
    return QN_ERR(QN_OUT_OF_MEMORY, "shader %s: glslang has no memory", label);
  glslang_program_add_shader(program, shader);
  qn_status st;
  if (!glslang_program_link(program, GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT))
    st = compile_error("linking", label, glslang_program_get_info_log(program), text);
  else
    st = take_words(program, label, out);
  glslang_program_delete(program);
  return st;
}

qn_status qn_glsl_to_spirv(const char *text, const char *label, qn_bytes *out) {
  *out = (qn_bytes){0};
  pthread_once(&once, initialize);
  const glslang_input_t input = {
      .language = GLSLANG_SOURCE_GLSL,
      .stage = GLSLANG_STAGE_COMPUTE,
      .client = GLSLANG_CLIENT_VULKAN,
      .client_version = GLSLANG_TARGET_VULKAN_1_1,
      .target_language = GLSLANG_TARGET_SPV,
      .target_language_version = GLSLANG_TARGET_SPV_1_3,
      .code = text,
      .default_version = 450,
      .default_profile = GLSLANG_NO_PROFILE,
      .messages = (glslang_messages_t)(GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT),
      .resource = glslang_default_resource(),
  };
  glslang_shader_t *shader = glslang_shader_create(&input);
  if (!shader)
    return QN_ERR(QN_OUT_OF_MEMORY, "shader %s: glslang has no memory", label);
  qn_status st;
  if (!glslang_shader_preprocess(shader, &input))
    st = compile_error("preprocessing", label, glslang_shader_get_info_log(shader), text);
  else if (!glslang_shader_parse(shader, &input))
    st = compile_error("parsing", label, glslang_shader_get_info_log(shader), text);
  else
    st = link_and_take(shader, label, text, out);
  glslang_shader_delete(shader);
  return st;
}

#else

qn_status qn_glsl_to_spirv(const char *text, const char *label, qn_bytes *out) {
  (void)text;
  *out = (qn_bytes){0};
  return QN_ERR(QN_UNSUPPORTED, "shader %s: this build has no GLSL compiler (glslang)", label);
}
#endif
