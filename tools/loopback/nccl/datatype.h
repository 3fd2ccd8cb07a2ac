/* NCCL's datatypes: sizes, names, and conversion of the small floating point formats.
 *
 * Conversions to a small format round to nearest, ties to even. Formats: IEEE 754 binary16;
 * bfloat16; OCP 8-bit floating point E4M3 and E5M2 ("OFP8", revision 1.0). As CUDA's default
 * (__NV_SATFINITE) and so NCCL, a value beyond the largest becomes the largest for the 8-bit
 * formats, infinity for the 16-bit ones. NaN becomes the format's positive quiet NaN.
 */
#ifndef LOOPBACK_NCCL_DATATYPE_H
#define LOOPBACK_NCCL_DATATYPE_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one element; 0 for a number that is no datatype. */
size_t datatype_size(ncclDataType_t datatype);

/* "float32"; "unknown" for a number that is no datatype. */
const char *datatype_name(ncclDataType_t datatype);

bool datatype_is_float(ncclDataType_t datatype);
bool datatype_is_valid(ncclDataType_t datatype);

float float16_decode(uint16_t bits);
uint16_t float16_encode(float value);
float bfloat16_decode(uint16_t bits);
uint16_t bfloat16_encode(float value);
float float8e4m3_decode(uint8_t bits);
uint8_t float8e4m3_encode(float value);
float float8e5m2_decode(uint8_t bits);
uint8_t float8e5m2_encode(float value);

#endif
