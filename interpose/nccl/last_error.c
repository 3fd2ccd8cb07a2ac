/* ncclGetLastError and ncclGetErrorString (real.h). Not in the table of api.h: they return a text,
 * and what a program looks up with dlsym is NCCL's own. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/self/guard.h"
#include "interpose/elf/linker.h"
#include "interpose/nccl/real.h"

typedef const char *last_error_function(ncclComm_t comm);
typedef const char *error_string_function(ncclResult_t result);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Ours, with `lock`; "": none. A text that a program has been given stays as it is until so many
 * more have been noted. Not a thread's own: thread-local memory is scarce where the preload object
 * is opened at run time. */
#define SENTENCES 8u
static char sentences[SENTENCES][LOG_LINE_SIZE + 16];
/* The same behind what NCCL says of the result. */
static char explained[SENTENCES][LOG_LINE_SIZE + 128];
static unsigned newest;
static ncclResult_t newest_result;
static bool newest_is_final;       /* a communicator has failed with it */
static char theirs[LOG_LINE_SIZE]; /* NCCL's when that was noted */

/* Of the NCCL found first: the next object that has it, or the library that the functions are of.
 * NULL: none. */
static void *find_real(const char *name) {
  Dl_info info;
  void *function = linker_dlsym(RTLD_NEXT, name);
  if (function != NULL || !real_resolve() || real_count() == 0 ||
      dladdr(real_libraries[0].base, &info) == 0)
    return function;
  void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return handle == NULL ? NULL : linker_dlsym(handle, name);
}

static const char *text_of_nccl(ncclComm_t comm) {
  last_error_function *function;
  *(void **)&function = find_real("ncclGetLastError");
  const char *text = function == NULL ? NULL : function(comm);
  return text == NULL ? "" : text;
}

static const char *string_of_nccl(ncclResult_t result) {
  error_string_function *function;
  *(void **)&function = find_real("ncclGetErrorString");
  const char *text = function == NULL ? NULL : function(result);
  return text == NULL ? "" : text;
}

static void last_error_note(ncclResult_t result, bool final) {
  char text[LOG_LINE_SIZE];
  const char *other = text_of_nccl(NULL), *string = string_of_nccl(result);
  log_last(text, sizeof(text));
  pthread_mutex_lock(&lock);
  newest = (newest + 1) % SENTENCES;
  newest_result = result;
  newest_is_final = final;
  snprintf(sentences[newest], sizeof(sentences[newest]), "nccl-join: %s", text);
  snprintf(explained[newest], sizeof(explained[newest]), "%.100s: nccl-join: %s", string, text);
  snprintf(theirs, sizeof(theirs), "%s", other);
  pthread_mutex_unlock(&lock);
}

void last_error_is_ours(ncclResult_t result) {
  last_error_note(result, false);
}

void last_error_is_final(ncclResult_t result) {
  last_error_note(result, true);
}

/* With `lock`: whether NCCL has said nothing since ours was noted. */
static bool is_ours(const char *other) {
  return sentences[newest][0] != '\0' && strncmp(theirs, other, sizeof(theirs) - 1) == 0;
}

__attribute__((visibility("default"))) const char *ncclGetLastError(ncclComm_t comm) {
  const char *other = text_of_nccl(comm);
  pthread_mutex_lock(&lock);
  const char *text = is_ours(other) && guard_thread.depth == 0 ? sentences[newest] : other;
  pthread_mutex_unlock(&lock);
  return text;
}

__attribute__((visibility("default"))) const char *ncclGetErrorString(ncclResult_t result) {
  const char *string = string_of_nccl(result);
  if (result == ncclSuccess || result == ncclInProgress)
    return string;
  const char *other = text_of_nccl(NULL);
  pthread_mutex_lock(&lock);
  bool ours =
      result == newest_result && (newest_is_final || is_ours(other)) && guard_thread.depth == 0;
  const char *text = ours ? explained[newest] : string;
  pthread_mutex_unlock(&lock);
  return text;
}
