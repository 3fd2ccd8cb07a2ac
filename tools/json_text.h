/* JSON of texts that need not be UTF-8, as file names are. */
#ifndef NCCL_JOIN_TOOLS_JSON_TEXT_H
#define NCCL_JOIN_TOOLS_JSON_TEXT_H

#include <jansson.h>

/* A new string; what is not UTF-8 becomes U+FFFD. */
json_t *json_of(const char *text);

#endif
