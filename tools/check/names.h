/* Names: a list of texts in the order of their coming, none twice. */
#ifndef NCCL_JOIN_TOOLS_CHECK_NAMES_H
#define NCCL_JOIN_TOOLS_CHECK_NAMES_H

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct names {
  char **items; /* owned */
  size_t count, room;
};

/* Adds a copy; false if it is there already. Ends the process with status 2 and a line on stderr if
 * there is no memory, as all of nccl-join-check does. */
bool names_add(struct names *names, const char *name);

/* The same of the first `length` characters. */
bool names_add_part(struct names *names, const char *text, size_t length);

bool names_has(const struct names *names, const char *name);

void names_free(struct names *names);

/* realloc(3) that does not fail: see names_add. */
void *more_memory(void *memory, size_t size) __attribute__((returns_nonnull));

/* strdup(3) that does not fail. */
char *copy_text(const char *text) __attribute__((returns_nonnull));

/* vasprintf(3) that does not fail; a text of more than 2 * PATH_MAX bytes is cut off. */
char *format_text(const char *format, va_list arguments)
    __attribute__((returns_nonnull, format(printf, 1, 0)));

/* Copies a path; one that is too long for the system is cut off. Returns path. */
char *copy_path(char path[PATH_MAX], const char *text);

#endif
