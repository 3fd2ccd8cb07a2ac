/* JSON that programs of nccl-join write, by Jansson: one value in one line, and texts that need not
 * be UTF-8, as file names are. */
#ifndef NCCL_JOIN_TOOLS_JSON_TEXT_H
#define NCCL_JOIN_TOOLS_JSON_TEXT_H

/* Debian: libjansson-dev */
#include <jansson.h>
#include <stdio.h>

/* A new string, which is the caller's, or a container's that takes it over; what is not UTF-8
 * becomes U+FFFD. */
json_t *json_of(const char *text);

/* The same, or null for NULL. */
json_t *json_of_optional(const char *text);

/* Writes a value and a newline, and drops the value. */
void json_print(FILE *out, json_t *value);

#endif
