/* JSON as benchmarks use it: objects of texts and numbers, without objects inside. */
#ifndef NCCL_JOIN_TOOLS_BENCH_JSON_H
#define NCCL_JOIN_TOOLS_BENCH_JSON_H

#include <stdbool.h>
#include <stdio.h>

#define JSON_FIELDS_MAX 16
#define JSON_TEXT_MAX 256

struct json_field {
  char name[JSON_TEXT_MAX];
  char text[JSON_TEXT_MAX]; /* of a number too */
  bool is_number;
};

struct json_object {
  struct json_field fields[JSON_FIELDS_MAX];
  unsigned nfields;
};

/* Reads one object from *at on, and moves *at behind it. False, with *at where it went wrong, if
 * there is no such object, or it has more fields or longer texts than there is room for. */
bool json_read(const char **at, struct json_object *object);

/* Text of a field; NULL if it is missing. */
const char *json_text(const struct json_object *object, const char *name);

/* Value of a field; false if it is missing or no number. */
bool json_number(const struct json_object *object, const char *name, double *value);

/* Adds a text, cut to JSON_TEXT_MAX. Nothing if there are JSON_FIELDS_MAX fields already. */
void json_add(struct json_object *object, const char *name, const char *text);

/* Writes it on one line. */
void json_write(FILE *file, const struct json_object *object);

#endif
