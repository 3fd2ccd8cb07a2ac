/* A list that is searched from its beginning: what is in one is a few hundred names at most. */
#include "tools/check/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *more_memory(void *memory, size_t size) {
  void *more = realloc(memory, size);
  if (more != NULL)
    return more;
  fputs("nccl-join: check: out of memory\n", stderr);
  exit(2);
}

char *copy_text(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(more_memory(NULL, size), text, size);
}

char *format_text(const char *format, va_list arguments) {
  char text[2 * PATH_MAX];
  vsnprintf(text, sizeof text, format, arguments);
  return copy_text(text);
}

char *copy_path(char path[PATH_MAX], const char *text) {
  snprintf(path, PATH_MAX, "%s", text);
  return path;
}

static bool has_part(const struct names *names, const char *text, size_t length) {
  for (size_t i = 0; i < names->count; i++)
    if (strncmp(names->items[i], text, length) == 0 && names->items[i][length] == '\0')
      return true;
  return false;
}

bool names_add_part(struct names *names, const char *text, size_t length) {
  length = strnlen(text, length);
  if (has_part(names, text, length))
    return false;
  if (names->count == names->room) {
    names->room = names->room * 2 + 8;
    names->items = more_memory(names->items, names->room * sizeof(char *));
  }
  char *copy = more_memory(NULL, length + 1);
  memcpy(copy, text, length);
  copy[length] = '\0';
  names->items[names->count++] = copy;
  return true;
}

bool names_add(struct names *names, const char *name) {
  return names_add_part(names, name, strlen(name));
}

bool names_has(const struct names *names, const char *name) {
  return has_part(names, name, strlen(name));
}

void names_free(struct names *names) {
  for (size_t i = 0; i < names->count; i++)
    free(names->items[i]);
  free(names->items);
  *names = (struct names){0};
}
