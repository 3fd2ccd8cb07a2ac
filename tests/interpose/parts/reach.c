/* A program that makes a communicator of one rank and says what came of it; for each way to come to
 * NCCL. It knows nothing of nccl-join.
 *
 *   reach HOW FILE      with LOOKED_UP: FILE is opened "local", "global" or "deepbind", and
 *                       functions are looked up in it
 *   reach plugin FILE, reach deep FILE
 *                       with HOST: FILE is a plug-in, opened RTLD_LOCAL or RTLD_DEEPBIND
 *   reach               otherwise linked to NCCL; with PLUGIN only the plug-in
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <nccl.h>

__attribute__((visibility("default"))) int reach(void);

#ifdef LOOKED_UP
static void *library;
#define FIND(name)                                                                                 \
  __typeof__(nccl##name) *name = (__typeof__(nccl##name) *)dlsym(library, "nccl" #name)
#else
#define FIND(name) __typeof__(nccl##name) *name = nccl##name
#endif

#ifndef HOST
int reach(void) {
  FIND(GetUniqueId);
  FIND(CommInitRank);
  FIND(CommDestroy);
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclResult_t got = GetUniqueId(&id);
  ncclResult_t made = CommInitRank(&comm, 1, id, 0);
  printf("id %d, communicator %d\n", got, made);
  return made == ncclSuccess ? CommDestroy(comm) : 0;
}
#endif

#ifndef PLUGIN
static void *open_as(const char *how, const char *file) {
  int flags = strncmp(how, "deep", 4) == 0 ? RTLD_DEEPBIND
              : strcmp(how, "global") == 0 ? RTLD_GLOBAL
                                           : RTLD_LOCAL;
  void *handle = dlopen(file, RTLD_LAZY | flags);
  if (handle == NULL)
    puts(dlerror());
  return handle;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
#if defined(LOOKED_UP)
  library = argc == 3 ? open_as(argv[1], argv[2]) : NULL;
  return library == NULL ? 98 : reach();
#elif defined(HOST)
  void *plugin = argc == 3 ? open_as(argv[1], argv[2]) : NULL;
  int (*run)(void) = plugin == NULL ? NULL : (int (*)(void))dlsym(plugin, "reach");
  return run == NULL ? 98 : run();
#else
  return argc == 1 && argv[0] != NULL ? reach() : 98;
#endif
}
#endif
