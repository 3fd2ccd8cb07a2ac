/* How programs come to NCCL without being linked to it: by dlsym and dlvsym, which ctypes, JAX,
 * XGBoost, vLLM and others use, and by dlopen with RTLD_DEEPBIND, which makes what is opened look
 * past us.
 *
 * The three functions that the program calls are a few instructions each (stubs_*.S). They decide
 * without any call whether this is about NCCL, and otherwise JUMP to the real function: that finds
 * its caller by the return address, on which RTLD_NEXT, RTLD_DEFAULT and RUNPATH depend, and a
 * function in between, however small, would be taken for the caller. (A C function that ends in a
 * call becomes a jump only if the compiler feels like it.)
 *
 * Names that begin with "nccl" or "MPI_", all names once trampolines have been placed
 * (trampolines.h), and openings come to the two functions below.
 */
#ifndef NCCL_JOIN_INTERPOSE_LOOKUPS_H
#define NCCL_JOIN_INTERPOSE_LOOKUPS_H

#include <stdbool.h>
#include <stdint.h>

#define LOOKUP_ENTRY __attribute__((visibility("hidden")))

/* Returned in two registers. */
struct lookup {
  void *address;   /* what the program gets, NULL with dlerror set; if given */
  uintptr_t given; /* 0: the real function is to answer */
};

/* The answer to dlsym (version is NULL) or dlvsym. Given are a function of ours for each that api.h
 * exports, if the real look-up finds it (what the NCCL at hand lacks stays missing), and a
 * trampoline for each exit point (exit_points.h). What is looked up behind somebody (RTLD_NEXT) is
 * none of our business. Any thread. */
LOOKUP_ENTRY struct lookup lookup_symbol(void *handle, const char *name, const char *version);

/* Whether api.h exports a function of this name. */
LOOKUP_ENTRY bool lookup_is_caught(const char *name);

/* The flags that dlopen is to open with. RTLD_DEEPBIND is taken away from what leads to NCCL, and
 * from nothing else. `caller`: an address in the object that opens. Tells the table of sites, too
 * (native_sites_expect_opening). */
LOOKUP_ENTRY int lookup_flags(const char *file, int flags, const void *caller);

/* ---- RTLD_DEEPBIND (deepbind.c): what is opened with it, and all that it brings along, looks for
 * functions in its own libraries before it looks at us. Where those use NCCL, the flag must go;
 * everywhere else it stays, because programs that set it mean it. ---- */

/* Whether a library, or one that it needs and that is not loaded yet, names a function that
 * is_caught says nccl-join stands in front of. Looks into the files: `file` and what it needs are
 * searched for in the folders that dlopen would try for `caller`, an address in the object that
 * opens it, and in their own RUNPATH, but not in the dynamic linker's cache (ld.so.cache). False if
 * in doubt. Any thread. */
bool deepbind_hides_nccl(const char *file, const void *caller, bool (*is_caught)(const char *name));

/* ---- weak references (weak.c) to functions that came with a later NCCL than the one at hand: a
 * program that is linked so asks by them whether its NCCL has a function. Because of our exports
 * they would all be there. The dynamic linker has bound them to us by the time that anything of
 * ours can run. ---- */

/* Takes them back: a reference that is weak, and bound to a function of ours that the real NCCL
 * lacks, becomes NULL again. In the objects that a program begins with; without NCCL among them, in
 * the program itself alone. In what is opened later such references stay bound to us, and a call
 * returns ncclInvalidUsage.
 *
 * To be called before main, on its thread. Costs a process without NCCL one look-up and a walk over
 * the program's relocations. */
void weak_take_back(void);

#endif
