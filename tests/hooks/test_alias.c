/* Shadows whose large buffers are one block, seen over and over (hooks/alias.h), against recording
 * doubles. NCCL's doubles read all of a send buffer and overwrite all of a receive buffer. */
#include <criterion/criterion.h>
#include <string.h>

#include "hooks/contribution.h"
#include "hooks/shadow_device.h"
#include "tests/hooks/fixture.h"
#include "tests/hooks/virtual_double.h"

static struct cuda_driver driver;

static void begin(void) {
  fixture_begin();
  driver = double_driver;
  virtual_double_reset(&driver);
  shadow->cuda = &driver;
  shadow_alias(shadow);
}

static void end(void) {
  fixture_end();
  cr_expect_eq(virtual_double.blocks, 0, "physical memory is left");
  cr_expect_eq(virtual_double.reservations, 0, "addresses are left");
  cr_expect_eq(virtual_double.mappings, 0, "a mapping is left");
}

static void free_all(void) {
  fixture_free();
  shadow->cuda = &driver;
  shadow_alias(shadow);
}

TestSuite(alias, .init = begin, .fini = end);

#define MIB (1024 * KIB)

Test(alias, a_unit_of_any_size_needs_two_blocks) {
  static const size_t sizes[] = {3 * MIB, 64 * MIB, 300 * MIB + 4};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    issue_one(allreduce(sizes[i], DATATYPE_UINT8, REDUCTION_MAX));
    cr_expect(last_call()->uniform);
    cr_expect_eq(shadow_bytes(shadow), 2 * ALIAS_BLOCK, "%zu bytes", shadow_bytes(shadow));
    cr_expect_eq(doubles.live_bytes, 2 * ALIAS_BLOCK);
    free_all();
  }
}

Test(alias, every_fill_fills_the_whole_send_buffer) {
  for (int datatype = 0; datatype < DATATYPES; datatype++) {
    static const uint16_t reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                          REDUCTION_MIN};
    for (size_t r = 0; r < sizeof reductions / sizeof *reductions; r++) {
      struct member member = allreduce(5 * MIB, (uint8_t)datatype, reductions[r]);
      struct fill fill = contribution_fill(&member);
      doubles.ncalls = 0;
      issue_one(member);
      cr_expect(last_call()->uniform, "datatype %d reduction %u", datatype, reductions[r]);
      cr_expect_eq(memcmp(last_call()->last + 8 - fill.size, &fill.bits, fill.size), 0);
    }
    free_all();
  }
}

Test(alias, what_is_received_does_not_change_what_is_sent) {
  struct member members[] = {allreduce(5 * MIB, DATATYPE_FLOAT32, REDUCTION_SUM),
                             allreduce(7 * MIB, DATATYPE_FLOAT32, REDUCTION_SUM)};
  for (int i = 0; i < 3; i++) {
    doubles.ncalls = 0;
    issue(members, 2);
    cr_expect(doubles.calls[0].uniform && doubles.calls[1].uniform);
    cr_expect_eq(doubles.calls[1].first[0], 0);
  }
  cr_expect_eq(shadow_bytes(shadow), 2 * ALIAS_BLOCK);
}

Test(alias, small_buffers_are_plain) {
  issue_one(allreduce(MIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect_eq(virtual_double.blocks, 0);
  cr_expect_eq(shadow_bytes(shadow), 2 * MIB);
}

Test(alias, growth_keeps_the_old_blocks_and_does_not_wait) {
  doubles.stream_busy = -1;
  issue_one(allreduce(5 * MIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(50 * MIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect(last_call()->uniform);
  cr_expect_eq(shadow_bytes(shadow), 4 * ALIAS_BLOCK);
  cr_expect_eq(doubles.queries, 0);
}

Test(alias, out_of_memory_gives_blocks_back_once_the_stream_has_passed) {
  doubles.memory = 5 * MIB;
  issue_one(allreduce(3 * MIB, DATATYPE_UINT8, REDUCTION_SUM));
  issue_one(allreduce(9 * MIB, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect(last_call()->uniform);
  cr_expect_gt(doubles.queries, 0);
  cr_expect_eq(doubles.live_bytes, 2 * ALIAS_BLOCK);
}

Test(alias, no_memory_for_a_block_is_an_error) {
  doubles.memory = MIB;
  struct member member = allreduce(9 * MIB, DATATYPE_UINT8, REDUCTION_SUM);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect(strstr(reason, "CUDA_ERROR_OUT_OF_MEMORY"), "%s", reason);
  cr_expect_eq(doubles.live_bytes, 0);
}

Test(alias, a_granularity_beyond_the_block_is_the_block) {
  virtual_double.granularity = 8 * MIB;
  issue_one(allreduce(50 * MIB, DATATYPE_INT64, REDUCTION_MIN));
  cr_expect(last_call()->uniform);
  cr_expect_eq(shadow_bytes(shadow), 16 * MIB);
}

static void expect_plain(size_t bytes) {
  issue_one(allreduce(bytes, DATATYPE_UINT8, REDUCTION_SUM));
  cr_expect(last_call()->uniform);
  cr_expect_geq(shadow_bytes(shadow), 2 * bytes);
  cr_expect_eq(virtual_double.blocks, 0);
  cr_expect_eq(virtual_double.reservations, 0);
}

Test(alias, a_device_that_cannot_map_gets_plain_memory) {
  virtual_double.maps_good = 2;
  virtual_double.map_error = CUDA_ERROR_NOT_SUPPORTED;
  expect_plain(9 * MIB);
  cr_expect_eq(virtual_double.maps_good, 0, "it was tried");
}

Test(alias, a_device_without_addresses_gets_plain_memory) {
  virtual_double.reserve_error = CUDA_ERROR_NOT_SUPPORTED;
  expect_plain(9 * MIB);
}

Test(alias, a_driver_without_virtual_memory_gives_plain_memory) {
  shadow->cuda = &double_driver;
  shadow_alias(shadow);
  expect_plain(9 * MIB);
}

Test(alias, what_is_lent_is_memory_of_its_own) {
  struct member member = allreduce(9 * MIB, DATATYPE_UINT8, REDUCTION_SUM);
  struct shadow_member here = {shadow, double_comm(0), 1, 4, -1, NULL, NULL, 0};
  cr_assert_eq(shadow_lend((struct unit){&member, 1}, &here, &patient, reason), ncclSuccess);
  cr_assert_geq(double_room(here.send), 9 * MIB);
  volatile char *sent = (volatile char *)here.send; /* two addresses may be one byte */
  sent[0] = 7;
  cr_expect_eq(sent[ALIAS_BLOCK], 0);
}

Test(alias, a_fill_that_fails_leaves_no_block) {
  doubles.memset_error = CUDA_ERROR_LAUNCH_FAILED;
  struct member member = allreduce(9 * MIB, DATATYPE_FLOAT32, REDUCTION_MAX);
  cr_expect_eq(issue_within(&member, 1, &patient), ncclUnhandledCudaError);
  cr_expect_eq(virtual_double.blocks, 0);
  doubles.memset_error = CUDA_SUCCESS;
}
