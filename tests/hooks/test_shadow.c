/* Shadows against recording doubles: in which form they are issued, how errors and waits end, and
 * what is left behind. */
#include <criterion/criterion.h>
#include <string.h>

#include "hooks/contribution.h"
#include "hooks/shadow_device.h"
#include "tests/hooks/fixture.h"

TestSuite(shadow, .init = fixture_begin, .fini = fixture_end);

/* ---- before the first shadow ---- */

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

/* ---- form ---- */

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

Test(shadow, what_is_to_be_sent_instead_takes_the_place_of_the_fill) {
  struct device_entry entry;
  CUdeviceptr own;
  (void)device_enter(shadow, &entry);
  cr_assert_eq(double_driver.MemAlloc(&own, 4 * KIB), CUDA_SUCCESS);
  device_leave(shadow, &entry);
  struct member member = {.count = 1000,
                          .root = ROOT_NONE,
                          .kind = MEMBER_ALLGATHER,
                          .datatype = DATATYPE_FLOAT32,
                          .reduction = REDUCTION_NONE};
  struct shadow_member here = {.shadow = shadow,
                               .comm = double_comm(0),
                               .rank = 1,
                               .nranks = 4,
                               .root = -1,
                               .send = (const void *)own};
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason),
               ncclSuccess);
  cr_expect_eq((CUdeviceptr)last_call()->send, own);
  cr_expect_eq(doubles.fills, 0);
  cr_expect_eq(doubles.allocations, 2, "the program's, and where it receives");
  (void)device_enter(shadow, &entry);
  cr_assert_eq(double_driver.MemFree(own), CUDA_SUCCESS);
  device_leave(shadow, &entry);
}

/* ---- PreMulSum ---- */

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

Test(shadow, of_a_split_asks_for_no_communicator_and_needs_no_memory) {
  issue_one((struct member){.root = ROOT_NONE, .kind = MEMBER_SPLIT, .reduction = REDUCTION_NONE});
  cr_expect_str_eq(doubles.log, "nosplit");
  cr_expect_eq(doubles.allocations, 0);
}

/* ---- errors ---- */

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
  char text[32];
  snprintf(text, sizeof text, "datatype %d", DATATYPES);
  cr_expect(strstr(reason, text), "%s", reason);
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

/* ---- non-blocking communicators ---- */

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

/* ---- the end ---- */

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

/* To free memory waits for the device, and what is under way there may wait for a peer that waits
 * for this rank. */
Test(shadow, destroying_frees_no_memory_and_the_next_shadow_of_the_device_takes_it) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(256 * KIB, DATATYPE_FLOAT64, REDUCTION_PROD));
  size_t held = shadow_bytes(shadow);
  doubles.stream_busy = 2;
  doubles.log[0] = '\0';
  shadow_destroy(shadow, &patient);
  cr_expect_str_eq(doubles.log, "query query query");
  cr_expect_eq(doubles.live_bytes, held);
  cr_expect_eq(doubles.streams, 0);
  shadow = shadow_create(&double_driver, 4, reason);
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(doubles.live_bytes, held + 128 * KIB, "another device has memory of its own");
  shadow_destroy(shadow, &patient);
  int allocations = doubles.allocations;
  shadow = shadow_create(&double_driver, 3, reason);
  issue_one(allreduce(256 * KIB, DATATYPE_FLOAT64, REDUCTION_MAX));
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(doubles.allocations, allocations);
  cr_expect(last_call()->uniform && last_call()->first[0] == 0);
  cr_expect_eq(doubles.frees, 0);
}

Test(shadow, what_is_kept_is_freed_when_nothing_is_under_way) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  shadow_destroy(shadow, &patient);
  shadow_free_kept(4);
  cr_expect_eq(doubles.frees, 0, "of another device");
  cr_expect_eq(doubles.retained, 1, "the memory's context is to stay");
  shadow_free_kept(3);
  cr_expect_eq(doubles.frees, 2);
  cr_expect_eq(doubles.live_bytes, 0);
  cr_expect_eq(doubles.retained, 0);
  shadow = NULL;
}

Test(shadow, destroying_without_its_context_keeps_no_memory) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  doubles.push_error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  shadow_destroy(shadow, &patient);
  doubles.push_error = CUDA_SUCCESS;
  doubles.live_bytes = 0; /* gone with the context */
  doubles.streams = 0;
  cr_expect_eq(doubles.retained, 0);
  shadow = shadow_create(&double_driver, 3, reason);
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(doubles.live_bytes, 128 * KIB);
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

/* ---- several devices on one thread ---- */

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

/* ---- the driver ---- */

Test(cuda_driver, an_error_without_a_name_is_a_number) {
  char text[CUDA_ERROR_TEXT];
  cr_expect_str_eq(cuda_driver_error(&double_driver, CUDA_ERROR_OUT_OF_MEMORY, text),
                   "CUDA_ERROR_OUT_OF_MEMORY");
  cr_expect_str_eq(cuda_driver_error(&double_driver, (CUresult)12345, text), "CUDA error 12345");
}
