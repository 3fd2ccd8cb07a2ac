/* Remarks: what stands between nccl-join and a program, whatever way that has to NCCL. */
#ifndef NCCL_JOIN_TOOLS_CHECK_REMARKS_H
#define NCCL_JOIN_TOOLS_CHECK_REMARKS_H

#include "tools/check/answer.h"
#include "tools/check/closure.h"

enum remark_weight { REMARK_HARMLESS, REMARK_DOUBT, REMARK_WRONG };

/* Adds a remark. Copies `remedy`; `kind` stays the caller's. */
void remark(struct answer *answer, const char *kind, enum remark_weight weight, const char *remedy,
            const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Adds what LD_PRELOAD and /etc/ld.so.preload name to the closure, and says what is in the way. */
void remark_preloads(struct answer *answer, struct closure *closure, bool in_front);

/* Auditors of the dynamic linker, of LD_AUDIT and of the program. */
void remark_auditors(struct answer *answer, struct closure *closure);

/* Programs that cannot be preloaded into. The image is the program's, or the interpreter's. */
void remark_program(struct answer *answer, const struct image *program);

/* A program that ends at once with anything preloaded, if ASAN_OPTIONS do not allow it. */
void remark_sanitizer(struct answer *answer, const struct closure *closure);

/* A program that calls NCCL, on a machine without a GPU. */
void remark_driver(struct answer *answer, const struct search *search);

/* ---- ways (ways.c): which of the images call NCCL, and how ---- */

/* Adds a way for each image that has one, with the remarks that it calls for. */
void ways_find(struct answer *answer, struct closure *closure, bool brief);

/* Adds one for a Python file that opens NCCL itself. */
void ways_add_source(struct answer *answer, const struct closure *closure, const char *source);

/* Puts the telling way first and fills reach and seen. */
void ways_judge(struct answer *answer);

#endif
