/* RTLD_DEEPBIND: what is opened with it, and all that it brings along, looks for functions in its
 * own libraries before it looks at us. Where those use NCCL, the flag must go; everywhere else it
 * stays, because programs that set it mean it.
 */
#ifndef NCCL_JOIN_INTERPOSE_DEEPBIND_H
#define NCCL_JOIN_INTERPOSE_DEEPBIND_H

#include <stdbool.h>

/* Whether a library, or one that it needs and that is not loaded yet, names a function of NCCL that
 * nccl-join stands in front of. Found by looking into the files; the dynamic linker's cache
 * (ld.so.cache) is not looked at: `file` and what it needs are searched for in the folders that
 * dlopen would try for `caller`, an address in the object that opens it, and in their own RUNPATH.
 * False if in doubt. Any thread. */
bool deepbind_hides_nccl(const char *file, const void *caller);

#endif
