/* GLSL to SPIR-V in process, by glslang. May be called from any thread. */
#ifndef QUERN_SPIRV_H
#define QUERN_SPIRV_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles a compute shader for Vulkan 1.1 (SPIR-V 1.3, entry point "main"). `label` stands in messages. *out: words, malloc'd. QN_COMPILE holds
 * glslang's log and the lines around the first error; QN_UNSUPPORTED in a build without glslang. */
qn_status qn_glsl_to_spirv(const char *text, const char *label, qn_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
