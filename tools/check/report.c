/* Writing the answer down (report.h). */
#include "tools/check/report.h"

#include <stdint.h>
#include <string.h>

#define FORMAT 1
#define WAYS_SHOWN 4u
#define REMARKS_SHOWN 4u

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
      fprintf(out, "%-12s%s\n%12sto do: %s\n", harmless ? "note" : "in the way", remark->what, "",
              remark->remedy);
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
      fprintf(out, "nccl-join: %s: %s (nccl-join check says more). To do: %s\n", answer->file,
              answer->remarks[i].what, answer->remarks[i].remedy);
      return;
    }
}

/* ---- for programs ---- */

/* Length of the UTF-8 character at the beginning of a text; 0 if there is none (RFC 3629). */
static size_t character_size(const unsigned char *text) {
  static const struct {
    unsigned char mask, head;
    uint32_t least;
  } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    if ((text[0] & forms[i].mask) != forms[i].head)
      continue;
    uint32_t value = (uint32_t)(text[0] & (unsigned char)~forms[i].mask);
    for (size_t j = 1; j <= i; j++) {
      if ((text[j] & 0xc0) != 0x80)
        return 0;
      value = value << 6 | (text[j] & 0x3f);
    }
    return value >= forms[i].least && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff)
               ? i + 1
               : 0;
  }
  return 0;
}

/* File names are bytes; what is not UTF-8 becomes U+FFFD. */
static void json_text(FILE *out, const char *text) {
  fputc('"', out);
  for (size_t size; *text != '\0'; text += size) {
    unsigned char first = (unsigned char)*text;
    size = character_size((const unsigned char *)text);
    if (size == 0) {
      fputs("\\ufffd", out);
      size = 1;
    } else if (first < ' ') {
      fprintf(out, "\\u%04x", first);
    } else {
      if (first == '"' || first == '\\')
        fputc('\\', out);
      fwrite(text, 1, size, out);
    }
  }
  fputc('"', out);
}

static void json_member(FILE *out, const char *name, const char *text) {
  fprintf(out, ",\"%s\":", name);
  json_text(out, text);
}

static void json_begin(FILE *out, const char *program) {
  fprintf(out, "{\"format\":%d", FORMAT);
  json_member(out, "program", program);
}

void report_json(FILE *out, const struct answer *answer) {
  json_begin(out, answer->file);
  fputs(",\"launchers\":[", out);
  for (size_t i = 0; i < answer->launchers.count; i++) {
    fputs(i > 0 ? "," : "", out);
    json_text(out, answer->launchers.items[i]);
  }
  fputc(']', out);
  json_member(out, "seen", seen_names[answer->seen]);
  json_member(out, "reached", reach_names[answer->reach]);
  fputs(",\"ways\":[", out);
  for (size_t i = 0; i < answer->nways; i++) {
    const struct way *way = &answer->ways[i];
    fprintf(out, "%s{\"reached\":\"%s\"", i > 0 ? "," : "", reach_names[way->reach]);
    json_member(out, "seen", seen_names[way->seen]);
    json_member(out, "file", way->object);
    json_member(out, "library", way->library);
    json_member(out, "version", way->version);
    fputc('}', out);
  }
  fputs("],\"remarks\":[", out);
  for (size_t i = 0; i < answer->nremarks; i++) {
    const struct remark *remark = &answer->remarks[i];
    fprintf(out, "%s{\"kind\":\"%s\",\"harmless\":%s", i > 0 ? "," : "", remark->kind,
            remark->harmless ? "true" : "false");
    json_member(out, "what", remark->what);
    json_member(out, "remedy", remark->remedy);
    fputc('}', out);
  }
  fputs("]}\n", out);
}

void report_json_error(FILE *out, const char *program, const char *error) {
  json_begin(out, program);
  json_member(out, "seen", seen_names[SEEN_UNKNOWN]);
  json_member(out, "error", error);
  fputs("}\n", out);
}
