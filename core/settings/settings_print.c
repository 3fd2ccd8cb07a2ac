/* Settings for people (settings.h): `nccl-join env`, and the table of the README. */
#include "core/settings/settings_private.h"

#include <string.h>

static const char *or_none(const char *value) {
  return *value ? value : "(none)";
}

/* The accepted values in a buffer of the caller's. */
static const char *settings_accepted(const struct setting *setting, char *bytes, size_t size) {
  struct text text = {bytes, size, 0};
  bytes[0] = '\0';
  settings_add_accepted(&text, setting);
  return bytes;
}

struct shown {
  char value[SETTINGS_PATH_SIZE];
  const char *from;
};

static void settings_show(const struct setting *setting, char *const *environment,
                          struct shown *shown) {
  const char *value = settings_value(environment, setting->name);
  struct settings scratch;
  bool is_set = value && *value;
  if (!is_set)
    value = or_none(setting->initial);
  settings_as_line(value, strlen(value), shown->value, sizeof(shown->value));
  shown->from = !is_set                                    ? "default"
                : settings_store(setting, &scratch, value) ? "environment"
                                                           : "WRONG";
}

/* Words, as many in a line as it has room for; further lines are indented. A word that is longer
 * than a line is not broken. */
static void print_words(FILE *out, const char *text, int indent, int width) {
  int column = 0;
  for (const char *word = text; *word != '\0';) {
    int length = (int)strcspn(word, " ");
    bool breaks = column == 0 || column + 1 + length > width;
    if (breaks)
      fprintf(out, "%s%*s", column == 0 ? "" : "\n", indent, "");
    else
      fputc(' ', out);
    fprintf(out, "%.*s", length, word);
    column = (breaks ? indent : column + 1) + length;
    word += length;
    word += strspn(word, " ");
  }
  fputc('\n', out);
}

void settings_print(FILE *out, char *const *environment, int width) {
  struct shown shown;
  fprintf(out, "%-27s  %-11s  %s\n", "SETTING", "FROM", "VALUE");
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    char text[128], more[512];
    settings_show(setting, environment, &shown);
    fprintf(out, "\n%-27s  %-11s  %s\n", setting->name, shown.from, shown.value);
    print_words(out, setting->meaning, 4, width);
    snprintf(more, sizeof(more), "accepted: %s; default: %s",
             settings_accepted(setting, text, sizeof(text)), or_none(setting->initial));
    print_words(out, more, 4, width);
  }
}

void settings_write_set(char *const *environment, char *text, size_t size) {
  struct text out = {text, size, 0};
  text[0] = '\0';
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    const char *value = settings_value(environment, setting->name);
    char shown[SETTINGS_PATH_SIZE];
    if (value != NULL && *value != '\0')
      settings_add(&out, "%s%s=%s", out.used == 0 ? "" : "\n", setting->name,
                   settings_as_line(value, strlen(value), shown, sizeof(shown)));
  }
}

static void print_markdown_words(FILE *out, const struct setting *setting) {
  for (const struct word *word = setting->words; word->name; word++)
    fprintf(out, "%s`%s`", word == setting->words ? "" : ", ", word->name);
  if (setting->type == TYPE_LOSSY)
    fprintf(out, ", or `kind:value,...`");
  if (setting->type == TYPE_FOLDER)
    fprintf(out, ", or a folder with a `/` in it");
}

void settings_print_markdown(FILE *out) {
  fprintf(
      out,
      "| setting | default | accepted | alike on all ranks | meaning |\n|---|---|---|---|---|\n");
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    const char *quote = *setting->initial ? "`" : "";
    fprintf(out, "| `%s` | %s%s%s | ", setting->name, quote, or_none(setting->initial), quote);
    char text[128];
    if (setting->words)
      print_markdown_words(out, setting);
    else
      fputs(settings_accepted(setting, text, sizeof(text)), out);
    fprintf(out, " | %s | %s |\n", setting->scope == OF_ALL_RANKS ? "yes" : "", setting->meaning);
  }
}

/* A minus is one in manual pages only with a backslash. */
static void print_roff(FILE *out, const char *text) {
  for (; *text != '\0'; text++)
    fprintf(out, *text == '-' ? "\\-" : "%c", *text);
}

void settings_print_man(FILE *out) {
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    char text[128];
    fprintf(out, ".TP\n.B %s\n", setting->name);
    print_roff(out, setting->meaning);
    fputs(".\n.br\nDefault: ", out);
    print_roff(out, or_none(setting->initial));
    fputs(". Accepted: ", out);
    print_roff(out, settings_accepted(setting, text, sizeof(text)));
    fprintf(out, ".%s\n", setting->scope == OF_ALL_RANKS ? " Alike on all ranks." : "");
  }
}
