/* Whether a text is JSON (RFC 8259), for tests of programs that write it. Says nothing of what it
 * means. */
#ifndef NCCL_JOIN_TESTS_TOOLS_JSON_SYNTAX_H
#define NCCL_JOIN_TESTS_TOOLS_JSON_SYNTAX_H

#include <stdbool.h>

bool is_json(const char *text);

#endif
