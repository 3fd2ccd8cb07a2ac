/* Writing the answer down (report.h). */
#include "tools/check/report.h"

#include <string.h>

#include "tools/json_text.h"
#include "tools/terminal.h"

#define FORMAT 1
#define WAYS_SHOWN 4u
#define REMARKS_SHOWN 4u
#define INDENT 12 /* the column of names */

static const char *const seen_names[] = {"yes", "no", "unknown"};
static const char *const reach_names[] = {"linked", "exported", "opened",
                                          "hidden", "none",     "unknown"};
static const char *const reach_texts[] = {
    "linked",
    "linked statically, visible from outside",
    "opened at run time",
    "linked statically, hidden",
    "not at all",
    "unknown",
};
static const char *const seen_texts[] = {
    "yes: nccl-join will see its NCCL calls",
    "no: nccl-join will not see its NCCL calls",
    "cannot tell",
};

/* ---- for people ---- */

static const char *seen_text(const struct answer *answer) {
  return answer->reach == REACH_NONE && answer->seen == SEEN_NO ? "no: it makes no NCCL calls"
                                                                : seen_texts[answer->seen];
}

static void print_library(FILE *out, const struct way *way) {
  const char *version = *way->version != '\0' ? way->version : "of unknown version";
  if (*way->library == '\0')
    fputs("not found", out);
  else if (way->reach == REACH_EXPORTED || way->reach == REACH_HIDDEN)
    fputs(version, out);
  else
    fprintf(out, "%s in %s", version, way->library);
}

static void print_ways(FILE *out, const struct answer *answer) {
  size_t shown = answer->nways < WAYS_SHOWN ? answer->nways : WAYS_SHOWN;
  for (size_t i = 0; i < shown; i++) {
    const struct way *way = &answer->ways[i];
    fprintf(out, "%-12s%s%s\n%12s%s, NCCL ", i == 0 ? "called by" : "", way->object,
            answer->seen == way->seen ? ""
            : way->seen == SEEN_NO    ? " (not seen)"
                                      : "",
            "", reach_texts[way->reach]);
    print_library(out, way);
    fputc('\n', out);
  }
  if (answer->nways > shown)
    fprintf(out, "%12sand %zu more files (see --json)\n", "", answer->nways - shown);
}

static void print_remarks(FILE *out, const struct answer *answer) {
  size_t shown = 0;
  for (int harmless = 0; harmless <= 1; harmless++)
    for (size_t i = 0; i < answer->nremarks && shown < REMARKS_SHOWN; i++) {
      const struct remark *remark = &answer->remarks[i];
      if (remark->harmless != (harmless != 0))
        continue;
      fprintf(out, "%-*s", INDENT, harmless ? "note" : "in the way");
      terminal_print(out, INDENT, INDENT, remark->what);
      fprintf(out, "%*sto do: ", INDENT, "");
      terminal_print(out, INDENT + 7, INDENT, remark->remedy);
      shown++;
    }
  if (answer->nremarks > shown)
    fprintf(out, "%12sand %zu more remarks (see --json)\n", "", answer->nremarks - shown);
}

void report_print(FILE *out, const struct answer *answer) {
  fprintf(out, "%-12s%s\n", "program", answer->file);
  for (size_t i = 0; i < answer->launchers.count; i++)
    fprintf(out, "%s%s%s", i == 0 ? "started by  " : ", ", answer->launchers.items[i],
            i + 1 == answer->launchers.count ? "\n" : "");
  fprintf(out, "%-12s%s\n", "NCCL", reach_texts[answer->reach]);
  fprintf(out, "%-12s%s\n", "seen", seen_text(answer));
  print_ways(out, answer);
  print_remarks(out, answer);
}

void report_warning(FILE *out, const struct answer *answer) {
  for (size_t i = 0; i < answer->nremarks; i++)
    if (answer->remarks[i].is_wrong) {
      fprintf(out, "nccl-join: %s: %s (nccl-join doctor and nccl-join check say more). To do: %s\n",
              answer->file, answer->remarks[i].what, answer->remarks[i].remedy);
      return;
    }
}

/* ---- for programs ---- */

static json_t *json_begin(const char *program) {
  return json_pack("{s:i, s:o}", "format", FORMAT, "program", json_of(program));
}

static json_t *json_launchers(const struct answer *answer) {
  json_t *launchers = json_array();
  for (size_t i = 0; i < answer->launchers.count; i++)
    json_array_append_new(launchers, json_of(answer->launchers.items[i]));
  return launchers;
}

static json_t *json_ways(const struct answer *answer) {
  json_t *ways = json_array();
  for (size_t i = 0; i < answer->nways; i++) {
    const struct way *way = &answer->ways[i];
    json_array_append_new(ways,
                          json_pack("{s:s, s:s, s:o, s:o, s:s}", "reached", reach_names[way->reach],
                                    "seen", seen_names[way->seen], "file", json_of(way->object),
                                    "library", json_of(way->library), "version", way->version));
  }
  return ways;
}

static json_t *json_remarks(const struct answer *answer) {
  json_t *remarks = json_array();
  for (size_t i = 0; i < answer->nremarks; i++) {
    const struct remark *remark = &answer->remarks[i];
    json_array_append_new(remarks,
                          json_pack("{s:s, s:b, s:o, s:o}", "kind", remark->kind, "harmless",
                                    remark->harmless, "what", json_of(remark->what), "remedy",
                                    json_of(remark->remedy)));
  }
  return remarks;
}

void report_json(FILE *out, const struct answer *answer) {
  json_t *object = json_begin(answer->file);
  json_object_set_new(object, "launchers", json_launchers(answer));
  json_object_set_new(object, "seen", json_string(seen_names[answer->seen]));
  json_object_set_new(object, "reached", json_string(reach_names[answer->reach]));
  json_object_set_new(object, "ways", json_ways(answer));
  json_object_set_new(object, "remarks", json_remarks(answer));
  json_print(out, object);
}

void report_json_error(FILE *out, const char *program, const char *error) {
  json_t *object = json_begin(program);
  json_object_set_new(object, "seen", json_string(seen_names[SEEN_UNKNOWN]));
  json_object_set_new(object, "error", json_of(error));
  json_print(out, object);
}
