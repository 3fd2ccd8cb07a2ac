/* Shadows against recording doubles: what is sent, from which memory, in which form, and what is
 * left behind. */
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hooks/contribution.h"
#include "hooks/shadow_device.h"
#include "tests/hooks/doubles.h"

#define KIB ((size_t)1024)

static struct shadow *shadow;
static char reason[REASON_SIZE];
static const struct shadow_limit patient = {.until_ns = UINT64_MAX};

static uint64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define TEST_SECONDS 20 /* SIGALRM ends a test that hangs */

static void begin(void) {
  (void)alarm(TEST_SECONDS);
  doubles_reset();
  reason[0] = '\0';
  shadow = shadow_create(&double_driver, 3, reason);
  cr_assert_not_null(shadow, "%s", reason);
}

/* Whatever a test did, the thread and the doubles are as before, and nothing is left. */
static void end(void) {
  cr_expect_eq(doubles.contexts, 1, "the caller's context is not current again");
  cr_expect_eq(doubles.stack[0], (CUcontext)0x1000);
  cr_expect_eq(doubles.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  cr_expect_eq(doubles.group_depth, 0, "a group is open");
  cr_expect_eq(doubles.operators, 0, "an operator is left");
  doubles.stream_busy = 0;
  doubles.stream_error = CUDA_SUCCESS;
  doubles.push_error = CUDA_SUCCESS;
  shadow_destroy(shadow, &patient);
  cr_expect_eq(doubles.live_bytes, 0, "device memory is left");
  cr_expect_eq(doubles.retained, 0);
  cr_expect_eq(doubles.streams, 0);
}

TestSuite(shadow, .init = begin, .fini = end);

static struct member allreduce(uint64_t count, uint8_t datatype, uint16_t reduction) {
  return (struct member){.count = count,
                         .root = ROOT_NONE,
                         .kind = MEMBER_ALLREDUCE,
                         .datatype = datatype,
                         .reduction = reduction};
}

static struct member rooted(enum member_kind kind, uint64_t count, int root, uint16_t reduction) {
  return (struct member){.count = count,
                         .root = root,
                         .kind = (uint8_t)kind,
                         .datatype = DATATYPE_FLOAT32,
                         .reduction = reduction};
}

/* This rank is 1 of 4, in communicator i for member i. */
static ncclResult_t issue_within(const struct member *members, uint32_t nmembers,
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

static void issue(const struct member *members, uint32_t nmembers) {
  cr_assert_eq(issue_within(members, nmembers, &patient), ncclSuccess, "%s", reason);
}

static void issue_one(struct member member) {
  issue(&member, 1);
}

static const struct call *last_call(void) {
  return &doubles.calls[doubles.ncalls - 1];
}

/* --- before the first shadow --- */

Test(shadow, makes_a_nonblocking_stream_of_the_highest_priority_and_takes_no_memory) {
  cr_expect_eq(doubles.stream_flags, CU_STREAM_NON_BLOCKING);
  cr_expect_eq(doubles.priority, -5);
  cr_expect_eq(doubles.allocations, 0);
  cr_expect_eq(shadow_bytes(shadow), 0);
  cr_expect_eq(doubles.contexts, 1);
}

Test(shadow, creation_that_fails_holds_nothing_and_says_why) {
  doubles.open_error = CUDA_ERROR_LAUNCH_FAILED;
  int retained = doubles.retained;
  cr_expect_null(shadow_create(&double_driver, 7, reason));
  cr_expect_eq(doubles.retained, retained);
  cr_expect(strstr(reason, "device 7") && strstr(reason, "CUDA_ERROR_LAUNCH_FAILED"), "%s", reason);
}

/* --- form --- */

Test(shadow, a_unit_of_one_is_one_ungrouped_call) {
  issue_one(allreduce(1000, DATATYPE_FLOAT32, REDUCTION_SUM));
  cr_expect_str_eq(doubles.log, "alloc alloc allreduce");
  const struct call *call = last_call();
  cr_expect_eq(call->count, 1000);
  cr_expect_eq(call->datatype, ncclFloat32);
  cr_expect_eq(call->reduction, ncclSum);
  cr_expect_eq(call->comm, double_comm(0));
  cr_expect_eq((CUstream)call->stream, shadow->stream);
  cr_expect_eq(call->context, shadow->context);
}

Test(shadow, a_unit_of_several_is_one_group_in_the_same_order) {
  struct member members[] = {
      allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM),
      rooted(MEMBER_BROADCAST, 20, 0, REDUCTION_NONE),
      rooted(MEMBER_REDUCE, 30, 2, REDUCTION_MAX),
      {.count = 40, .root = ROOT_NONE, .kind = MEMBER_ALLGATHER, .reduction = REDUCTION_NONE},
      {.count = 50, .root = ROOT_NONE, .kind = MEMBER_REDUCESCATTER, .reduction = REDUCTION_SUM},
      {.count = 60, .root = ROOT_NONE, .kind = MEMBER_ALLTOALL, .reduction = REDUCTION_NONE},
      rooted(MEMBER_GATHER, 70, 3, REDUCTION_NONE),
      rooted(MEMBER_SCATTER, 80, 0, REDUCTION_NONE),
  };
  issue(members, 8);
  cr_expect_str_eq(strstr(doubles.log, "start"), "start allreduce broadcast reduce allgather "
                                                 "reducescatter alltoall gather scatter end");
  for (int i = 0; i < 8; i++) {
    cr_expect_eq(doubles.calls[i].count, 10 * (size_t)(i + 1));
    cr_expect_eq(doubles.calls[i].comm, double_comm(i));
    cr_expect(members[i].root < 0 || doubles.calls[i].root == members[i].root);
  }
}

Test(shadow, a_reelected_root_takes_the_place_of_the_members_own) {
  struct member member = rooted(MEMBER_BROADCAST, 64, 1, REDUCTION_NONE);
  struct shadow_member here = {
      .shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4, .root = 2};
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason),
               ncclSuccess);
  cr_expect_eq(last_call()->root, 2);
  cr_expect_eq(doubles.allocations, 1, "a rank that is not the root needs no send buffer");
}

/* --- memory --- */

Test(shadow, every_fill_fills_the_whole_send_buffer) {
  static const uint16_t reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                        REDUCTION_MIN, REDUCTION_AVG,  REDUCTION_PREMULSUM};
  for (uint8_t datatype = 0; datatype < DATATYPES; datatype++)
    for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++) {
      struct member member = allreduce(20001, datatype, reductions[r]);
      doubles.ncalls = doubles.operators_made = 0;
      issue_one(member);
      struct fill fill = contribution_fill(&member);
      const struct call *call = last_call();
      cr_expect(call->uniform, "datatype %u reduction %u", datatype, reductions[r]);
      cr_expect_eq(memcmp(call->first, &fill.bits, fill.size), 0, "datatype %u reduction %u",
                   datatype, reductions[r]);
      cr_expect_eq(memcmp(call->last + 8 - fill.size, &fill.bits, fill.size), 0,
                   "datatype %u reduction %u", datatype, reductions[r]);
    }
  cr_expect_leq(shadow->nsends, DEVICE_PATTERNS);
}

Test(shadow, buffers_hold_what_each_kind_moves) { /* the doubles check the room */
  for (int kind = MEMBER_ALLREDUCE; kind <= MEMBER_SCATTER; kind++)
    for (int root = 0; root < 4; root++) {
      struct member member = rooted((enum member_kind)kind, 100000, root, REDUCTION_SUM);
      doubles.ncalls = 0;
      issue_one(member);
      shadow_release(shadow, &patient, NULL);
    }
}

Test(shadow, unused_buffers_are_null_only_where_nccl_allows_it) {
  issue_one(rooted(MEMBER_REDUCE, 10, 0, REDUCTION_SUM));
  cr_expect_null(last_call()->recv);
  issue_one(rooted(MEMBER_GATHER, 10, 0, REDUCTION_NONE));
  cr_expect_neq(double_room(last_call()->recv), 0);
  issue_one(rooted(MEMBER_SCATTER, 10, 0, REDUCTION_NONE));
  cr_expect_neq(double_room(last_call()->send), 0);
  issue_one(rooted(MEMBER_BROADCAST, 10, 0, REDUCTION_NONE));
  cr_expect_neq(double_room(last_call()->send), 0);
}

Test(shadow, the_second_unit_allocates_and_fills_nothing) {
  struct member members[] = {allreduce(5000, DATATYPE_FLOAT32, REDUCTION_SUM),
                             allreduce(3000, DATATYPE_FLOAT64, REDUCTION_MAX)};
  issue(members, 2);
  int allocations = doubles.allocations;
  int fills = doubles.fills;
  size_t bytes = shadow_bytes(shadow);
  for (int i = 0; i < 10; i++)
    issue(members, 2);
  issue_one(allreduce(10, DATATYPE_INT64, REDUCTION_AVG)); /* zeros again */
  cr_expect_eq(doubles.allocations, allocations);
  cr_expect_eq(doubles.fills, fills);
  cr_expect_eq(shadow_bytes(shadow), bytes);
  cr_expect_eq(doubles.queries, 0, "nothing is waited for");
}

Test(shadow, members_with_the_same_fill_share_a_send_buffer) {
  struct member members[] = {allreduce(100000, DATATYPE_FLOAT32, REDUCTION_SUM),
                             allreduce(3000, DATATYPE_INT8, REDUCTION_AVG),
                             allreduce(7000, DATATYPE_UINT8, REDUCTION_MAX)};
  issue(members, 3);
  cr_expect_eq(doubles.calls[0].send, doubles.calls[1].send);
  cr_expect_eq(doubles.calls[0].send, doubles.calls[2].send);
}

/* NCCL sends on from receive buffers, and a group's members run side by side. */
Test(shadow, members_of_a_unit_never_share_receive_memory) {
  struct member members[] = {allreduce(100 * KIB + 1, DATATYPE_UINT8, REDUCTION_SUM),
                             allreduce(77, DATATYPE_UINT8, REDUCTION_SUM),
                             allreduce(200 * KIB, DATATYPE_UINT8, REDUCTION_SUM)};
  issue(members, 3);
  for (int i = 0; i < 3; i++) {
    const char *start = doubles.calls[i].recv;
    cr_expect_eq((uintptr_t)start % DEVICE_ALIGNMENT, 0);
    for (int j = 0; j < 3; j++) {
      const char *other = doubles.calls[j].recv;
      cr_expect(i == j || start + doubles.calls[i].count <= other ||
                    other + doubles.calls[j].count <= start,
                "members %d and %d", i, j);
    }
  }
}

Test(shadow, growth_keeps_the_old_buffers_and_does_not_wait) {
  doubles.stream_busy = -1;
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(shadow_bytes(shadow), 128 * KIB);
  issue_one(allreduce(65 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(shadow_bytes(shadow), 128 * KIB + 256 * KIB, "doubled, the old ones kept");
  issue_one(allreduce(1024 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(shadow_bytes(shadow), (128 + 256 + 2048) * KIB);
  cr_expect_eq(doubles.frees, 0);
  cr_expect_eq(doubles.queries, 0);
}

Test(shadow, out_of_memory_waits_for_the_stream_before_it_gives_anything_back) {
  issue_one(allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(256 * KIB, DATATYPE_FLOAT32, REDUCTION_MAX)); /* 1 MiB of another pattern */
  doubles.memory = 512 * KIB;
  doubles.stream_busy = 3;
  doubles.log[0] = '\0';
  issue_one(allreduce(1280 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_str_eq(doubles.log, "full query query query query free free free alloc full full "
                                "query free alloc allreduce");
  cr_expect_eq(shadow_bytes(shadow), 2 * 1280 * KIB);
}

Test(shadow, short_memory_is_used_to_the_last_before_anything_waits) {
  issue_one(allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  doubles.memory = (512 + 320) * KIB; /* enough, but not for doubling twice */
  issue_one(allreduce(320 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(doubles.queries, 0);
}

Test(shadow, out_of_memory_names_bytes_device_and_unit_and_issues_nothing) {
  doubles.memory = 100 * KIB;
  struct member member = allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "262144 bytes") && strstr(reason, "device 3") &&
                strstr(reason, "allreduce") && strstr(reason, "CUDA_ERROR_OUT_OF_MEMORY"),
            "%s", reason);
  cr_expect_eq(doubles.ncalls, 0);
  doubles.memory = 1024 * KIB;
  issue(&member, 1);
}

Test(shadow, out_of_memory_behind_a_stuck_stream_ends_at_the_limit_and_keeps_what_is_in_use) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  doubles.memory = 0;
  doubles.stream_busy = -1;
  struct member member = allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM);
  struct shadow_limit limit = {.until_ns = now_ns() + 5000000};
  cr_expect_eq(issue_within(&member, 1, &limit), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "do not end"), "%s", reason);
  cr_expect_eq(doubles.frees, 0);
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
}

Test(shadow, a_size_beyond_all_memory_is_an_error_and_not_a_small_buffer) {
  struct member member = {.count = UINT64_MAX / 2,
                          .root = ROOT_NONE,
                          .kind = MEMBER_ALLGATHER,
                          .datatype = DATATYPE_FLOAT64,
                          .reduction = REDUCTION_NONE};
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  member = allreduce((UINT64_C(1) << 61) + 1, DATATYPE_FLOAT64, REDUCTION_SUM);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect_eq(doubles.ncalls, 0);
}

Test(shadow, a_fill_that_fails_leaves_no_buffer_that_looks_filled) {
  doubles.memset_error = CUDA_ERROR_LAUNCH_FAILED;
  struct member member = allreduce(100, DATATYPE_FLOAT32, REDUCTION_MAX);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "CUDA_ERROR_LAUNCH_FAILED"), "%s", reason);
  cr_expect_eq(doubles.live_bytes, 0);
  doubles.memset_error = CUDA_SUCCESS;
  issue(&member, 1);
  cr_expect(last_call()->uniform);
}

Test(shadow, preparing_ahead_leaves_nothing_to_allocate) {
  struct member member = allreduce(5000, DATATYPE_FLOAT32, REDUCTION_SUM);
  struct shadow_member here = {.shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4};
  cr_assert_eq(shadow_prepare((struct unit){&member, 1}, &here, &patient, reason), ncclSuccess);
  int allocations = doubles.allocations;
  issue(&member, 1);
  cr_expect_eq(doubles.allocations, allocations);
}

Test(shadow, what_the_program_holds_is_sent_in_place_of_the_fill) {
  struct member member = {.count = 1000,
                          .root = ROOT_NONE,
                          .kind = MEMBER_ALLREDUCE,
                          .datatype = DATATYPE_FLOAT32,
                          .reduction = REDUCTION_SUM};
  CUdeviceptr memory;
  struct device_entry entry;
  (void)device_enter(shadow, &entry);
  (void)double_driver.MemAlloc(&memory, 64 * KIB);
  device_leave(shadow, &entry);
  struct shadow_member here = {.shadow = shadow,
                               .comm = double_comm(0),
                               .rank = 1,
                               .nranks = 4,
                               .send = (const void *)memory};
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason),
               ncclSuccess);
  cr_expect_eq(last_call()->send, (const void *)memory);
  cr_expect_eq(doubles.fills, 0);
  (void)device_enter(shadow, &entry);
  (void)double_driver.MemFree(memory);
  device_leave(shadow, &entry);
}

/* --- PreMulSum --- */

Test(shadow, premulsum_makes_an_operator_of_scalar_one_for_each_member_and_destroys_it) {
  struct member members[] = {allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM),
                             allreduce(10, DATATYPE_INT32, REDUCTION_SUM),
                             allreduce(10, DATATYPE_BFLOAT16, REDUCTION_PREMULSUM)};
  issue(members, 3);
  cr_expect_str_eq(strstr(doubles.log, "create"), "create create start allreduce allreduce "
                                                  "allreduce end destroy destroy");
  cr_expect_eq(doubles.scalars[0], 0x3f800000);
  cr_expect_eq(doubles.scalars[1], 0x3f80);
  cr_expect_eq(doubles.calls[0].reduction, 1000);
  cr_expect_eq(doubles.calls[1].reduction, ncclSum);
  cr_expect_eq(doubles.calls[2].reduction, 1001);
}

Test(shadow, an_operator_that_cannot_be_made_issues_nothing_and_destroys_the_others) {
  struct member members[] = {allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM),
                             allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM)};
  doubles.create_fail = 1;
  doubles.create_result = ncclInvalidArgument;
  cr_expect_eq(issue_within(members, 2, &patient), ncclInvalidArgument);
  cr_expect(strstr(reason, "ncclRedOpCreatePreMulSum") && strstr(reason, "ncclInvalidArgument"),
            "%s", reason);
  cr_expect_eq(doubles.ncalls, 0);
  cr_expect_null(strstr(doubles.log, "start"));
}

/* --- errors --- */

Test(shadow, a_call_that_fails_closes_the_group_and_is_named) {
  struct member members[] = {allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM),
                             rooted(MEMBER_BROADCAST, 10, 0, REDUCTION_NONE),
                             allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM)};
  doubles.fail_call = 1;
  doubles.fail_with = ncclInvalidArgument;
  cr_expect_eq(issue_within(members, 3, &patient), ncclInvalidArgument);
  cr_expect_str_eq(strstr(doubles.log, "start"), "start allreduce broadcast end destroy");
  cr_expect(strstr(reason, "ncclBroadcast returned ncclInvalidArgument (4)"), "%s", reason);
}

Test(shadow, a_collective_that_this_nccl_lacks_is_refused_before_anything_happens) {
  struct nccl_calls old = double_nccl;
  old.AlltoAll = NULL;
  struct member members[] = {
      allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM),
      {.count = 60, .root = ROOT_NONE, .kind = MEMBER_ALLTOALL, .reduction = REDUCTION_NONE}};
  struct shadow_member here[2] = {
      {.shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4},
      {.shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4}};
  cr_expect_eq(shadow_issue(&old, (struct unit){members, 2}, here, &patient, reason),
               ncclInvalidUsage);
  cr_expect(strstr(reason, "ncclAlltoAll"), "%s", reason);
  cr_expect_str_eq(doubles.log, "");
}

Test(shadow, what_has_no_neutral_element_is_refused) {
  struct member unknown = allreduce(10, DATATYPES, REDUCTION_SUM);
  cr_expect_eq(issue_within(&unknown, 1, &patient), ncclInvalidUsage);
  cr_expect(strstr(reason, "datatype 12"), "%s", reason);
  cr_expect_eq(issue_within(NULL, 0, &patient), ncclInvalidUsage);
  cr_expect_str_eq(doubles.log, "");
}

Test(shadow, a_context_that_cannot_be_entered_is_an_error_with_a_reason) {
  issue_one(allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM));
  doubles.push_error = CUDA_ERROR_LAUNCH_FAILED;
  struct member member = allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "CUDA_ERROR_LAUNCH_FAILED"), "%s", reason);
}

Test(shadow, no_reason_is_asked_for_and_none_is_written) {
  doubles.memory = 0;
  struct member member = allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM);
  struct shadow_member here = {.shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4};
  cr_expect_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, NULL),
               ncclUnhandledCudaError);
}

/* --- non-blocking communicators --- */

Test(shadow, a_nonblocking_communicator_is_polled_until_it_is_ready) {
  doubles.nonblocking = true;
  doubles.progress_polls = 5;
  issue_one(allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM));
  cr_expect_geq(doubles.polls, 6);
  struct member members[] = {allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM),
                             allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM)};
  doubles.polls = 0;
  issue(members, 2);
  cr_expect_geq(doubles.polls, 2 + 7);
}

Test(shadow, a_communicator_still_in_progress_is_waited_for_before_anything_is_issued) {
  doubles.polls_left = 4;
  issue_one(allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM));
  cr_expect_eq(doubles.polls, 5);
}

Test(shadow, an_asynchronous_error_ends_the_poll) {
  doubles.nonblocking = true;
  doubles.progress_polls = 2;
  doubles.async_error = ncclRemoteError;
  struct member member = allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclRemoteError);
  cr_expect(strstr(reason, "ncclRemoteError"), "%s", reason);
}

Test(shadow, a_poll_ends_at_the_deadline_and_says_whether_the_unit_is_issued) {
  doubles.nonblocking = true;
  doubles.progress_polls = -1;
  struct shadow_limit limit = {.until_ns = now_ns() + 3000000};
  struct member member = allreduce(10, DATATYPE_FLOAT32, REDUCTION_PREMULSUM);
  cr_expect_eq(issue_within(&member, 1, &limit), ncclInProgress);
  cr_expect_geq(now_ns(), limit.until_ns);
  cr_expect(strstr(reason, "is issued"), "%s", reason);
  cr_expect_eq(doubles.ncalls, 1);
  cr_expect_eq(issue_within(&member, 1, &limit), ncclInProgress);
  cr_expect(strstr(reason, "is not issued"), "%s", reason);
  cr_expect_eq(doubles.ncalls, 1);
}

static bool asked_often_enough(void *context) {
  return ++*(int *)context > 3;
}

Test(shadow, a_poll_can_be_broken_off) {
  doubles.nonblocking = true;
  doubles.progress_polls = -1;
  int asked = 0;
  struct shadow_limit limit = {
      .until_ns = UINT64_MAX, .give_up = asked_often_enough, .context = &asked};
  struct member member = allreduce(10, DATATYPE_FLOAT32, REDUCTION_SUM);
  cr_expect_eq(issue_within(&member, 1, &limit), ncclInProgress);
  cr_expect_eq(asked, 4);
}

/* --- the end --- */

Test(shadow, waiting_ends_when_the_stream_has_passed) {
  doubles.stream_busy = 10;
  cr_expect_eq(shadow_wait(shadow, &patient, reason), ncclSuccess);
  cr_expect_eq(doubles.queries, 11);
}

Test(shadow, waiting_ends_at_the_deadline_or_when_broken_off) {
  doubles.stream_busy = -1;
  struct shadow_limit deadline = {.until_ns = now_ns() + 3000000};
  cr_expect_eq(shadow_wait(shadow, &deadline, reason), ncclInProgress);
  cr_expect(strstr(reason, "device 3"), "%s", reason);
  int asked = 0;
  struct shadow_limit broken_off = {
      .until_ns = UINT64_MAX, .give_up = asked_often_enough, .context = &asked};
  cr_expect_eq(shadow_wait(shadow, &broken_off, reason), ncclInProgress);
}

Test(shadow, waiting_reports_an_error_of_the_stream) {
  doubles.stream_error = CUDA_ERROR_LAUNCH_FAILED;
  cr_expect_eq(shadow_wait(shadow, &patient, reason), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "CUDA_ERROR_LAUNCH_FAILED"), "%s", reason);
}

Test(shadow, a_driver_that_has_shut_down_counts_as_done) {
  doubles.push_error = CUDA_ERROR_DEINITIALIZED;
  cr_expect_eq(shadow_wait(shadow, &patient, reason), ncclSuccess);
  doubles.push_error = CUDA_SUCCESS;
  doubles.stream_error = CUDA_ERROR_DEINITIALIZED;
  cr_expect_eq(shadow_wait(shadow, &patient, reason), ncclSuccess);
}

Test(shadow, release_gives_all_memory_back_after_the_stream_and_the_next_shadow_starts_again) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(256 * KIB, DATATYPE_FLOAT64, REDUCTION_PROD));
  doubles.stream_busy = 2;
  doubles.log[0] = '\0';
  cr_expect_eq(shadow_release(shadow, &patient, reason), ncclSuccess);
  cr_expect_eq(strncmp(doubles.log, "query query query free", 22), 0, "%s", doubles.log);
  cr_expect_eq(doubles.live_bytes, 0);
  cr_expect_eq(shadow_bytes(shadow), 0);
  cr_expect_eq(doubles.streams, 1);
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect(last_call()->uniform && last_call()->first[0] == 0);
}

Test(shadow, release_keeps_memory_that_a_stuck_stream_may_still_use) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  doubles.stream_busy = -1;
  struct shadow_limit limit = {.until_ns = now_ns() + 3000000};
  cr_expect_eq(shadow_release(shadow, &limit, reason), ncclInProgress);
  cr_expect_eq(doubles.frees, 0);
  cr_expect_eq(shadow_bytes(shadow), 128 * KIB);
}

Test(shadow, destroying_with_a_stuck_stream_leaves_it_and_its_memory_to_the_driver) {
  struct shadow *other = shadow_create(&double_driver, 4, reason);
  struct shadow *mine = shadow;
  shadow = other;
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  shadow = mine;
  doubles.stream_busy = -1;
  struct shadow_limit limit = {.until_ns = now_ns() + 3000000};
  shadow_destroy(other, &limit);
  cr_expect_eq(doubles.frees, 0);
  cr_expect_eq(doubles.streams, 2);
  cr_expect_eq(doubles.retained, 1);
  cr_expect_eq(doubles.live_bytes, 128 * KIB);
  doubles.live_bytes = 0; /* left on purpose */
  doubles.streams = 1;
}

/* --- several devices on one thread --- */

Test(shadow, members_on_several_devices_are_one_group_each_with_its_own_memory_and_stream) {
  struct shadow *other = shadow_create(&double_driver, 4, reason);
  struct member members[] = {allreduce(1000, DATATYPE_FLOAT32, REDUCTION_SUM),
                             allreduce(1000, DATATYPE_FLOAT32, REDUCTION_SUM)};
  struct shadow_member here[2] = {
      {.shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4},
      {.shadow = other, .comm = double_comm(1), .rank = 2, .nranks = 4}};
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){members, 2}, here, &patient, reason),
               ncclSuccess);
  cr_expect_str_eq(strstr(doubles.log, "start"), "start allreduce allreduce end");
  cr_expect_eq((CUstream)doubles.calls[0].stream, shadow->stream);
  cr_expect_eq((CUstream)doubles.calls[1].stream, other->stream);
  cr_expect_neq(doubles.calls[0].send, doubles.calls[1].send);
  cr_expect_neq(doubles.calls[0].recv, doubles.calls[1].recv);
  shadow_destroy(other, &patient);
}

/* --- the driver --- */

Test(cuda_driver, an_error_without_a_name_is_a_number) {
  char text[CUDA_ERROR_TEXT];
  cr_expect_str_eq(cuda_driver_error(&double_driver, CUDA_ERROR_OUT_OF_MEMORY, text),
                   "CUDA_ERROR_OUT_OF_MEMORY");
  cr_expect_str_eq(cuda_driver_error(&double_driver, (CUresult)12345, text), "CUDA error 12345");
}
