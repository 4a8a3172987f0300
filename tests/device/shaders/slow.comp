#version 450
/* x[i] = a long walk of a linear congruential generator; words: groups, steps. */
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { uint x[]; };
layout(set = 0, binding = 1) readonly buffer P { uint p[]; };
layout(push_constant) uniform K { uint base; };
uint group() { return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z); }
void main() {
  uint g = group();
  if (g >= p[base])
    return;
  uint i = g * 64u + gl_LocalInvocationID.x;
  uint v = i;
  for (uint k = 0u; k < p[base + 1]; k++)
    v = v * 1664525u + 1013904223u;
  x[i] = v;
}
