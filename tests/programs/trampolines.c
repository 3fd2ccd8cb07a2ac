/* NCCL's functions for a program that is not linked to it, as JAX, TensorFlow, XGBoost and
 * CTranslate2 have them: each looks the real one up at its first call, in a library that is opened
 * then.
 *
 * NCCL_FILES names the library, or several with colons between them: then the first communicator is
 * made by the first, the next by the second, and so on in turn. Default: libnccl.so.2.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIBRARIES_MAX = 4, COMMS_MAX = 16 };

static void *libraries[LIBRARIES_MAX];
static int nlibraries;

static struct {
  ncclComm_t comm;
  void *library;
} made[COMMS_MAX];
static int nmade;

static void open_libraries(void) {
  const char *files = getenv("NCCL_FILES");
  char *list = strdup(files == NULL ? "libnccl.so.2" : files), *rest;
  for (char *file = strtok_r(list, ":", &rest); file != NULL && nlibraries < LIBRARIES_MAX;
       file = strtok_r(NULL, ":", &rest)) {
    libraries[nlibraries] = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (libraries[nlibraries++] == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      exit(1);
    }
  }
  free(list);
}

/* The library that makes the next communicator, or has made this one. */
static void *library_of(ncclComm_t comm) {
  if (nlibraries == 0)
    open_libraries();
  for (int i = 0; i < nmade; i++)
    if (comm != NULL && made[i].comm == comm)
      return made[i].library;
  return libraries[nmade % nlibraries];
}

static void *find(void *library, const char *name) {
  void *function = dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return function;
}

#define REAL(library, name) ((__typeof__(nccl##name) *)find(library, "nccl" #name))

const char *ncclGetErrorString(ncclResult_t result) {
  return REAL(library_of(NULL), GetErrorString)(result);
}
const char *ncclGetLastError(ncclComm_t comm) {
  return REAL(library_of(comm), GetLastError)(comm);
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  return REAL(library_of(NULL), GetUniqueId)(id);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  void *library = library_of(NULL);
  ncclResult_t result = REAL(library, CommInitRank)(comm, nranks, id, rank);
  if (result == ncclSuccess && nmade < COMMS_MAX) {
    made[nmade].comm = *comm;
    made[nmade++].library = library;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return REAL(library_of(comm), AllReduce)(send, receive, count, datatype, op, comm, stream);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  return REAL(library_of(comm), CommGetAsyncError)(comm, error);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return REAL(library_of(comm), CommAbort)(comm);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return REAL(library_of(comm), CommFinalize)(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return REAL(library_of(comm), CommDestroy)(comm);
}

/* A group is one of each library. */
ncclResult_t ncclGroupStart(void) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < nlibraries && result == ncclSuccess; i++)
    result = REAL(libraries[i], GroupStart)();
  return result;
}
ncclResult_t ncclGroupEnd(void) {
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < nlibraries && result == ncclSuccess; i++)
    result = REAL(libraries[i], GroupEnd)();
  return result;
}
