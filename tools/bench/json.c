/* Flat JSON objects (json.h). */
#include "tools/bench/json.h"

#include <stdlib.h>
#include <string.h>

static void skip_space(const char **at) {
  *at += strspn(*at, " \t\r\n");
}

static bool take(const char **at, char c) {
  skip_space(at);
  if (**at != c)
    return false;
  ++*at;
  return true;
}

/* \u is written for control characters only, which tables do not show. */
static bool read_escape(const char **at, char *c) {
  switch (**at) {
  case '"':
  case '\\':
  case '/':
    *c = **at;
    ++*at;
    return true;
  case 'u':
    if (strspn(*at + 1, "0123456789abcdefABCDEF") < 4)
      return false;
    *at += 5;
    *c = ' ';
    return true;
  default:
    return false;
  }
}

static bool read_text(const char **at, char text[JSON_TEXT_MAX]) {
  if (!take(at, '"'))
    return false;
  size_t size = 0;
  while (**at != '"') {
    if (size + 1 == JSON_TEXT_MAX || (unsigned char)**at < ' ')
      return false;
    char c = *(*at)++;
    if (c == '\\' && !read_escape(at, &c))
      return false;
    text[size++] = c;
  }
  text[size] = '\0';
  ++*at;
  return true;
}

static bool read_number(const char **at, char text[JSON_TEXT_MAX]) {
  skip_space(at);
  size_t size = strspn(*at, "+-.0123456789eE");
  if (size == 0 || size >= JSON_TEXT_MAX)
    return false;
  memcpy(text, *at, size);
  text[size] = '\0';
  char *end;
  strtod(text, &end);
  if (*end != '\0')
    return false;
  *at += size;
  return true;
}

bool json_read(const char **at, struct json_object *object) {
  object->nfields = 0;
  if (!take(at, '{'))
    return false;
  if (take(at, '}'))
    return true;
  do {
    if (object->nfields == JSON_FIELDS_MAX)
      return false;
    struct json_field *field = &object->fields[object->nfields++];
    if (!read_text(at, field->name) || !take(at, ':'))
      return false;
    skip_space(at);
    field->is_number = **at != '"';
    if (!(field->is_number ? read_number(at, field->text) : read_text(at, field->text)))
      return false;
  } while (take(at, ','));
  return take(at, '}');
}

static const struct json_field *find(const struct json_object *object, const char *name) {
  for (unsigned i = 0; i < object->nfields; i++)
    if (strcmp(object->fields[i].name, name) == 0)
      return &object->fields[i];
  return NULL;
}

const char *json_text(const struct json_object *object, const char *name) {
  const struct json_field *field = find(object, name);
  return field == NULL ? NULL : field->text;
}

bool json_number(const struct json_object *object, const char *name, double *value) {
  const struct json_field *field = find(object, name);
  if (field == NULL || !field->is_number)
    return false;
  *value = strtod(field->text, NULL);
  return true;
}

void json_add(struct json_object *object, const char *name, const char *text) {
  if (object->nfields == JSON_FIELDS_MAX)
    return;
  struct json_field *field = &object->fields[object->nfields++];
  snprintf(field->name, sizeof field->name, "%s", name);
  snprintf(field->text, sizeof field->text, "%s", text);
  field->is_number = false;
}

static void write_text(FILE *file, const char *text) {
  putc('"', file);
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\')
      putc('\\', file);
    putc((unsigned char)*text < ' ' ? ' ' : *text, file);
  }
  putc('"', file);
}

void json_write(FILE *file, const struct json_object *object) {
  putc('{', file);
  for (unsigned i = 0; i < object->nfields; i++) {
    const struct json_field *field = &object->fields[i];
    if (i > 0)
      fputs(", ", file);
    write_text(file, field->name);
    fputs(": ", file);
    if (field->is_number)
      fputs(field->text, file);
    else
      write_text(file, field->text);
  }
  putc('}', file);
}
