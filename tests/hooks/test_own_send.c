/* The program's own memory as what a shadow sends, against the loopback's driver: what is there,
 * and in which order streams are.
 *
 * Needs the loopback's libcuda.so.1 on LD_LIBRARY_PATH; skipped without.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "hooks/own_send.h"
#include "hooks/shadow_device.h"

#define TEST_SECONDS 300 /* SIGALRM ends a test that hangs */
#define GRANULE ((size_t)2 << 20)

static const struct shadow_limit patient = {.until_ns = UINT64_MAX};
static const struct cuda_driver *cuda;
static struct shadow *shadow;
static char reason[REASON_SIZE];

/* Functions of the driver that only the test uses. */
static CUresult (*cu_init)(unsigned flags);
static CUresult (*cu_launch_host)(CUstream stream, CUhostFn function, void *argument);
static CUresult (*cu_host_alloc)(void **address, size_t bytes, unsigned flags);
static CUresult (*cu_to_host)(void *to, CUdeviceptr from, size_t bytes);
static CUresult (*cu_reserve)(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr at,
                              unsigned long long flags);
static CUresult (*cu_create)(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *properties, unsigned long long flags);
static CUresult (*cu_map)(CUdeviceptr address, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags);

static void find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  cr_assert_not_null(address, "no %s", name);
  memcpy(function, &address, sizeof address);
}

static void begin(void) {
  (void)alarm(TEST_SECONDS);
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL || dlsym(library, "loopback_device_memory") == NULL)
    cr_skip("the loopback is not on LD_LIBRARY_PATH");
  find(library, "cuInit", &cu_init);
  find(library, "cuLaunchHostFunc", &cu_launch_host);
  find(library, "cuMemHostAlloc", &cu_host_alloc);
  find(library, "cuMemcpyDtoH_v2", &cu_to_host);
  find(library, "cuMemAddressReserve", &cu_reserve);
  find(library, "cuMemCreate", &cu_create);
  find(library, "cuMemMap", &cu_map);
  cuda = cuda_driver_get(reason);
  cr_assert_not_null(cuda, "%s", reason);
  cr_assert_eq(cu_init(0), CUDA_SUCCESS);
  shadow = shadow_create(cuda, 0, reason);
  cr_assert_not_null(shadow, "%s", reason);
  cr_assert_eq(cuda->CtxPushCurrent(shadow->context), CUDA_SUCCESS);
}

static void end(void) {
  shadow_destroy(shadow, &patient);
}
TestSuite(own_send, .init = begin, .fini = end);

static char *allocate(size_t bytes) {
  CUdeviceptr address;
  cr_assert_eq(cuda->MemAlloc(&address, bytes), CUDA_SUCCESS);
  return (char *)address;
}

/* ---- what is there ---- */

Test(own_send, device_memory_is_there_up_to_its_end) {
  char *memory = allocate(1000);
  cr_expect(own_send_is_there(shadow, memory, 1000));
  cr_expect(own_send_is_there(shadow, memory + 400, 600));
  cr_expect_not(own_send_is_there(shadow, memory + 400, 601));
  cr_expect_not(own_send_is_there(shadow, memory, SIZE_MAX));
}

Test(own_send, freed_memory_is_not_there) {
  char *memory = allocate(1000);
  cr_assert_eq(cuda->MemFree((CUdeviceptr)memory), CUDA_SUCCESS);
  cr_expect_not(own_send_is_there(shadow, memory, 1000));
}

Test(own_send, memory_of_another_device_is_not_there) {
  struct shadow *other = shadow_create(cuda, 1, reason);
  cr_assert_not_null(other, "%s", reason);
  char *memory = allocate(1000);
  cr_expect_not(own_send_is_there(other, memory, 1000));
  shadow_destroy(other, &patient);
}

Test(own_send, pinned_memory_is_there_and_other_memory_of_the_host_is_not) {
  char own[64];
  void *pinned;
  cr_assert_eq(cu_host_alloc(&pinned, 64, 0), CUDA_SUCCESS);
  cr_expect(own_send_is_there(shadow, pinned, 64));
  cr_expect_not(own_send_is_there(shadow, own, sizeof own));
  cr_expect_not(own_send_is_there(shadow, NULL, 1));
}

/* As PyTorch's expandable segments are. */
Test(own_send, memory_mapped_in_pieces_is_there_as_far_as_there_are_pieces) {
  CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  cr_assert_eq(cu_reserve(&address, 3 * GRANULE, 0, 0, 0), CUDA_SUCCESS);
  for (size_t piece = 0; piece < 2; piece++) {
    cr_assert_eq(cu_create(&handle, GRANULE, &properties, 0), CUDA_SUCCESS);
    cr_assert_eq(cu_map(address + piece * GRANULE, GRANULE, 0, handle, 0), CUDA_SUCCESS);
  }
  cr_expect(own_send_is_there(shadow, (char *)address + 100, 2 * GRANULE - 100));
  cr_expect_not(own_send_is_there(shadow, (char *)address + 100, 2 * GRANULE));
}

Test(own_send, a_copy_comes_in_the_order_of_the_stream) {
  char *from = allocate(64), *to = allocate(64);
  cr_assert_eq(cuda->MemsetD32Async((CUdeviceptr)from, 42, 16, shadow->stream), CUDA_SUCCESS);
  cr_assert(own_send_copy(shadow, to, from, 64, reason), "%s", reason);
  unsigned word = 0;
  cr_assert_eq(shadow_wait(shadow, &patient, reason), ncclSuccess);
  cr_assert_eq(cu_to_host(&word, (CUdeviceptr)to + 60, sizeof word), CUDA_SUCCESS);
  cr_expect_eq(word, 42);
  cr_expect_not(own_send_copy(shadow, to, from, 1 << 20, reason));
  cr_expect_not_null(strstr(reason, "cannot copy"), "%s", reason);
}

/* ---- order ---- */

static void wait_for(void *gate) {
  sem_wait(gate);
}

/* Whether what a stream holds is done, after a while. */
static bool is_done(CUstream stream) {
  for (int turn = 0; turn < 20; turn++) {
    if (cuda->StreamQuery(stream) == CUDA_SUCCESS)
      return true;
    usleep(1000);
  }
  return false;
}

static void wait_until_done(CUstream stream) {
  while (cuda->StreamQuery(stream) != CUDA_SUCCESS)
    usleep(1000);
}

/* The second stream goes on only after the first. */
static void check_order(CUstream first, CUstream second,
                        bool (*put)(struct shadow *, cudaStream_t, char *), CUstream program) {
  sem_t gate;
  sem_init(&gate, 0, 0);
  cr_assert_eq(cu_launch_host(first, wait_for, &gate), CUDA_SUCCESS);
  cr_expect(is_done(second), "nothing to wait for yet");
  cr_assert(put(shadow, (cudaStream_t)program, reason), "%s", reason);
  cr_expect_not(is_done(second));
  sem_post(&gate);
  wait_until_done(second);
  wait_until_done(first);
}

static CUstream program_stream(void) {
  CUstream stream;
  cr_assert_eq(cuda->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  return stream;
}

Test(own_send, shadows_come_after_what_the_program_has_put_into_its_stream) {
  CUstream program = program_stream();
  check_order(program, shadow->stream, own_send_follows, program);
}

Test(own_send, the_default_stream_is_one_too) {
  check_order(NULL, shadow->stream, own_send_follows, NULL);
}

Test(own_send, the_program_waits_for_shadows_that_read_its_memory) {
  CUstream program = program_stream();
  check_order(shadow->stream, program, own_send_precedes, program);
}
