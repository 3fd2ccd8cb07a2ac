/* The dynamic linker's own functions, behind the stubs that stand in front of them (lookups.h).
 *
 * What nccl-join itself looks up goes through these, so that it is never answered by itself. They
 * may be called at any time by any thread. At first they lead to code that finds the real ones; a
 * call afterwards costs one load.
 */
#ifndef NCCL_JOIN_INTERPOSE_LINKER_H
#define NCCL_JOIN_INTERPOSE_LINKER_H

#include <link.h>

/* For what may run before a sanitizer that this library is built with is ready. */
#define UNINSTRUMENTED __attribute__((no_sanitize("address", "thread", "undefined")))

#define LINKER_STATE extern __attribute__((visibility("hidden")))

/* Laid out in stubs_*.S, stored by linker_find. */
LINKER_STATE void *(*linker_dlsym)(void *handle, const char *name);
LINKER_STATE void *(*linker_dlvsym)(void *handle, const char *name, const char *version);
LINKER_STATE void *(*linker_dlopen)(const char *file, int flags);

/* Finds the next definition of each behind ours in the order of loading, as RTLD_NEXT would:
 * libc's, or that of another tool. Called by the stubs only, which may be entered before
 * constructors have run, under a sanitizer that is not ready and in any thread: calls nothing,
 * locks nothing, allocates nothing. There is always one to be found. */
__attribute__((visibility("hidden"))) void linker_find(void);

/* What a loaded object defines under a name, or NULL; `dynamic`: its dynamic section. Asks nobody,
 * so it may be called where the dynamic linker's locks are held. */
__attribute__((visibility("hidden"))) void *
linker_definition(Elf64_Addr base, const Elf64_Dyn *dynamic, const char *name);

#endif
