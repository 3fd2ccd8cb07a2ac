/* ncclGetLastError (real.h). Not in the table of api.h: it returns a text, and what a program
 * looks up with dlsym is NCCL's own. */

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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Ours, with `lock`; "": none. A text that a program has been given stays as it is until so many
 * more have been noted. Not a thread's own: thread-local memory is scarce where the preload object
 * is opened at run time. */
#define SENTENCES 8u
static char sentences[SENTENCES][LOG_LINE_SIZE + 16];
static unsigned newest;
static char theirs[LOG_LINE_SIZE]; /* NCCL's when that was noted */

/* Of the NCCL found first: the next object that has it, or the library that the functions are of.
 */
static last_error_function *find_real(void) {
  last_error_function *function;
  Dl_info info;
  *(void **)&function = linker_dlsym(RTLD_NEXT, "ncclGetLastError");
  if (function != NULL || !real_resolve() || real_count() == 0 ||
      dladdr(real_libraries[0].base, &info) == 0)
    return function;
  void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != NULL)
    *(void **)&function = linker_dlsym(handle, "ncclGetLastError");
  return function;
}

static const char *text_of_nccl(ncclComm_t comm) {
  last_error_function *function = find_real();
  const char *text = function == NULL ? NULL : function(comm);
  return text == NULL ? "" : text;
}

void last_error_is_ours(void) {
  char text[LOG_LINE_SIZE];
  const char *other = text_of_nccl(NULL);
  log_last(text, sizeof(text));
  pthread_mutex_lock(&lock);
  newest = (newest + 1) % SENTENCES;
  snprintf(sentences[newest], sizeof(sentences[newest]), "nccl-join: %s", text);
  snprintf(theirs, sizeof(theirs), "%s", other);
  pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) const char *ncclGetLastError(ncclComm_t comm) {
  const char *other = text_of_nccl(comm);
  pthread_mutex_lock(&lock);
  const char *text = sentences[newest];
  bool ours = text[0] != '\0' && strncmp(theirs, other, sizeof(theirs) - 1) == 0;
  pthread_mutex_unlock(&lock);
  return ours && guard_thread.depth == 0 ? text : other;
}
