/* What is particular to each kind of part, as a table: its name, how it is cut and emitted, what may be written in place, and its work. */
#include "contract.h"

static double contract_flops(const qn_schedule *s, const sched_part *p) {
  contraction c;
  qn_contraction_of(s->g, qn_graph_node(s->g, p->hero), qn_emit_grid(s->caps).lanes, &c);
  return 2 * (double)qn_type_elements(&p->domain) * (double)c.k_n;
}

/* Comparisons: with all others of a stretch, or one and the search's share. */
static double sort_flops(const qn_schedule *s, const sched_part *p) {
  const qn_attr_runs *a = qn_graph_node(s->g, p->hero)->attr;
  return (double)qn_type_elements(&p->domain) * (a->sorted == 1 ? (double)a->length : 2);
}

static double matrix_flops(const qn_schedule *s, const sched_part *p) {
  (void)s;
  return p->domain.rank ? 2 * (double)qn_type_elements(&p->domain) * (double)p->domain.dims[p->domain.rank - 1] : 0;
}

const part_traits qn_part_kinds[PART_KINDS] = {
    [PART_MAP] = {.name = "map", .in_place = true, .slots = qn_map_slots, .emit = qn_emit_map},
    [PART_ROW] = {.name = "row", .in_place = true, .slots = qn_row_slots, .emit = qn_emit_row},
    [PART_CONTRACT] = {.name = "contract",
                       .one_node = true,
                       .in_place = true,
                       .slots = qn_contract_slots,
                       .emit = qn_emit_contract,
                       .flops = contract_flops},
    [PART_SCATTER] = {.name = "scatter", .one_node = true, .slots = qn_scatter_slots, .emit = qn_emit_scatter},
    [PART_SORT] = {.name = "sort", .one_node = true, .slots = qn_sort_slots, .emit = qn_emit_sort, .flops = sort_flops},
    [PART_MATRIX] =
        {.name = "matrix", .one_node = true, .slots = qn_matrix_slots, .emit = qn_emit_matrix, .flops = matrix_flops},
    [PART_SCAN] = {.name = "scan", .one_node = true, .in_place = true, .slots = qn_scan_slots, .emit = qn_emit_scan},
    [PART_LOOP] = {.name = "loop", .in_place = true},
    [PART_UPDATE] = {.name = "update", .in_place = true, .slots = qn_map_slots, .emit = qn_emit_update},
};
