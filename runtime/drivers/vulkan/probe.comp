#version 450
/* Measures the device as runtime/drivers/vulkan/probe.c says. */
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer P { uint p[]; };
layout(push_constant) uniform K { uint base; };
void main() {
  x[8] = x[0] * x[1];
  x[9] = x[2] + x[2];
  precise float r = fma(x[3], x[3], x[4]);
  x[10] = r;
  precise float q = fma(x[2], x[5], x[6]);
  x[11] = q;
  x[12] = x[7];
  uint n = 1u;
  for (uint i = 0u; i < uint(x[13]); i++)
    n = n * 1664525u + i;
  x[14] = uintBitsToFloat(n & 0x1fffffffu | 0x20000000u);
}
