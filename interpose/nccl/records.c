/* In front of cudaEventRecord, once that is wanted (real.h). */
#include "interpose/nccl/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "interpose/elf/imports.h"
#include "interpose/elf/linker.h"

/* cudaErrorNotReady is the same number; but asked for by the driver's function, it does not become
 * the thread's last error of the runtime. */
#define CUDA_ERROR_NOT_READY 600

/* As often, with so many nanoseconds between. */
enum { LOOKS = 20000, PAUSE_NS = 50000 };

typedef int record_function(void *event, void *stream);
typedef int record_with_flags_function(void *event, void *stream, unsigned flags);
typedef int query_function(void *event);

enum { RECORD, RECORD_WITH_FLAGS, NAMES };
static struct import_name names[NAMES] = {{.name = "cudaEventRecord"},
                                          {.name = "cudaEventRecordWithFlags"}};
static _Atomic uintptr_t function_of[NAMES];
static query_function *query; /* written before is_wanted is ever true */
static _Thread_local bool is_wanted;

static void records_complete(void *event) {
  is_wanted = false;
  for (int i = 0; i < LOOKS && query(event) == CUDA_ERROR_NOT_READY; i++)
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static int records_record(void *event, void *stream) {
  record_function *function = (record_function *)atomic_load(&function_of[RECORD]);
  int result = function(event, stream);
  if (is_wanted && result == 0)
    records_complete(event);
  return result;
}

static int record_with_flags(void *event, void *stream, unsigned flags) {
  record_with_flags_function *function =
      (record_with_flags_function *)atomic_load(&function_of[RECORD_WITH_FLAGS]);
  int result = function(event, stream, flags);
  if (is_wanted && result == 0)
    records_complete(event);
  return result;
}

static void *records_placed(size_t name) {
  return (void *)(name == RECORD ? (uintptr_t)records_record : (uintptr_t)record_with_flags);
}

/* Of a second runtime nothing is seen. */
static void *in_front_of(size_t name, void *function) {
  uintptr_t none = 0;
  bool is_first = atomic_compare_exchange_strong(&function_of[name], &none, (uintptr_t)function);
  return is_first || none == (uintptr_t)function ? records_placed(name) : NULL;
}

static void *records_behind(const void *address) {
  for (size_t i = 0; i < NAMES; i++)
    if (address == records_placed(i))
      return (void *)atomic_load(&function_of[i]);
  return NULL;
}

static bool find_query(void) {
  void *driver = linker_dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (driver == NULL)
    return false;
  *(void **)&query = linker_dlsym(driver, "cuEventQuery"); /* as dlsym(3) says it is to be done */
  dlclose(driver);
  return query != NULL;
}

void records_complete_next(void) {
  static struct imports_known known;
  static const struct imports imports = {names, NAMES, in_front_of, records_behind, &known};
  static atomic_flag placing = ATOMIC_FLAG_INIT;
  static _Atomic bool is_placed;
  if (!atomic_load(&is_placed) && !atomic_flag_test_and_set(&placing)) {
    atomic_store(&is_placed, find_query() && imports_change(&imports));
    atomic_flag_clear(&placing);
  }
  is_wanted = atomic_load(&is_placed);
}
