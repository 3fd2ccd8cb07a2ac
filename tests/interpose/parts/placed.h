/* What placed.c does. */
#ifndef TESTS_INTERPOSE_PARTS_PLACED_H
#define TESTS_INTERPOSE_PARTS_PLACED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place;

#ifdef __cplusplus
extern "C" {
#endif

/* The id of its call. */
uint32_t stand(void);

/* How often that was not where the last call was followed before. */
unsigned long stand_searches(void);

/* Whether stand does nothing but find the id. */
void stand_barely(bool barely);

/* Does not compare with the compiler's unwinder any more, which may not survive what is to come. */
void stand_untraced(void);

void stand_describe(struct place *place);
const char *stand_text(uint32_t id, char *text, size_t size);

/* Before an object is opened. */
void stand_opening(void);

/* Whether the calling thread has Python frames, where there is Python. */
void stand_in_python(bool in);

#ifdef __cplusplus
}
#endif

#endif
