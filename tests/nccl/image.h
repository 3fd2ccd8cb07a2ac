/* The libnccl.so.2 that is loaded: its symbols, the local ones included. Only .symtab of the file
 * has those; every wheel of NCCL keeps it. */
#ifndef TESTS_NCCL_IMAGE_H
#define TESTS_NCCL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the symbols of the library that is loaded with this path. Once. */
bool image_read(const char *path, char *base);

/* Calls visit for each function. */
void image_each_function(void (*visit)(const char *name, char *address, size_t size));

/* The address of a symbol, or NULL; the function or object at an address, or NULL. */
void *image_address(const char *name, size_t *size);
const char *image_name(const void *address);

#endif
