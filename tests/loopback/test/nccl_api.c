/* The library as a library: exports, calls to itself, error codes, ids, registration, the log. */
#include "tests/loopback/test/nccl_fixture.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const functions[] = {"AllGather",
                                        "AllReduce",
                                        "AlltoAll",
                                        "Bcast",
                                        "Broadcast",
                                        "CommAbort",
                                        "CommCount",
                                        "CommCuDevice",
                                        "CommDeregister",
                                        "CommDestroy",
                                        "CommFinalize",
                                        "CommGetAsyncError",
                                        "CommInitAll",
                                        "CommInitRank",
                                        "CommInitRankConfig",
                                        "CommInitRankScalable",
                                        "CommRegister",
                                        "CommRevoke",
                                        "CommShrink",
                                        "CommSplit",
                                        "CommUserRank",
                                        "CommWindowDeregister",
                                        "CommWindowRegister",
                                        "DevCommCreate",
                                        "DevCommDestroy",
                                        "Gather",
                                        "GetErrorString",
                                        "GetLastError",
                                        "GetUniqueId",
                                        "GetVersion",
                                        "GinBarrierCreateRequirement",
                                        "GroupEnd",
                                        "GroupSimulateEnd",
                                        "GroupStart",
                                        "LLA2ACalcSlots",
                                        "LLA2ACreateRequirement",
                                        "LsaBarrierCreateRequirement",
                                        "MemAlloc",
                                        "MemFree",
                                        "Recv",
                                        "RedOpCreatePreMulSum",
                                        "RedOpDestroy",
                                        "Reduce",
                                        "ReduceScatter",
                                        "ResetDebugInit",
                                        "Scatter",
                                        "Send",
                                        "TeamLsa",
                                        "TeamRail",
                                        "TeamRankToLsa",
                                        "TeamRankToWorld",
                                        "TeamWorld"};
#define NFUNCTIONS (sizeof functions / sizeof functions[0])

/* Lines of nm for the library under test that match. */
static int count_symbols(const char *pattern) {
  Dl_info info;
  char command[1024];
  int count = -1;
  cr_assert(dladdr((void *)(uintptr_t)dlsym(RTLD_DEFAULT, "pncclGetVersion"), &info) != 0);
  snprintf(command, sizeof command, "nm -D --defined-only '%s' | grep -c -E '%s'", info.dli_fname,
           pattern);
  FILE *pipe = popen(command, "r");
  cr_assert(pipe != NULL && fscanf(pipe, "%d", &count) == 1);
  pclose(pipe);
  return count;
}

Test(nccl_api, exports_what_the_real_library_does) {
  for (size_t i = 0; i < NFUNCTIONS; i++) {
    char name[64];
    snprintf(name, sizeof name, " W nccl%s$", functions[i]);
    cr_assert_eq(count_symbols(name), 1, "%s", name);
    snprintf(name, sizeof name, " T pnccl%s$", functions[i]);
    cr_assert_eq(count_symbols(name), 1, "%s", name);
  }
  cr_assert_eq(count_symbols(""), 2 * NFUNCTIONS + 1);
  cr_assert_eq(count_symbols("ncclResetDebugInitInternal"), 1);
}

/* The program's own definitions come first, as those of a library in front. */
static _Atomic int seen_broadcasts, seen_ids;
#define IN_FRONT __attribute__((visibility("default")))

IN_FRONT ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                                    ncclDataType_t datatype, int root, ncclComm_t comm,
                                    cudaStream_t stream) {
  seen_broadcasts++;
  return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

IN_FRONT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  seen_ids++;
  return pncclGetUniqueId(id);
}

static void calls_itself(struct rank *rank) {
  ncclComm_t comm;
  int device = 0;
  int *buffer = device_new(NULL, 64);
  seen_ids = 0;
  OK(ncclCommInitAll(&comm, 1, &device));
  EXPECT(seen_ids == 1);
  OK(ncclBcast(buffer, 1, ncclInt32, 0, comm, rank->stream));
  EXPECT(seen_broadcasts == 1);
  OK(ncclCommDestroy(comm));
}

Test(nccl_api, calls_itself_where_a_library_in_front_can_see_it) {
  run_both(1, calls_itself);
}

Test(nccl_api, says_who_it_is) {
  int version = 0;
  cr_assert_eq(ncclGetVersion(&version), ncclSuccess);
  cr_assert_eq(version, 22809);
  cr_assert_eq(ncclGetVersion(NULL), ncclInvalidArgument);
  cr_assert_str_eq(ncclGetErrorString(ncclRemoteError),
                   "remote process exited or there was a network error");
  cr_assert_str_eq(ncclGetErrorString((ncclResult_t)99), "unknown result code");
}

Test(nccl_api, makes_ids_laid_out_as_nccls) {
  ncclUniqueId first, second;
  cr_assert_eq(ncclGetUniqueId(&first), ncclSuccess);
  memset(&second, 0xff, sizeof second);
  cr_assert_eq(ncclGetUniqueId(&second), ncclSuccess);
  cr_assert_neq(memcmp(&first, &second, 8), 0);
  struct sockaddr_in address;
  memcpy(&address, first.internal + 8, sizeof address);
  cr_assert_eq(address.sin_family, AF_INET);
  cr_assert_eq(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
  for (int i = 40; i < NCCL_UNIQUE_ID_BYTES; i++)
    cr_assert_eq(second.internal[i], 0);
  cr_assert_eq(ncclGetUniqueId(NULL), ncclInvalidArgument);
}

/* All 128 bytes of an id name a communicator, not only those that NCCL fills. */
static void spare_bytes(struct rank *rank) {
  int color = rank->rank / 2, got, one = 1;
  rank->id.internal[100] = (char)color;
  OK(ncclCommInitRank(&rank->comm, 2, rank->id, rank->rank % 2));
  int *buffer = device_new(&one, sizeof one);
  OK(ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, rank->comm, rank->stream));
  stream_wait(rank->stream);
  device_get(buffer, &got, sizeof got);
  EXPECT(got == 2);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_api, hashes_all_bytes_of_an_id) {
  run_both(4, spare_bytes);
}

Test(nccl_api, refuses_what_needs_no_communicator_to_be_wrong) {
  int number;
  ncclResult_t state;
  ncclComm_t comm = NULL;
  ncclRedOp_t op;
  float factor = 1;
  void *handle;
  ncclUniqueId id;
  cr_assert_eq(ncclGetUniqueId(&id), ncclSuccess);
  cr_assert_eq(ncclGroupEnd(), ncclInvalidUsage);
  cr_assert_eq(ncclAllReduce(NULL, NULL, 1, ncclInt8, ncclSum, NULL, NULL), ncclInvalidArgument);
  cr_assert_eq(ncclBcast(NULL, 1, ncclInt8, 0, NULL, NULL), ncclInvalidArgument);
  cr_assert_eq(ncclSend(NULL, 1, ncclInt8, 0, NULL, NULL), ncclInvalidArgument);
  cr_assert_eq(ncclCommCount(NULL, &number), ncclInvalidArgument);
  cr_assert_eq(ncclCommGetAsyncError(NULL, &state), ncclInvalidArgument);
  cr_assert_eq(ncclCommSplit(NULL, 0, 0, &comm, NULL), ncclInvalidArgument);
  cr_assert_eq(ncclCommRegister(NULL, &number, 4, &handle), ncclInvalidArgument);
  cr_assert_eq(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, NULL),
               ncclInvalidArgument);
  cr_assert_eq(ncclRedOpDestroy(ncclSum, NULL), ncclInvalidArgument);
  cr_assert_eq(ncclRedOpDestroy((ncclRedOp_t)77, NULL), ncclInvalidArgument);
  cr_assert_eq(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument);
  cr_assert_eq(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  cr_assert_eq(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  cr_assert_eq(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument);
  cr_assert_eq(ncclCommInitRankScalable(&comm, 1, 0, 2, &id, NULL), ncclInvalidArgument);
  ncclConfig_t config = {0};
  cr_assert_eq(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  ncclConfig_t wrong = NCCL_CONFIG_INITIALIZER;
  wrong.blocking = 2;
  cr_assert_eq(ncclCommInitRankConfig(&comm, 1, id, 0, &wrong), ncclInvalidArgument);
  cr_assert_eq(ncclCommDestroy(NULL), ncclSuccess);
}

static void wrong_arguments(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 64);
  ncclComm_t comm = rank->comm;
  CUstream stream = rank->stream;
  EXPECT_RESULT(ncclBroadcast(buffer, buffer, 1, ncclInt32, 1, comm, stream), ncclInvalidArgument);
  EXPECT_RESULT(ncclReduce(buffer, buffer, 1, ncclInt32, ncclSum, -1, comm, stream),
                ncclInvalidArgument);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclNumTypes, ncclSum, comm, stream),
                ncclInvalidArgument);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, (ncclDataType_t)-1, ncclSum, comm, stream),
                ncclInvalidArgument);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, (ncclRedOp_t)-1, comm, stream),
                ncclInvalidArgument);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, (ncclRedOp_t)5, comm, stream),
                ncclInvalidArgument);
  EXPECT_RESULT(ncclSend(buffer, 1, ncclInt32, 5, comm, stream), ncclInvalidArgument);
  EXPECT_RESULT(ncclCommCount(comm, NULL), ncclInvalidArgument);
  EXPECT_RESULT(ncclCommGetAsyncError(comm, NULL), ncclInvalidArgument);
  int three = 3;
  uint64_t words[128] = {0}; /* no communicator */
  ncclRedOp_t op;
  OK(ncclRedOpCreatePreMulSum(&op, &three, ncclInt32, ncclScalarHostImmediate, comm));
  EXPECT((int)op >= ncclNumOps + 16); /* mangled */
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclFloat32, op, comm, stream),
                ncclInvalidArgument);
  OK(ncclRedOpDestroy(op, comm));
  EXPECT_RESULT(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
  EXPECT_RESULT(ncclAllReduce(buffer, buffer, 1, ncclInt32, op, comm, stream), ncclInvalidArgument);
  EXPECT_RESULT(
      ncclAllReduce(buffer, buffer, 1, ncclInt32, ncclSum, (ncclComm_t)(void *)words, stream),
      ncclInvalidArgument);
  OK(ncclCommDestroy(comm));
}

Test(nccl_api, refuses_wrong_arguments_as_nccl_does) {
  run_both(1, wrong_arguments);
}

static void registration(struct rank *rank) {
  rank_join(rank);
  char *buffer;
  void *whole, *part;
  int local;
  OK(ncclMemAlloc((void **)&buffer, 8192));
  OK(ncclCommRegister(rank->comm, buffer, 8192, &whole));
  OK(ncclCommRegister(rank->comm, buffer + 100, 100, &part));
  EXPECT(whole == part && whole != NULL);
  OK(ncclCommDeregister(rank->comm, part));
  OK(ncclCommDeregister(rank->comm, whole));
  EXPECT_RESULT(ncclCommDeregister(rank->comm, whole), ncclInvalidUsage);
  OK(ncclCommDeregister(rank->comm, NULL));
  EXPECT_RESULT(ncclCommRegister(rank->comm, &local, sizeof local, &whole), ncclInvalidArgument);
  EXPECT_RESULT(ncclCommRegister(rank->comm, buffer, 8193, &whole), ncclInvalidArgument);
  ncclWindow_t window = NULL;
  OK(ncclCommWindowRegister(rank->comm, buffer, 8192, &window, NCCL_WIN_COLL_SYMMETRIC));
  EXPECT(window != NULL);
  OK(ncclCommWindowDeregister(rank->comm, window));
  EXPECT_RESULT(ncclCommWindowDeregister(rank->comm, window), ncclInvalidUsage);
  EXPECT_RESULT(ncclCommWindowRegister(rank->comm, &local, sizeof local, &window, 0),
                ncclInvalidArgument);
  OK(ncclCommRegister(rank->comm, buffer, 8192, &whole)); /* left to the communicator */
  OK(ncclCommDestroy(rank->comm));
  OK(ncclMemFree(buffer));
  OK(ncclMemFree(NULL));
  EXPECT_RESULT(ncclMemAlloc(NULL, 1), ncclUnhandledCudaError);
}

Test(nccl_api, keeps_book_of_registrations) {
  run_both(2, registration);
}

typedef ncclResult_t device_call(ncclComm_t, const void *, void *);

static void device_api(struct rank *rank) {
  rank_join(rank);
  device_call *create = (device_call *)(uintptr_t)dlsym(RTLD_DEFAULT, "ncclDevCommCreate");
  EXPECT_RESULT(create(rank->comm, NULL, NULL), ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(NULL), "no device API") != NULL);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_api, has_no_device_side) {
  run_both(1, device_api);
}

static void logged(struct rank *rank) {
  rank_join(rank);
  int *buffer = device_new(NULL, 4096);
  OK(ncclAllReduce(buffer, buffer, 3, ncclInt32, ncclSum, rank->comm, rank->stream));
  OK(ncclGroupStart());
  OK(ncclBroadcast(buffer, buffer, 4, ncclInt8, 1, rank->comm, rank->stream));
  OK(ncclSend(buffer, 5, ncclFloat16, 1 - rank->rank, rank->comm, rank->stream));
  OK(ncclRecv(buffer + 64, 5, ncclFloat16, 1 - rank->rank, rank->comm, rank->stream));
  OK(ncclGroupEnd());
  stream_wait(rank->stream);
  OK(ncclCommDestroy(rank->comm));
}

Test(nccl_api, logs_every_unit) {
  char path[] = "/tmp/loopback-nccl-log-XXXXXX", text[8192] = "";
  int file = mkstemp(path);
  cr_assert(file >= 0);
  setenv("LOOPBACK_LOG", path, 1);
  static struct run run;
  run_processes(&run, 2, logged);
  expect_success(&run, 2);
  cr_assert(read(file, text, sizeof text - 1) > 0);
  close(file);
  unlink(path);
  cr_assert(strstr(text, " rank=0 nranks=2 unit=0 allreduce(sum, int32, 3)\n") != NULL, "%s", text);
  cr_assert(
      strstr(text,
             " rank=1 nranks=2 unit=1 group{broadcast(int8, 4, root 1); send(float16, 5, to 0); "
             "recv(float16, 5, from 0)}\n") != NULL,
      "%s", text);
  cr_assert(strstr(text, "exit\n") != NULL);
}

static void nothing(struct rank *rank) {
  rank_join(rank);
}

Test(nccl_api, refuses_settings_it_does_not_know) {
  setenv("LOOPBACK_DEATH", "maybe", 1);
  static struct run run;
  run_processes(&run, 1, nothing);
  expect_status(&run, 1, 86);
  expect_output(&run, "LOOPBACK_DEATH=maybe");
  unsetenv("LOOPBACK_DEATH"); /* the exit handler of this process reads settings too */
}
