/* What every test of shadows begins and ends with, and short ways to issue units. */
#include "tests/hooks/fixture.h"

#include <criterion/criterion.h>
#include <time.h>
#include <unistd.h>

#include "hooks/contribution.h"
#include "tests/hooks/doubles.h"

struct shadow *shadow;
char reason[REASON_SIZE];
const struct shadow_limit patient = {.until_ns = UINT64_MAX};

uint64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define TEST_SECONDS 300 /* SIGALRM ends a test that hangs */

void fixture_begin(void) {
  (void)alarm(TEST_SECONDS);
  doubles_reset();
  reason[0] = '\0';
  shadow = shadow_create(&double_driver, 3, reason);
  cr_assert_not_null(shadow, "%s", reason);
}

void fixture_free(void) {
  shadow_destroy(shadow, &patient);
  shadow_free_kept(3);
  cr_expect_eq(doubles.live_bytes, 0, "device memory is left");
  shadow = shadow_create(&double_driver, 3, reason);
  cr_assert_not_null(shadow, "%s", reason);
}

/* Whatever a test did, the thread and the doubles are as before, and nothing is left. */
void fixture_end(void) {
  cr_expect_eq(doubles.contexts, 1, "the caller's context is not current again");
  cr_expect_eq(doubles.stack[0], (CUcontext)0x1000);
  cr_expect_eq(doubles.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  cr_expect_eq(doubles.group_depth, 0, "a group is open");
  cr_expect_eq(doubles.operators, 0, "an operator is left");
  doubles.stream_busy = 0;
  doubles.stream_error = CUDA_SUCCESS;
  doubles.push_error = CUDA_SUCCESS;
  shadow_destroy(shadow, &patient);
  for (int device = 3; device <= 4; device++)
    shadow_free_kept(device);
  cr_expect_eq(doubles.live_bytes, 0, "device memory is left");
  cr_expect_eq(doubles.retained, 0);
  cr_expect_eq(doubles.events, 0, "an event is left");
  cr_expect_eq(doubles.streams, 0);
}

struct member allreduce(uint64_t count, uint8_t datatype, uint16_t reduction) {
  return (struct member){.count = count,
                         .root = ROOT_NONE,
                         .kind = MEMBER_ALLREDUCE,
                         .datatype = datatype,
                         .reduction = reduction};
}

struct member rooted(enum member_kind kind, uint64_t count, int root, uint16_t reduction) {
  return (struct member){.count = count,
                         .root = root,
                         .kind = (uint8_t)kind,
                         .datatype = DATATYPE_FLOAT32,
                         .reduction = reduction};
}

/* This rank is 1 of 4, in communicator i for member i. */
ncclResult_t issue_within(const struct member *members, uint32_t nmembers,
                          const struct shadow_limit *limit) {
  struct shadow_member here[16];
  cr_assert_leq(nmembers, 16);
  for (uint32_t i = 0; i < nmembers; i++)
    here[i] = (struct shadow_member){.shadow = shadow,
                                     .comm = double_comm((int)i),
                                     .rank = 1,
                                     .nranks = 4,
                                     .root = members[i].root};
  return shadow_issue(&double_nccl, (struct unit){members, nmembers}, here, limit, reason);
}

void issue(const struct member *members, uint32_t nmembers) {
  cr_assert_eq(issue_within(members, nmembers, &patient), ncclSuccess, "%s", reason);
}

void issue_one(struct member member) {
  issue(&member, 1);
}

const struct call *last_call(void) {
  return &doubles.calls[doubles.ncalls - 1];
}
