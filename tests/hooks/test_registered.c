/* Shadows beside registered buffers (core/unit/look.h, hooks/registrable.h), against recording
 * doubles. NCCL's doubles read all of a send buffer and overwrite all of a receive buffer. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "core/unit/look.h"
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
}

/* The communicators go with the shadow: what is registered then is NCCL's to clear away. */
static void end(void) {
  fixture_end();
  cr_expect_eq(virtual_double.blocks, 0, "physical memory is left");
  cr_expect_eq(virtual_double.mappings, 0, "a mapping is left");
}

TestSuite(registered, .init = begin, .fini = end);

#define FLOAT32 4
#define COUNT ((size_t)1000)
#define BYTES (COUNT * FLOAT32)
#define PLAIN LOOK_REGISTERED
#define MAPPED (LOOK_REGISTERED | LOOK_MAPPED | 1u << LOOK_HANDLES_SHIFT)

static ncclResult_t issue_looking(struct member member, look_t look, int comm) {
  const struct shadow_member here = {.shadow = shadow,
                                     .comm = double_comm(comm),
                                     .rank = 1,
                                     .nranks = 4,
                                     .root = member.root,
                                     .look = look};
  return shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason);
}

static const struct call *look(struct member member, look_t look) {
  cr_assert_eq(issue_looking(member, look, 0), ncclSuccess, "%s", reason);
  return last_call();
}

/* NCCL must not be able to bind it (registrable.h). */
static void expect_odd_page(const void *registered) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  cr_expect_neq((uintptr_t)registered / page % 2, 0, "%p begins at an even page", registered);
}

Test(registered, both_buffers_are_registered_as_the_peers_are) {
  const unsigned kinds[] = {PLAIN, MAPPED};
  for (int i = 0; i < 2; i++) {
    const struct call *call =
        look(allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_MAX), look_of(kinds[i], kinds[i], false));
    cr_expect(double_is_registered(0, call->send, BYTES));
    cr_expect(double_is_registered(0, call->recv, BYTES));
    cr_expect_neq(call->send, call->recv);
    cr_expect(call->uniform);
    expect_odd_page(call->send);
    expect_odd_page(call->recv);
    cr_expect_eq(virtual_double.mappings, 2 * i);
  }
}

Test(registered, only_the_one_that_is_registered_there) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  const struct call *call = look(member, look_of(0, PLAIN, false));
  cr_expect(!double_is_registered(0, call->send, BYTES));
  cr_expect(double_is_registered(0, call->recv, BYTES));
  call = look(member, look_of(PLAIN, 0, false));
  cr_expect(double_is_registered(0, call->send, BYTES));
  cr_expect(!double_is_registered(0, call->recv, BYTES));
  call = look(member, 0);
  cr_expect(!double_is_registered(0, call->send, BYTES));
  cr_expect(!double_is_registered(0, call->recv, BYTES));
}

/* What is received is written over what is sent, and is not sent the next time. */
Test(registered, in_place_sends_the_neutral_value_each_time) {
  static const uint16_t reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX};
  for (int i = 0; i < 9; i++) {
    struct member member = allreduce(COUNT + (size_t)i, DATATYPE_INT8, reductions[i % 3]);
    uint64_t fill = contribution_fill(&member).bits;
    const struct call *call = look(member, look_of(PLAIN, PLAIN, true));
    cr_expect_eq(call->send, call->recv);
    cr_expect(double_is_registered(0, call->send, COUNT));
    cr_expect(call->uniform);
    cr_expect_eq(call->first[0], (unsigned char)fill);
    cr_expect_eq(call->last[7], (unsigned char)fill);
  }
}

/* Rank 1 of 4. */
Test(registered, in_place_of_each_kind) {
  const look_t in_place = look_of(PLAIN, PLAIN, true);
  const struct call *call = look(rooted(MEMBER_ALLGATHER, COUNT, -1, REDUCTION_NONE), in_place);
  cr_expect_eq((const char *)call->send, (const char *)call->recv + BYTES);
  cr_expect(double_is_registered(0, call->recv, 4 * BYTES));
  call = look(rooted(MEMBER_REDUCESCATTER, COUNT, -1, REDUCTION_SUM), in_place);
  cr_expect_eq((const char *)call->recv, (const char *)call->send + BYTES);
  cr_expect(double_is_registered(0, call->send, 4 * BYTES));
  for (int root = 0; root < 2; root++) {
    call = look(rooted(MEMBER_BROADCAST, COUNT, root, REDUCTION_NONE), in_place);
    cr_expect_eq(call->send, call->recv);
    call = look(rooted(MEMBER_REDUCE, COUNT, root, REDUCTION_SUM), in_place);
    cr_expect_eq(call->send, call->recv);
  }
}

/* Members of a unit never share what they receive into. */
Test(registered, groups_in_place) {
  struct member members[3];
  struct shadow_member here[3];
  for (int i = 0; i < 3; i++) {
    members[i] = allreduce(COUNT, DATATYPE_FLOAT32, i == 1 ? REDUCTION_MAX : REDUCTION_SUM);
    here[i] = (struct shadow_member){.shadow = shadow,
                                     .comm = double_comm(0),
                                     .rank = 1,
                                     .nranks = 4,
                                     .root = -1,
                                     .look = look_of(PLAIN, PLAIN, true)};
  }
  cr_assert_eq(shadow_issue(&double_nccl, (struct unit){members, 3}, here, &patient, reason),
               ncclSuccess, "%s", reason);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < i; j++)
      cr_expect_neq(doubles.calls[i].recv, doubles.calls[j].recv);
  for (int i = 0; i < 3; i++)
    cr_expect(doubles.calls[i].uniform && doubles.calls[i].send == doubles.calls[i].recv);
}

Test(registered, once_with_each_communicator_and_taken_back_when_memory_is_short) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  for (int comm = 0; comm < 6; comm++)
    cr_assert_eq(issue_looking(member, look_of(PLAIN, PLAIN, false), comm % 3), ncclSuccess);
  cr_expect_eq(doubles.registrations_made, 3 * 2);
  shadow_forget(shadow, double_comm(1));
  cr_expect_null(strstr(doubles.log, "deregister"), "the communicator is gone");
  doubles.memory = 0; /* so that it gives back what the next unit does not need */
  member.count *= 1000;
  (void)issue_looking(member, 0, 0);
  cr_expect_eq(doubles.registrations, 2, "%d are left, not those of the one that is gone",
               doubles.registrations);
}

/* What has become too small stays registered until it is freed. */
Test(registered, a_larger_buffer_is_registered_anew) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  (void)look(member, look_of(PLAIN, PLAIN, true));
  member.count *= 1000;
  const struct call *call = look(member, look_of(PLAIN, PLAIN, true));
  cr_expect(double_is_registered(0, call->send, 1000 * BYTES));
  cr_expect_eq(doubles.registrations, 2);
}

Test(registered, what_plug_ins_write_to_is_registered) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  for (int in_place = 0; in_place < 2; in_place++) {
    struct shadow_member here = {.shadow = shadow,
                                 .comm = double_comm(0),
                                 .rank = 1,
                                 .nranks = 4,
                                 .root = -1,
                                 .look = look_of(PLAIN, PLAIN, in_place != 0)};
    cr_assert_eq(shadow_lend((struct unit){&member, 1}, &here, &patient, reason), ncclSuccess);
    const void *lent = here.send;
    cr_assert_eq(shadow_issue(&double_nccl, (struct unit){&member, 1}, &here, &patient, reason),
                 ncclSuccess, "%s", reason);
    cr_expect_eq(last_call()->send, lent);
    cr_expect_eq(last_call()->recv == lent, in_place != 0);
    cr_expect(double_is_registered(0, lent, BYTES));
    cr_expect(double_is_registered(0, last_call()->recv, BYTES));
  }
}

Test(registered, what_cannot_be_registered_is_not_issued) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  doubles.register_result = ncclInternalError;
  cr_expect_eq(issue_looking(member, look_of(PLAIN, PLAIN, false), 0), ncclInternalError);
  cr_expect(strstr(reason, "ncclCommRegister") != NULL, "%s", reason);
  cr_expect_eq(doubles.ncalls, 0);
}

/* Nothing else is sent in the place of the neutral value. */
Test(registered, what_cannot_be_laid_down_is_not_issued) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  doubles.memset_error = CUDA_ERROR_LAUNCH_FAILED;
  cr_expect_eq(issue_looking(member, look_of(PLAIN, PLAIN, true), 0), ncclUnhandledCudaError);
  cr_expect_eq(doubles.ncalls, 0);
  doubles.memset_error = CUDA_SUCCESS;
}

Test(registered, a_driver_without_virtual_memory_says_so) {
  struct member member = allreduce(COUNT, DATATYPE_FLOAT32, REDUCTION_SUM);
  shadow->cuda = &double_driver;
  cr_expect_eq(issue_looking(member, look_of(MAPPED, MAPPED, true), 0), ncclUnhandledCudaError);
  cr_expect(strlen(reason) > 0);
  cr_expect_eq(doubles.ncalls, 0);
}
