/* Sends the calls of libnccl to CUDA's runtime, which is linked into it, to the loopback's.
 *
 * libnccl.so.2 lies beside this library (a link to the file that NVIDIA ships), and is loaded as
 * soon as this library is, before anything can call it: whoever opens it later gets the same one.
 * Its functions named cuda... get a jump as their first bytes; NCCL's own code is left alone. */
#include "tests/nccl/emulation.h"

#include "tests/nccl/device.h"
#include "tests/nccl/image.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *runtime;

void *emulated_find(const struct emulated *table, size_t size, const char *name) {
  for (size_t i = 0; i < size; i++)
    if (strcmp(table[i].name, name) == 0)
      return table[i].function;
  return NULL;
}

static cudaError_t missing(const char *name) {
  fprintf(stderr, "NCCL emulation: %s is not emulated\n", name);
  return cudaErrorNotSupported;
}

/* A function that calls missing with a name: mov $name, %rdi; mov $missing, %rax; jmp *%rax */
static void *stub(const char *name) {
  static unsigned char *next, *end;
  if (next + 32 > end) {
    next =
        mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (next == MAP_FAILED)
      abort();
    end = next + 65536;
  }
  unsigned char *code = next;
  uint64_t argument = (uint64_t)(uintptr_t)name, target = (uint64_t)(uintptr_t)(void *)missing;
  memcpy(code, "\x48\xbf", 2), memcpy(code + 2, &argument, 8);
  memcpy(code + 10, "\x48\xb8", 2), memcpy(code + 12, &target, 8);
  memcpy(code + 20, "\xff\xe0", 2);
  next += 32;
  return code;
}

/* jmp *0(%rip), and the address behind it. */
enum { JUMP_SIZE = 14 };

static void jump_to(char *at, void *to) {
  unsigned char code[JUMP_SIZE] = {0xff, 0x25};
  memcpy(code + 6, &to, sizeof to);
  char *page = (char *)((uintptr_t)at & ~(uintptr_t)4095);
  mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
  memcpy(at, code, sizeof code);
  mprotect(page, 8192, PROT_READ | PROT_EXEC);
}

static bool is_of_runtime(const char *name) {
  if (strchr(name, '.') != NULL) /* a cold part of a function */
    return false;
  if (strncmp(name, "cuda", 4) == 0)
    return name[4] >= 'A' && name[4] <= 'Z';
  return strncmp(name, "__cudaLaunchKernel", 18) == 0 || strcmp(name, "__cudaGetKernel") == 0 ||
         strcmp(name, "__cudaPopCallConfiguration") == 0 ||
         strcmp(name, "__cudaPushCallConfiguration") == 0;
}

static void redirect(const char *name, char *address, size_t size) {
  if (!is_of_runtime(name) || size < JUMP_SIZE)
    return;
  void *to = runtime_function(name);
  if (to == NULL)
    to = launch_function(name);
  if (to == NULL)
    to = dlsym(runtime, name);
  jump_to(address, to != NULL ? to : stub(name));
}

/* What NCCL would find on a machine with NVLink, or what is not emulated: README.md. */
static void choose_settings(void) {
  static const char *const settings[][2] = {
      {"NCCL_P2P_DISABLE", "1"},    {"NCCL_CUMEM_ENABLE", "0"},  {"NCCL_CUMEM_HOST_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},    {"NCCL_PAT_ENABLE", "0"},    {"NCCL_NET", "Socket"},
      {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_RAS_ENABLE", "0"},    {"NCCL_GRAPH_MIXING_SUPPORT", "0"},
      {"NCCL_MAX_NCHANNELS", "2"},  {"NCCL_BUFFSIZE", "524288"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    setenv(settings[i][0], settings[i][1], 0);
  if (getenv("EMULATION_HOST_PER_PROCESS") != NULL) {
    char id[32];
    snprintf(id, sizeof id, "process-%d", (int)getpid());
    setenv("NCCL_HOSTID", id, 0);
  }
}

static void give_up(const char *why, const char *what) {
  fprintf(stderr, "NCCL emulation: %s: %s\n", why, what);
  exit(EXIT_FAILURE);
}

static void *open_beside(const char *folder, int length, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%.*s/%s", length, folder, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    give_up("cannot load a library", dlerror());
  return library;
}

__attribute__((constructor)) static void start(void) {
  Dl_info self;
  char path[PATH_MAX]; /* of the file, which may have been opened by a link from elsewhere */
  if (dladdr((void *)start, &self) == 0 || realpath(self.dli_fname, path) == NULL)
    give_up("no such file", self.dli_fname);
  int length = (int)(strrchr(path, '/') - path);
  choose_settings();
  runtime = open_beside(path, length, EMULATED_RUNTIME);
  (void)open_beside(path, length, "libnvidia-ml.so.1"); /* NCCL opens it by its name only */
  void *nccl = open_beside(path, length, "libnccl.so.2");
  struct link_map *map;
  if (dlinfo(nccl, RTLD_DI_LINKMAP, &map) != 0 || !image_read(map->l_name, (char *)map->l_addr))
    give_up("no symbols", map->l_name);
  if (!kernel_prepare())
    give_up("no table of device functions", map->l_name);
  image_each_function(redirect);
  fresh_memory(map);
}
