/* Arrays by number from npy, npz and safetensors files: inputs in0, in1 .., expected results out0, out1 ..; results to such files; comparison. */
#ifndef QUERN_CLI_ARRAYS_H
#define QUERN_CLI_ARRAYS_H

#include "quern/safetensors.h"
#include "quern/tree.h"

/* One array a wanted type, each owned, row-major and aligned; NULL data where it is not there yet. */
typedef struct cli_arrays {
  qn_safetensor *items; /* names are "in0" .. or "out0" .. */
  void **owned;
  size_t count;
  bool results; /* of a program, not its inputs */
  qn_arena names;
} cli_arrays;

/* Room for arrays of the parameters' types (results: of the results'), without data. */
qn_status qn_cli_arrays_create(const qn_graph *g, bool results, cli_arrays *out);
qn_status qn_cli_arrays_allocate(cli_arrays *a); /* zeroed memory for every array */
void qn_cli_arrays_free(cli_arrays *a);
/* Reads one file. A .npy is the array number *position, which goes on by one; in the others arrays have their names, or arr_0 .. as numpy.savez
 * calls them, complex ones may be two, NAME.re and NAME.im. QN_INVALID: one too many, or of another type. */
qn_status qn_cli_arrays_read(cli_arrays *a, const char *path, size_t *position);
/* QN_INVALID names the first array without data, and its type. */
qn_status qn_cli_arrays_complete(const cli_arrays *a, const char *program);
/* By the ending: .npy (one array), .npz, .safetensors. QN_INVALID on another; `check` only looks at the name. */
qn_status qn_cli_arrays_check_name(const cli_arrays *a, const char *path);
qn_status qn_cli_arrays_write(const cli_arrays *a, const char *path);

/* ---- comparing (compare.c) ---- */
typedef struct cli_difference {
  int64_t differ, elements;
  int64_t worst;                       /* index of the element that is farthest out; -1: none is */
  double most_absolute, most_relative; /* among finite elements */
} cli_difference;
/* abs(got - want) <= atol + rtol * abs(want); NaN equals NaN, infinities must match in sign; bools and integers must be equal. */
cli_difference qn_cli_compare(const qn_type *t, const void *got, const void *want, double rtol, double atol);
/* Elements as text: "1.5", "-3", "true", "(1,-2)". */
void qn_cli_element(const qn_type *t, const void *data, int64_t index, qn_text *out);
void qn_cli_index(const qn_type *t, int64_t index, qn_text *out); /* "[1,2]" */

#endif
