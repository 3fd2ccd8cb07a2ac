/* Questions to MPI (exit_points.h). */
#include "interpose/exits/exit_points.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/report/log.h"
#include "interpose/elf/linker.h"

/* The same in both (mpi.h of Open MPI 4.1 and of MPICH 4.0): MPI_IDENT, MPI_CONGRUENT and
 * MPI_SIMILAR have the same ranks. */
#define MPI_SUCCESS 0
#define MPI_SIMILAR 2

/* MPI_COMM_WORLD of MPICH's. */
#define MPICH_WORLD 0x44000000

/* The symbol that MPI_COMM_WORLD is the address of in Open MPI, and one that only libraries of
 * MPICH's interface have: their mpi.h names it. */
#define OPEN_MPI_WORLD "ompi_mpi_comm_world"
#define OF_MPICH "MPIR_Dup_fn"

typedef int size_function(uintptr_t communicator, int *size);
typedef int compare_function(uintptr_t a, uintptr_t b, int *result);

struct mpi {
  uintptr_t world;
  size_function *size;
  compare_function *compare;
};

/* A program that is not built with -fPIC has a copy of the object, which MPI uses as well
 * (R_X86_64_COPY): what all others find comes first. */
static void *open_mpi_world(void *handle) {
  void *own = linker_dlsym(handle, OPEN_MPI_WORLD);
  void *found = own != NULL ? linker_dlsym(RTLD_DEFAULT, OPEN_MPI_WORLD) : NULL;
  return found != NULL ? found : own;
}

/* `handle`: of the library, or RTLD_DEFAULT. False if it is none that is known. */
static bool look_in(void *handle, struct mpi *mpi) {
  void *world = open_mpi_world(handle);
  mpi->world = world != NULL ? (uintptr_t)world : MPICH_WORLD;
  *(void **)&mpi->size = linker_dlsym(handle, "PMPI_Comm_size"); /* as dlsym(3) says */
  *(void **)&mpi->compare = linker_dlsym(handle, "PMPI_Comm_compare");
  return mpi->size != NULL && mpi->compare != NULL &&
         (world != NULL || linker_dlsym(handle, OF_MPICH) != NULL);
}

/* The library of the function, or what it needs: a tool that stands in front of MPI. */
static bool mpi_find(void *function, struct mpi *mpi) {
  Dl_info object;
  void *handle = dladdr(function, &object) != 0 && object.dli_fname[0] == '/'
                     ? linker_dlopen(object.dli_fname, RTLD_NOLOAD | RTLD_LAZY)
                     : NULL;
  bool found = handle != NULL && look_in(handle, mpi);
  if (handle != NULL)
    dlclose(handle); /* it stays as long as its function is called */
  return found || look_in(RTLD_DEFAULT, mpi);
}

uint32_t mpi_ranks(void *function, const uintptr_t *communicator) {
  struct mpi mpi;
  int nranks = 0, result = MPI_SIMILAR;
  if (!mpi_find(function, &mpi)) {
    log_once(LOG_LEVEL_INFO, "this MPI is neither Open MPI nor of MPICH's interface: ranks do not "
                             "wait for each other in MPI_Barrier and MPI_Finalize");
    return 0;
  }
  if (communicator != NULL && *communicator != mpi.world &&
      (mpi.compare(*communicator, mpi.world, &result) != MPI_SUCCESS || result > MPI_SIMILAR))
    return 0;
  return mpi.size(mpi.world, &nranks) == MPI_SUCCESS && nranks > 0 ? (uint32_t)nranks : 0;
}
