/* What nccl-join has on a machine that start.c has made of namespaces: processes, files and ports.
 */
#ifndef TESTS_MACHINES_PARTS_REST_H
#define TESTS_MACHINES_PARTS_REST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { REST_BYTES = 512 };

/* Of the calling process's machine, whose process 1 it is: " process 7 (...) file ... port ...", or
 * "". Whether there is anything. */
bool rest_is_left(char rest[REST_BYTES]);

/* Calls a function for each process that can be seen but this one. */
void rest_each_process(void (*what)(pid_t process, void *context), void *context);

/* A file below /proc/PROCESS, ended; "" if it cannot be read. Zeros and newlines become blanks. */
void rest_read(pid_t process, const char *file, char *text, size_t size);

#endif
