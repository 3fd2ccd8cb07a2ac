/* The functions that the program reaches instead of CUDA's, to see where a capture begins and ends
 * (comm/captures.h). Captures are rare, so the real function is looked for each time: which it is
 * depends on who calls, as several CUDA runtimes may be loaded.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/comm/captures.h"
#include "interpose/nccl/api.h"
#include "interpose/elf/linker.h"

/* cudaErrorSymbolNotFound and CUDA_ERROR_NOT_FOUND. */
#define NOT_FOUND 500

static const char here; /* in our object */

static bool is_ours(const void *address) {
  Dl_info ours;
  Dl_info theirs;
  return dladdr(&here, &ours) != 0 && dladdr(address, &theirs) != 0 &&
         ours.dli_fbase == theirs.dli_fbase;
}

/* In an object that is loaded, and what it needs. */
static void *look_in(const char *file, const char *name) {
  void *handle = linker_dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == NULL)
    return NULL;
  void *address = linker_dlsym(handle, name);
  dlclose(handle);
  return address == NULL || is_ours(address) ? NULL : address;
}

/* Behind the caller's own references; the usual search order, which lacks what Python has loaded;
 * then by name. */
static void *capture_find(const char *name, const void *caller) {
  static const char *const libraries[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                          "libcuda.so.1"};
  Dl_info object;
  void *address = NULL;
  if (dladdr(caller, &object) != 0 && object.dli_fname != NULL && object.dli_fname[0] == '/')
    address = look_in(object.dli_fname, name);
  if (address == NULL)
    address = linker_dlsym(RTLD_NEXT, name);
  for (size_t i = 0; address == NULL && i < sizeof libraries / sizeof *libraries; i++)
    address = look_in(libraries[i], name);
  return address;
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define FUNCTION(name, parameters, arguments, begins)                                              \
  __attribute__((visibility("default"))) int name parameters;                                      \
  int name parameters {                                                                            \
    int(*function) parameters;                                                                     \
    *(void **)&function = capture_find(#name, __builtin_return_address(0));                        \
    if (function == NULL)                                                                          \
      return NOT_FOUND;                                                                            \
    if (begins)                                                                                    \
      captures_began();                                                                            \
    int result = function arguments;                                                               \
    if (!(begins) || result != 0)                                                                  \
      captures_ended();                                                                            \
    return result;                                                                                 \
  }
CAPTURE_FUNCTIONS(FUNCTION)
// NOLINTEND(bugprone-macro-parentheses)
