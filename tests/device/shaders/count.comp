#version 450
/* x[g] += 1 by the first item of every group g; words: groups. */
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { uint x[]; };
layout(set = 0, binding = 1) readonly buffer P { uint p[]; };
layout(push_constant) uniform K { uint base; };
uint group() { return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z); }
void main() {
  uint g = group();
  if (g < p[base] && gl_LocalInvocationID.x == 0u)
    x[g] += 1u;
}
