/* The list of buffers to be resynchronised, against a driver of the test's own. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "hooks/contribution.h"
#include "hooks/state.h"

/* What the driver knows: one allocation of 4096 bytes on device 2. */
static struct {
  unsigned long long number;
  char *begin;
  unsigned type;
} memory;

static CUresult attribute(void *value, CUpointer_attribute which, CUdeviceptr address) {
  if (memory.number == 0 || (char *)address < memory.begin || /* NOLINT */
      (char *)address >= memory.begin + 4096)                 /* NOLINT */
    return CUDA_ERROR_INVALID_VALUE;
  switch ((unsigned)which) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)value = memory.type;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)value = 2;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    *(unsigned long long *)value = memory.number;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(CUdeviceptr *)value = (CUdeviceptr)memory.begin;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)value = 4096;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

static const struct cuda_driver driver = {.PointerGetAttribute = attribute};
static struct state state;
static char reason[REASON_SIZE];

static void start(void) {
  state_init(&state);
  memory.number = 77;
  memory.begin = malloc(4096);
  memory.type = CU_MEMORYTYPE_DEVICE;
}

static void stop(void) {
  state_free(&state);
  free(memory.begin);
}

TestSuite(state, .init = start, .fini = stop);

static struct state_buffer floats(size_t offset, uint64_t count, uint32_t number) {
  return (struct state_buffer){.address = memory.begin + offset,
                               .count = count,
                               .comm = 5,
                               .number = number,
                               .datatype = DATATYPE_FLOAT32};
}

static bool add(struct state_buffer buffer) {
  return state_add(&state, &driver, 2, buffer, reason);
}

Test(state, buffers_are_found_by_number) {
  struct state_buffer found;
  cr_assert(state_is_empty(&state));
  cr_assert(add(floats(0, 10, 0)) && add(floats(64, 20, 1)), "%s", reason);
  cr_assert_not(state_is_empty(&state));
  cr_assert(state_find(&state, 5, 1, &found));
  cr_assert(found.count == 20 && found.allocation == 77);
  cr_assert_not(state_find(&state, 6, 1, &found));
  cr_assert_not(state_find(&state, 5, 2, &found));
}

Test(state, an_address_that_comes_again_keeps_its_number) {
  struct state_buffer found;
  uint32_t nbuffers;
  cr_assert(add(floats(0, 10, 0)) && add(floats(0, 30, 4)));
  cr_assert(state_find(&state, 5, 0, &found) && found.count == 30);
  free(state_list(&state, &nbuffers));
  cr_assert_eq(nbuffers, 1);
}

Test(state, many_buffers_keep_their_order) {
  uint32_t nbuffers;
  for (uint32_t i = 0; i < 100; i++)
    cr_assert(add(floats(4 * i, 1, i)));
  cr_assert(state_remove(&state, 5, memory.begin + 4 * 50));
  struct state_buffer *list = state_list(&state, &nbuffers);
  cr_assert_eq(nbuffers, 99);
  for (uint32_t i = 0; i < nbuffers; i++)
    cr_assert_eq(list[i].number, i < 50 ? i : i + 1);
  free(list);
  state_remove_all(&state, 5);
  cr_assert(state_is_empty(&state));
  cr_assert_null(state_list(&state, &nbuffers));
}

Test(state, what_is_no_buffer_is_refused) {
  cr_assert_not(add(floats(0, 1025, 0)), "one element too many");
  cr_assert_not(add(floats(4096, 1, 0)), "behind the end");
  cr_assert_not(add(floats(0, 0, 0)));
  cr_assert_not(add(floats(0, UINT64_MAX / 2, 0)));
  struct state_buffer unknown = floats(0, 1, 0);
  unknown.datatype = 99;
  cr_assert_not(add(unknown));
  cr_assert_not(state_add(&state, &driver, 1, floats(0, 1, 0), reason), "another device");
  memory.type = CU_MEMORYTYPE_HOST;
  cr_assert_not(add(floats(0, 1, 0)));
  cr_assert(state_is_empty(&state));
}

Test(state, what_has_become_of_a_buffer_is_seen) {
  struct state_buffer found;
  cr_assert(add(floats(0, 1024, 0)) && state_find(&state, 5, 0, &found));
  cr_assert_eq(state_look(&driver, &found), STATE_THERE);
  memory.number = 78;
  cr_assert_eq(state_look(&driver, &found), STATE_REPLACED);
  memory.number = 0;
  cr_assert_eq(state_look(&driver, &found), STATE_FREED);
}

static void *take_out(void *unused) {
  (void)unused;
  cr_assert(state_remove(&state, 5, memory.begin));
  return NULL;
}

Test(state, what_is_held_cannot_be_taken_out, .timeout = 300) {
  pthread_t thread;
  cr_assert(add(floats(0, 1, 0)));
  state_hold(&state);
  state_hold(&state);
  pthread_create(&thread, NULL, take_out, NULL);
  state_release(&state);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  cr_assert_not(state_is_empty(&state));
  state_release(&state);
  pthread_join(thread, NULL);
  cr_assert(state_is_empty(&state));
}
