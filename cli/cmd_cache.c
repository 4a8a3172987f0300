/* quern cache: the kernel cache's contents, its check, its end. */
#include <string.h>

#include "command.h"
#include "quern/cache.h"

static void show(qn_cache *c, const qn_cache_stats *s, bool json) {
  char room[2][32];
  if (json) {
    qn_text t = {0};
    qn_text_puts(&t, "{\"path\":");
    qn_text_json_string(&t, qn_cache_path(c));
    qn_text_add(&t, ",\"on\":%s,\"reason\":", qn_cache_is_on(c) ? "true" : "false");
    qn_text_json_string(&t, qn_cache_reason(c));
    qn_text_add(&t, ",\"entries\":%llu,\"bytes\":%llu,\"limit\":%llu,\"kinds\":[", (unsigned long long)s->entries,
                (unsigned long long)s->bytes, (unsigned long long)s->limit);
    for (size_t i = 0; i < s->kind_count; i++) {
      qn_text_puts(&t, i ? ",{\"kind\":" : "{\"kind\":");
      qn_text_json_string(&t, s->kinds[i].kind);
      qn_text_add(&t, ",\"entries\":%llu,\"bytes\":%llu}", (unsigned long long)s->kinds[i].entries,
                  (unsigned long long)s->kinds[i].bytes);
    }
    qn_text_puts(&t, "]}");
    puts(t.buf ? t.buf : "");
    qn_text_free(&t);
    return;
  }
  printf("%s\n", qn_cache_path(c)[0] ? qn_cache_path(c) : "no kernel cache");
  if (!qn_cache_is_on(c))
    printf("off: %s\n", qn_cache_reason(c));
  printf("%-10s %8s %10s\n", "kind", "entries", "size");
  for (size_t i = 0; i < s->kind_count; i++)
    printf("%-10s %8llu %10s\n", s->kinds[i].kind, (unsigned long long)s->kinds[i].entries,
           qn_cli_bytes(s->kinds[i].bytes, room[0], sizeof room[0]));
  printf("%-10s %8llu %10s of %s\n", "total", (unsigned long long)s->entries,
         qn_cli_bytes(s->bytes, room[0], sizeof room[0]), qn_cli_bytes(s->limit, room[1], sizeof room[1]));
}

static int show_cache(qn_cache *c, bool json) {
  qn_cache_stats s;
  qn_status st = qn_cache_get_stats(c, &s);
  if (st != QN_OK)
    return qn_cli_failure(st);
  show(c, &s, json);
  return CLI_OK;
}

static int clear_cache(qn_cache *c, bool json) {
  if (!qn_cache_is_on(c)) {
    qn_text reason = {0};
    qn_text_json_string(&reason, qn_cache_reason(c));
    if (json)
      printf("{\"cleared\":false,\"reason\":%s}\n", reason.buf ? reason.buf : "\"\"");
    else
      printf("nothing was cleared, the cache is off: %s\n", qn_cache_reason(c));
    qn_text_free(&reason);
    return CLI_FAILED;
  }
  qn_status st = qn_cache_clear(c, NULL);
  if (st != QN_OK)
    return qn_cli_failure(st);
  puts(json ? "{\"cleared\":true}" : "cleared");
  return CLI_OK;
}

static int verify_cache(qn_cache *c, bool json) {
  uint64_t checked = 0, bad = 0;
  qn_cache_stats s = {0};
  qn_status st = qn_cache_verify(c, &checked, &bad);
  if (st == QN_OK)
    st = qn_cache_get_stats(c, &s);
  if (st != QN_OK)
    return qn_cli_failure(st);
  bad = s.damaged > bad ? s.damaged : bad; /* a file that was moved aside when it was opened counts, too */
  printf(json ? "{\"checked\":%llu,\"bad\":%llu}\n" : "%llu entries checked, %llu bad ones removed\n",
         (unsigned long long)checked, (unsigned long long)bad);
  return bad ? CLI_FAILED : CLI_OK;
}

static const struct {
  const char *name;
  int (*run)(qn_cache *c, bool json);
} actions[] = {{"show", show_cache}, {"clear", clear_cache}, {"verify", verify_cache}};

static int run(const cli_args *args) {
  const char *name = args->operand_count ? args->operands[0] : "show";
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
    if (strcmp(actions[i].name, name) != 0)
      continue;
    qn_cache *c;
    qn_status st = qn_cache_open(NULL, &c);
    if (st != QN_OK)
      return qn_cli_failure(st);
    int code = actions[i].run(c, qn_cli_flag(args, "json"));
    qn_cache_close(c);
    return code;
  }
  return qn_cli_usage("cache: there is no '%s'; there are: show, clear, verify", name);
}

const cli_command qn_cli_cache = {
    .name = "cache",
    .operands = "[show|clear|verify]",
    .summary = "shows, empties or checks the kernel cache",
    .most_operands = 1,
    .options = {{"json", NULL, CLI_FLAG, 0, "the same as JSON"}},
    .more = "QN_CACHE_DIR names another folder for it, QN_CACHE=off leaves it alone. verify ends with 1 if entries "
            "were damaged.",
    .run = run,
};
