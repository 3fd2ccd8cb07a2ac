/* Creating, splitting, shrinking, finalizing, destroying, revoking communicators; nonblocking ones.
 */
#include "tests/loopback/test/nccl_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The sum of value over comm. */
static int sum(struct rank *rank, ncclComm_t comm, int value) {
  int got;
  int *buffer = device_new(&value, sizeof value);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, comm, rank->stream));
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  device_delete(buffer);
  return got;
}

static void split(struct rank *rank) {
  rank_join(rank);
  ncclComm_t half, none = rank->comm, reversed;
  int number, count;
  OK(ncclCommSplit(rank->comm, rank->rank % 2, 0, &half, NULL));
  OK(ncclCommCount(half, &count));
  OK(ncclCommUserRank(half, &number));
  EXPECT(count == (rank->nranks + 1 - rank->rank % 2) / 2 && number == rank->rank / 2);
  EXPECT(sum(rank, half, 1) == count);
  OK(ncclCommSplit(rank->comm, 7, -rank->rank, &reversed, NULL));
  OK(ncclCommUserRank(reversed, &number));
  EXPECT(number == rank->nranks - 1 - rank->rank);
  OK(ncclCommSplit(rank->comm, rank->rank == 0 ? NCCL_SPLIT_NOCOLOR : 3, 0, &none, NULL));
  EXPECT((none == NULL) == (rank->rank == 0));
  if (none != NULL)
    EXPECT(sum(rank, none, 1) == rank->nranks - 1);
  EXPECT(sum(rank, rank->comm, 1) == rank->nranks);
  OK(ncclCommDestroy(half));
  OK(ncclCommDestroy(reversed));
  OK(ncclCommDestroy(none));
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_communicators, split_by_color_and_key) {
  run_both(5, split);
}

static void shrink(struct rank *rank) {
  rank_join(rank);
  int excluded[2] = {3, 1}, count, number;
  EXPECT(sum(rank, rank->comm, 1) == rank->nranks);
  if (rank->rank != 1 && rank->rank != 3) {
    ncclComm_t smaller;
    OK(ncclCommShrink(rank->comm, excluded, 2, &smaller, NULL, NCCL_SHRINK_DEFAULT));
    OK(ncclCommCount(smaller, &count));
    OK(ncclCommUserRank(smaller, &number));
    EXPECT(count == rank->nranks - 2 && number == rank->rank - (rank->rank > 1) - (rank->rank > 3));
    EXPECT(sum(rank, smaller, rank->rank) == 0 + 2 + 4);
    OK(ncclCommDestroy(smaller));
  } else {
    ncclComm_t smaller;
    EXPECT_RESULT(ncclCommShrink(rank->comm, excluded, 2, &smaller, NULL, NCCL_SHRINK_DEFAULT),
                  ncclInvalidArgument);
  }
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_communicators, shrink_to_the_ranks_that_stay) {
  run_both(5, shrink);
}

static void scalable(struct rank *rank) {
  OK(ncclCommInitRankScalable(&rank->comm, rank->nranks, rank->rank, 2, rank->blackboard->ids,
                              NULL));
  EXPECT(sum(rank, rank->comm, 1) == rank->nranks);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_communicators, can_be_made_from_several_ids) {
  run_both(3, scalable);
}

/* Many at once, many in a row; no name is left behind. */
static void many(struct rank *rank) {
  ncclComm_t comms[4];
  for (int i = 0; i < 4; i++)
    OK(ncclCommInitRank(&comms[i], rank->nranks, rank->blackboard->ids[i], rank->rank));
  for (int i = 0; i < 4; i++)
    EXPECT(sum(rank, comms[i], i) == i * rank->nranks);
  for (int i = 0; i < 4; i++)
    OK(ncclCommDestroy(comms[i]));
}

static void no_names_while_in_use(struct rank *rank) {
  rank_join(rank);
  char wanted[64];
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false;
  snprintf(wanted, sizeof wanted, "/dev/shm/loopback-nccl-");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    if (strstr(line, wanted) != NULL) {
      found = true;
      EXPECT(strstr(line, "(deleted)") != NULL);
    }
  EXPECT(found);
  if (maps != NULL)
    fclose(maps);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_communicators, many_at_once) {
  run_both(4, many);
}

Test(nccl_communicators, leave_no_name_in_shared_memory) {
  run_both(3, no_names_while_in_use);
}

static void finalize(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 4);
  EXPECT(sum(rank, rank->comm, 1) == rank->nranks);
  OK(ncclCommFinalize(rank->comm));
  EXPECT_RESULT(ncclCommFinalize(rank->comm), ncclInvalidArgument);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream),
                ncclInvalidUsage);
  EXPECT_RESULT(ncclCommRevoke(rank->comm, 0), ncclInvalidArgument);
  OK(ncclCommDestroy(rank->comm));
  EXPECT_RESULT(ncclCommDestroy(rank->comm), ncclInvalidArgument);
  OK(ncclCommFinalize(NULL));
  OK(ncclCommDestroy(NULL));
}

Test(nccl_communicators, are_finalized_once) {
  run_both(2, finalize);
}

/* Destroy and finalize wait for what is pending. */
static void destroy_waits(struct rank *rank) {
  rank_join(rank);
  int got = 1;
  int *buffer = device_new(&got, sizeof got);
  for (int i = 0; i < 100; i++)
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclMax, rank->comm, rank->stream));
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  if (rank->rank % 2 == 0)
    OK(ncclCommFinalize(rank->comm));
  OK(ncclCommDestroy(rank->comm));
  device_get(buffer, &got, sizeof got);
  EXPECT(got == rank->nranks);
}

Test(nccl_communicators, finish_their_work_before_they_go) {
  run_both(4, destroy_waits);
}

/* Until a nonblocking call is through nothing else may be called. */
static ncclResult_t await(ncclComm_t comm) {
  ncclResult_t state;
  do {
    OK(ncclCommGetAsyncError(comm, &state));
    usleep(1000);
  } while (state == ncclInProgress);
  return state;
}

static void nonblocking(struct rank *rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  int one = 1, got, count;
  int *buffer = device_new(&one, sizeof one);
  if (rank->rank == 0) {
    EXPECT_RESULT(ncclCommInitRankConfig(&rank->comm, rank->nranks, rank->id, 0, &config),
                  ncclInProgress);
    EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream),
                  ncclInvalidArgument);
    EXPECT_RESULT(ncclCommCount(rank->comm, &count), ncclInvalidArgument);
  }
  rank_barrier(rank, 0);
  ncclResult_t result = ncclInProgress;
  if (rank->rank != 0)
    result = ncclCommInitRankConfig(&rank->comm, rank->nranks, rank->id, rank->rank, &config);
  EXPECT(result == ncclInProgress || result == ncclSuccess);
  OK(await(rank->comm));
  OK(ncclCommCount(rank->comm, &count));
  EXPECT(count == rank->nranks);
  result = ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream);
  EXPECT(result == ncclInProgress || result == ncclSuccess);
  OK(await(rank->comm));
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == rank->nranks);
  ncclComm_t child = NULL;
  result = ncclCommSplit(rank->comm, 0, 0, &child, NULL);
  EXPECT(result == ncclInProgress || result == ncclSuccess);
  OK(await(rank->comm));
  OK(await(child));
  result = ncclCommFinalize(rank->comm);
  EXPECT(result == ncclInProgress || result == ncclSuccess);
  OK(await(rank->comm));
  OK(ncclCommDestroy(rank->comm));
  OK(ncclCommDestroy(child));
}

Test(nccl_communicators, of_nonblocking_kind_are_polled) {
  run_both(3, nonblocking);
}

/* A rank that nobody joins can be aborted. */
static void abort_creation(struct rank *rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  EXPECT_RESULT(ncclCommInitRankConfig(&rank->comm, 2, rank->id, 0, &config), ncclInProgress);
  usleep(50000);
  OK(ncclCommAbort(rank->comm));
}

Test(nccl_communicators, of_nonblocking_kind_are_aborted_while_they_wait_for_others) {
  run_both(1, abort_creation);
}

static void mixed_modes(struct rank *rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t blocking, other;
  config.blocking = 0;
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&blocking, 1, rank->blackboard->ids[0], 0));
  EXPECT_RESULT(ncclCommInitRankConfig(&other, 1, rank->blackboard->ids[1], 0, &config),
                ncclInvalidArgument);
  EXPECT(other == NULL);
  EXPECT_RESULT(ncclGroupEnd(), ncclInvalidArgument);
  OK(ncclCommAbort(blocking)); /* never came about, but is there */
}

Test(nccl_communicators, of_both_kinds_do_not_mix_in_a_group) {
  run_both(1, mixed_modes);
}

static void disagree_on_size(struct rank *rank) {
  ncclResult_t result =
      ncclCommInitRank(&rank->comm, rank->nranks + rank->rank, rank->id, rank->rank);
  EXPECT(result == ncclInvalidUsage || result == ncclRemoteError);
}

Test(nccl_communicators, of_different_sizes_do_not_come_about) {
  run_both(2, disagree_on_size);
}

static void same_rank_twice(struct rank *rank) {
  ncclResult_t result = ncclCommInitRank(&rank->comm, 3, rank->id, 0);
  EXPECT(result == ncclInvalidUsage || result == ncclRemoteError);
}

Test(nccl_communicators, with_a_rank_twice_do_not_come_about) {
  run_both(2, same_rank_twice);
}

static void same_device(struct rank *rank) {
  use_device(0);
  ncclResult_t result = ncclCommInitRank(&rank->comm, rank->nranks, rank->id, rank->rank);
  bool refused = getenv("LOOPBACK_DUPLICATE_GPU") != NULL;
  EXPECT(result == (refused ? ncclInvalidUsage : ncclSuccess));
  if (refused)
    EXPECT(strncmp(ncclGetLastError(NULL), "Duplicate GPU detected", 22) == 0);
}

Test(nccl_communicators, may_have_two_ranks_on_a_device) {
  run_both(2, same_device);
}

Test(nccl_communicators, may_not_have_two_ranks_on_a_device_if_so_set) {
  setenv("LOOPBACK_DUPLICATE_GPU", "error", 1);
  run_both(2, same_device);
}

/* Handles are used again, so a library in front of NCCL cannot take the address for an identity. */
static void handles_come_back(struct rank *rank) {
  ncclComm_t first, second;
  OK(ncclCommInitRank(&first, rank->nranks, rank->blackboard->ids[0], rank->rank));
  OK(ncclCommDestroy(first));
  OK(ncclCommInitRank(&second, rank->nranks, rank->blackboard->ids[1], rank->rank));
  EXPECT(first == second);
  OK(ncclCommDestroy(second));
}

Test(nccl_communicators, get_the_address_of_one_destroyed) {
  static struct run run;
  run_processes(&run, 2, handles_come_back);
  expect_success(&run, 2);
}

/* The first collective returns only once all ranks have issued theirs. */
static void first_use(struct rank *rank) {
  bool connects = getenv("LOOPBACK_CONNECT") == NULL;
  rank_join(rank);
  int one = 1;
  int *buffer = device_new(&one, sizeof one);
  if (rank->rank == 1 && connects)
    usleep(100000); /* time to go wrong */
  while (rank->rank == 1 && !connects && atomic_load(&rank->blackboard->number[2]) == 0)
    usleep(1000);
  atomic_fetch_add(&rank->blackboard->number[1], rank->rank == 1);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  if (rank->rank == 0)
    EXPECT((atomic_load(&rank->blackboard->number[1]) != 0) == connects);
  atomic_fetch_add(&rank->blackboard->number[2], rank->rank == 0);
  stream_wait(rank->stream);
  /* the second does not wait for anyone */
  if (rank->rank == 0)
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  rank_barrier(rank, 0);
  if (rank->rank == 1)
    OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_communicators, block_on_the_host_at_first_use) {
  run_both(2, first_use);
}

Test(nccl_communicators, do_not_block_at_first_use_if_so_set) {
  setenv("LOOPBACK_CONNECT", "0", 1);
  run_both(2, first_use);
}

static void fixed_id(struct rank *rank) {
  for (int i = 0; i < 5; i++) {
    ncclUniqueId id;
    ncclComm_t comm;
    OK(ncclGetUniqueId(&id)); /* every rank makes its own, the same */
    OK(ncclCommInitRank(&comm, rank->nranks, id, rank->rank));
    EXPECT(sum(rank, comm, 1) == rank->nranks);
    OK(ncclCommDestroy(comm));
  }
}

Test(nccl_communicators, can_be_made_from_an_id_in_the_environment) {
  setenv("NCCL_COMM_ID", "127.0.0.1:29501", 1);
  run_both(3, fixed_id);
}
