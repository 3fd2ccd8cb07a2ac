/* What every test of shadows against the doubles shares: one shadow on device 3, made before and
 * destroyed after each test, and short ways to issue units on it. In all of them this rank is 1
 * of 4. */
#ifndef TESTS_HOOKS_FIXTURE_H
#define TESTS_HOOKS_FIXTURE_H

#include "hooks/shadow.h"
#include "tests/hooks/doubles.h"

#define KIB ((size_t)1024)

extern struct shadow *shadow;
extern char reason[REASON_SIZE];
extern const struct shadow_limit patient; /* never comes */

uint64_t now_ns(void);

void fixture_begin(void);

/* The device gets all memory back: the shadow is a new one then. */
void fixture_free(void);

/* Also checks that the test has left the thread, NCCL and the device as they were before it. */
void fixture_end(void);

struct member allreduce(uint64_t count, uint8_t datatype, uint16_t reduction);

/* Of float32. */
struct member rooted(enum member_kind kind, uint64_t count, int root, uint16_t reduction);

/* Member i is on communicator i, with the root it names. At most 16 members. */
ncclResult_t issue_within(const struct member *members, uint32_t nmembers,
                          const struct shadow_limit *limit);

/* The same, and the test ends unless it succeeds. */
void issue(const struct member *members, uint32_t nmembers);
void issue_one(struct member member);

const struct call *last_call(void);

#endif
