#version 450
/* y[g] = the sum of group g's 64 values of x, through local memory; words: groups. */
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { uint x[]; };
layout(set = 0, binding = 1) buffer Y { uint y[]; };
layout(set = 0, binding = 2) readonly buffer P { uint p[]; };
layout(push_constant) uniform K { uint base; };
shared uint part[64];
uint group() { return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z); }
void main() {
  uint g = group();
  uint l = gl_LocalInvocationID.x;
  if (g >= p[base])
    return;
  part[l] = x[g * 64u + l];
  barrier();
  for (uint s = 32u; s > 0u; s >>= 1u) {
    if (l < s)
      part[l] += part[l + s];
    barrier();
  }
  if (l == 0u)
    y[g] = part[0];
}
