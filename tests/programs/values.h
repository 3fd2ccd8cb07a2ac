/* NCCL's datatypes on the host: names, sizes, and numbers in and out of buffers, one element at a
 * time.
 *
 * Exact for numbers that the datatype can hold; nothing is rounded well. The tests use small
 * integers and their halves.
 */
#ifndef PROGRAMS_VALUES_H
#define PROGRAMS_VALUES_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
#define VALUES_DATATYPES 12 /* with the two of eight bits */
#else
#define VALUES_DATATYPES 10
enum { ncclBfloat16 = 9 }; /* declared for C++ alone */
#endif

const char *datatype_name(ncclDataType_t datatype);
size_t datatype_size(ncclDataType_t datatype);
bool datatype_is_signed(ncclDataType_t datatype);
bool datatype_is_integer(ncclDataType_t datatype);

void value_store(ncclDataType_t datatype, void *buffer, size_t index, double value);
double value_load(ncclDataType_t datatype, const void *buffer, size_t index);

#endif
