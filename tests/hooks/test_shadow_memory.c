/* The memory of shadows against recording doubles: what is in it, how large it is, when it grows
 * and goes. */
#include <criterion/criterion.h>
#include <string.h>

#include "hooks/contribution.h"
#include "hooks/shadow_device.h"
#include "tests/hooks/fixture.h"

TestSuite(shadow_memory, .init = fixture_begin, .fini = fixture_end);

Test(shadow_memory, every_fill_fills_the_whole_send_buffer) {
  static const uint16_t reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                        REDUCTION_MIN, REDUCTION_AVG,  REDUCTION_PREMULSUM};
  for (int datatype = 0; datatype < DATATYPES; datatype++)
    for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++) {
      struct member member = allreduce(20001, (uint8_t)datatype, reductions[r]);
      doubles.ncalls = doubles.operators_made = 0;
      issue_one(member);
      struct fill fill = contribution_fill(&member);
      const struct call *call = last_call();
      cr_expect(call->uniform, "datatype %d reduction %u", datatype, reductions[r]);
      cr_expect_eq(memcmp(call->first, &fill.bits, fill.size), 0, "datatype %d reduction %u",
                   datatype, reductions[r]);
      cr_expect_eq(memcmp(call->last + 8 - fill.size, &fill.bits, fill.size), 0,
                   "datatype %d reduction %u", datatype, reductions[r]);
    }
  cr_expect_leq(shadow->memories[0].nsends, DEVICE_PATTERNS);
}

Test(shadow_memory, buffers_hold_what_each_kind_moves) { /* the doubles check the room */
  for (int kind = MEMBER_ALLREDUCE; kind <= MEMBER_SCATTER; kind++)
    for (int root = 0; root < 4; root++) {
      struct member member = rooted((enum member_kind)kind, 100000, root, REDUCTION_SUM);
      doubles.ncalls = 0;
      issue_one(member);
      fixture_free();
    }
}

Test(shadow_memory, unused_buffers_are_null_only_where_nccl_allows_it) {
  issue_one(rooted(MEMBER_REDUCE, 10, 0, REDUCTION_SUM));
  cr_expect_null(last_call()->recv);
  issue_one(rooted(MEMBER_GATHER, 10, 0, REDUCTION_NONE));
  cr_expect_neq(double_room(last_call()->recv), 0);
  issue_one(rooted(MEMBER_SCATTER, 10, 0, REDUCTION_NONE));
  cr_expect_neq(double_room(last_call()->send), 0);
  issue_one(rooted(MEMBER_BROADCAST, 10, 0, REDUCTION_NONE));
  cr_expect_neq(double_room(last_call()->send), 0);
}

Test(shadow_memory, the_second_unit_allocates_and_fills_nothing) {
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

Test(shadow_memory, members_with_the_same_fill_share_a_send_buffer) {
  struct member members[] = {allreduce(100000, DATATYPE_FLOAT32, REDUCTION_SUM),
                             allreduce(3000, DATATYPE_INT8, REDUCTION_AVG),
                             allreduce(7000, DATATYPE_UINT8, REDUCTION_MAX)};
  issue(members, 3);
  cr_expect_eq(doubles.calls[0].send, doubles.calls[1].send);
  cr_expect_eq(doubles.calls[0].send, doubles.calls[2].send);
}

/* NCCL sends on from receive buffers, and a group's members run side by side. */
Test(shadow_memory, members_of_a_unit_never_share_receive_memory) {
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

Test(shadow_memory, growth_keeps_the_old_buffers_and_does_not_wait) {
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

Test(shadow_memory, out_of_memory_waits_for_the_stream_before_it_gives_anything_back) {
  issue_one(allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(256 * KIB, DATATYPE_FLOAT32, REDUCTION_MAX)); /* 1 MiB of another pattern */
  doubles.memory = 512 * KIB;
  doubles.stream_busy = 3;
  doubles.log[0] = '\0';
  issue_one(allreduce(1280 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_str_eq(doubles.log, "full query query query query free free free alloc full full "
                                "query free alloc allreduce");
  cr_expect_eq(shadow_bytes(shadow), 2560 * KIB);
}

Test(shadow_memory, short_memory_is_used_to_the_last_before_anything_waits) {
  issue_one(allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  doubles.memory = 832 * KIB; /* enough, but not for doubling twice */
  issue_one(allreduce(320 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(doubles.queries, 0);
}

Test(shadow_memory, out_of_memory_names_bytes_device_and_unit_and_issues_nothing) {
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

Test(shadow_memory,
     out_of_memory_behind_a_stuck_stream_ends_at_the_limit_and_keeps_what_is_in_use) {
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

/* The driver waits for all work of the device before it frees memory, without a limit. */
Test(shadow_memory, out_of_memory_on_a_device_that_does_not_pass_ends_at_the_limit) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  doubles.memory = 0;
  atomic_store(&doubles.device_busy, true);
  struct member member = allreduce(256 * KIB, DATATYPE_UINT8, REDUCTION_SUM);
  struct shadow_limit limit = {.until_ns = now_ns() + 5000000};
  cr_expect_eq(issue_within(&member, 1, &limit), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "do not end"), "%s", reason);
  cr_expect_eq(doubles.frees, 0);
  atomic_store(&doubles.device_busy, false);
  doubles.memory = 384 * KIB; /* 512 with what is given back, of which it needs all */
  issue(&member, 1);
  cr_expect_gt(doubles.frees, 0);
}

Test(shadow_memory, what_is_kept_is_taken_first_by_who_needs_least_of_it) {
  issue_one(allreduce(64 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(1024 * KIB, DATATYPE_UINT8, REDUCTION_MIN));
  shadow_destroy(shadow, &patient);
  shadow = shadow_create(&double_driver, 3, reason);
  int allocations = doubles.allocations;
  issue_one(allreduce(32 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(shadow_bytes(shadow), 128 * KIB, "the smallest buffers that do");
  issue_one(allreduce(900 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(doubles.allocations, allocations);
  issue_one(allreduce(2048 * KIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_gt(doubles.allocations, allocations);
}

Test(shadow_memory, a_size_beyond_all_memory_is_an_error_and_not_a_small_buffer) {
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

Test(shadow_memory, a_fill_that_fails_leaves_no_buffer_that_looks_filled) {
  doubles.memset_error = CUDA_ERROR_LAUNCH_FAILED;
  struct member member = allreduce(100, DATATYPE_FLOAT32, REDUCTION_MAX);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "CUDA_ERROR_LAUNCH_FAILED"), "%s", reason);
  cr_expect_eq(doubles.live_bytes, 0);
  doubles.memset_error = CUDA_SUCCESS;
  issue(&member, 1);
  cr_expect(last_call()->uniform);
}

Test(shadow_memory, preparing_ahead_leaves_nothing_to_allocate) {
  struct member member = allreduce(5000, DATATYPE_FLOAT32, REDUCTION_SUM);
  struct shadow_member here = {.shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4};
  cr_assert_eq(shadow_prepare((struct unit){&member, 1}, &here, &patient, reason), ncclSuccess);
  int allocations = doubles.allocations;
  issue(&member, 1);
  cr_expect_eq(doubles.allocations, allocations);
}

Test(shadow_memory, what_the_program_holds_is_sent_in_place_of_the_fill) {
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
  const void *held = (const void *)memory;
  struct shadow_member here = {
      .shadow = shadow, .comm = double_comm(0), .rank = 1, .nranks = 4, .send = held};
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason),
               ncclSuccess);
  cr_expect_eq(last_call()->send, held);
  cr_expect_eq(doubles.fills, 0);
  (void)device_enter(shadow, &entry);
  (void)double_driver.MemFree(memory);
  device_leave(shadow, &entry);
}

static void issue_many(int n) {
  for (int i = 0; i < n; i++) {
    doubles.ncalls = 0;
    doubles.log[0] = '\0';
    issue_one(allreduce(16, ncclFloat32, ncclSum));
  }
}

/* CUDA's launch queues hold about a thousand kernels. */
Test(shadow_memory, so_many_under_way_that_another_might_wait_are_seen) {
  issue_many(383);
  cr_assert_not(shadow_is_full(shadow));
  issue_many(1);
  cr_assert(shadow_is_full(shadow), "384 are under way");
  doubles.events_done = 1;
  cr_assert_not(shadow_is_full(shadow), "the first 128 are done");
  issue_many(129);
  cr_assert(shadow_is_full(shadow), "the second 128 are not, and as many have come since");
  doubles.events_done = -1;
  cr_assert_not(shadow_is_full(shadow));
  issue_many(384);
  cr_assert_not(shadow_is_full(shadow), "they are done as they come");
}

Test(shadow_memory, without_events_nothing_is_counted) {
  doubles.event_error = CUDA_ERROR_OUT_OF_MEMORY;
  issue_many(1024);
  cr_assert_not(shadow_is_full(shadow));
}

/* ---- buffers of the caller's, and for the caller ---- */

static struct shadow_member on_comm(int number, int root) {
  return (struct shadow_member){shadow, double_comm(number), 1, 4, root, NULL, NULL, 0};
}

Test(shadow_memory, a_broadcast_can_go_into_a_buffer_of_the_callers) {
  struct member any = allreduce(100, DATATYPE_FLOAT32, REDUCTION_SUM);
  struct shadow_member mine = on_comm(1, -1); /* device memory, from where does not matter */
  cr_assert_eq(shadow_lend((struct unit){&any, 1}, &mine, &patient, reason), ncclSuccess);
  struct member member = rooted(MEMBER_STATE, 100, 2, REDUCTION_NONE);
  struct shadow_member here = on_comm(0, 2);
  size_t before = shadow_bytes(shadow);
  here.send = here.receive = (void *)mine.send;
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason),
               ncclSuccess, "%s", reason);
  cr_expect_str_eq(last_call()->name, "broadcast");
  cr_expect_eq(last_call()->recv, here.receive);
  cr_expect_eq(last_call()->root, 2);
  cr_expect_eq(shadow_bytes(shadow), before, "nothing of ours is needed for it");
}

Test(shadow_memory, what_is_lent_is_the_members_own_and_neutral) {
  struct member members[] = {allreduce(1000, DATATYPE_FLOAT32, REDUCTION_MAX),
                             allreduce(1000, DATATYPE_FLOAT32, REDUCTION_MAX),
                             rooted(MEMBER_BROADCAST, 10, 0, REDUCTION_NONE)};
  struct unit unit = {members, 3};
  struct shadow_member here[] = {on_comm(0, -1), on_comm(1, -1), on_comm(2, 0)};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++)
      here[i].send = NULL;
    cr_assert_eq(shadow_lend(unit, here, &patient, reason), ncclSuccess, "%s", reason);
    cr_expect_null(here[2].send, "not the root: nothing to send");
    cr_expect_eq(shadow_send_bytes(&members[0], &here[0]), 4000);
    cr_expect_eq(shadow_send_bytes(&members[2], &here[2]), 0);
    uint64_t lowest = contribution_pattern(contribution_fill(&members[0]));
    for (int i = 0; i < 2; i++) {
      cr_expect_geq(double_room(here[i].send), 4000);
      cr_expect_eq(memcmp(here[i].send, &lowest, sizeof lowest), 0, "neutral again each time");
    }
    char *first = (char *)here[0].send, *second = (char *)here[1].send;
    cr_expect(first + 4000 <= second || second + 4000 <= first);
    memset(first, 7, 4000); /* as work on the stream would */
    cr_assert_eq(shadow_issue(&double_nccl, unit, here, &patient, reason), ncclSuccess);
    cr_expect_eq(doubles.calls[doubles.ncalls - 3].first[0], 7);
    cr_expect_eq(memcmp(doubles.calls[doubles.ncalls - 2].first, &lowest, sizeof lowest), 0);
  }
}

Test(shadow_memory, what_cannot_be_lent_is_said) {
  struct member member = allreduce(100000, DATATYPE_FLOAT32, REDUCTION_SUM);
  struct shadow_member here = on_comm(0, -1);
  doubles.memory = 1000;
  cr_expect_eq(shadow_lend((struct unit){&member, 1}, &here, &patient, reason),
               ncclUnhandledCudaError);
  cr_expect(strstr(reason, "cannot allocate") != NULL, "%s", reason);
  cr_expect_null(here.send);
}
