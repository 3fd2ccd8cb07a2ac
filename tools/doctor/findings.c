/* Keeping and writing findings (findings.h). */
#include "tools/doctor/findings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/names.h"
#include "tools/json_text.h"
#include "tools/terminal.h"

#define FORMAT 1
#define INDENT 21 /* of texts: the columns of health and subject */

static const char *const health_names[] = {"ok", "note", "WRONG"};

void finding(struct findings *findings, enum health health, const char *subject, const char *remedy,
             const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *what = format_text(format, arguments);
  va_end(arguments);
  findings->all = more_memory(findings->all, (findings->count + 1) * sizeof(struct finding));
  findings->all[findings->count++] =
      (struct finding){.health = health,
                       .subject = subject,
                       .what = what,
                       .remedy = remedy != NULL ? copy_text(remedy) : NULL};
}

void findings_free(struct findings *findings) {
  for (size_t i = 0; i < findings->count; i++) {
    free(findings->all[i].what);
    free(findings->all[i].remedy);
  }
  free(findings->all);
  *findings = (struct findings){0};
}

enum health findings_worst(const struct findings *findings) {
  enum health worst = HEALTH_GOOD;
  for (size_t i = 0; i < findings->count; i++)
    worst = findings->all[i].health > worst ? findings->all[i].health : worst;
  return worst;
}

void findings_print(FILE *out, const struct findings *findings) {
  static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
  bool coloured = terminal_has_colours(out);
  for (size_t i = 0; i < findings->count; i++) {
    const struct finding *one = &findings->all[i];
    fprintf(out, "%s%-5s%s  %-12s  ", coloured ? colours[one->health] : "",
            health_names[one->health], coloured ? "\033[0m" : "", one->subject);
    terminal_print(out, INDENT, INDENT, one->what);
    if (one->remedy == NULL)
      continue;
    fprintf(out, "%*sto do: ", INDENT, "");
    terminal_print(out, INDENT + 7, INDENT, one->remedy);
  }
}

void findings_print_json(FILE *out, const struct findings *findings) {
  json_t *all = json_array();
  for (size_t i = 0; i < findings->count; i++) {
    const struct finding *one = &findings->all[i];
    const char *health = one->health == HEALTH_WRONG ? "wrong" : health_names[one->health];
    json_array_append_new(all, json_pack("{s:s, s:s, s:o, s:o}", "health", health, "subject",
                                         one->subject, "what", json_of(one->what), "remedy",
                                         json_of_optional(one->remedy)));
  }
  json_print(out, json_pack("{s:i, s:b, s:o}", "format", FORMAT, "good",
                            findings_worst(findings) != HEALTH_WRONG, "findings", all));
}
