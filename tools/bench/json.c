/* Flat JSON objects (json.h), read and written by Jansson. */
#include "tools/bench/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 15 /* of a double, that all come back */

static bool add_number(struct json_field *field, json_t *value) {
  field->is_number = true;
  if (json_is_integer(value))
    snprintf(field->text, sizeof field->text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else
    snprintf(field->text, sizeof field->text, "%.*g", DIGITS, json_real_value(value));
  return json_is_number(value);
}

static bool add_field(struct json_object *object, const char *name, json_t *value) {
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  if (object->nfields == JSON_FIELDS_MAX || strlen(name) >= JSON_TEXT_MAX ||
      strlen(text) >= JSON_TEXT_MAX)
    return false;
  if (json_is_string(value)) {
    json_add(object, name, text);
    return true;
  }
  struct json_field *field = &object->fields[object->nfields++];
  snprintf(field->name, sizeof field->name, "%s", name);
  return add_number(field, value);
}

bool json_read(const char **at, struct json_object *object) {
  json_error_t error;
  const char *name;
  json_t *value, *all = json_loads(*at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
  bool good = json_is_object(all);
  object->nfields = 0;
  json_object_foreach(all, name, value) good = good && add_field(object, name, value);
  *at += error.position;
  json_decref(all);
  return good;
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

void json_write(FILE *file, const struct json_object *object) {
  json_t *all = json_object();
  for (unsigned i = 0; i < object->nfields; i++) {
    const struct json_field *field = &object->fields[i];
    json_object_set_new(all, field->name,
                        !field->is_number ? json_string(field->text)
                        : strpbrk(field->text, ".eE") != NULL
                            ? json_real(strtod(field->text, NULL))
                            : json_integer(strtoll(field->text, NULL, 10)));
  }
  json_dumpf(all, file, JSON_REAL_PRECISION(DIGITS));
  json_decref(all);
}
