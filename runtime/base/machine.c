/* What a look at the machine's device nodes tells, long before a driver is opened. */
#include "quern/base.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Nodes through which drivers of GPUs and accelerators work: DRM, NVIDIA, ROCm, WSL, ARM Mali, Qualcomm Adreno, PowerVR, Samsung, DRM accel. */
static const char *const nodes[] = {"dri", "nvidia", "kfd", "dxg", "mali", "kgsl", "pvr", "sgpu", "accel"};

bool qn_gpu_nodes_in(const char *dev_folder) {
  DIR *folder = opendir(dev_folder);
  if (!folder)
    return true; /* nothing is known, so nothing is ruled out */
  bool found = false;
  for (struct dirent *e; !found && (e = readdir(folder)) != NULL;)
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
      found = found || strncmp(e->d_name, nodes[i], strlen(nodes[i])) == 0;
  (void)closedir(folder);
  return found;
}

bool qn_gpu_possible(void) {
#ifdef __linux__
  return qn_gpu_nodes_in("/dev");
#else
  return true;
#endif
}
