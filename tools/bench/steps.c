/* Single-stepping by ptrace (steps.h). */
#include "tools/bench/steps.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the rank's side ---- */

static void find(const char *const *names, uint64_t *addresses) {
  for (; *names != NULL; names++)
    *addresses++ = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, *names);
}

void steps_watch(struct steps_watched *watched) {
  static const char *const allocations[] = {"malloc",         "calloc", "realloc", "aligned_alloc",
                                            "posix_memalign", "free",   NULL};
  static const char *const mutexes[] = {"pthread_mutex_lock",
                                        "pthread_mutex_trylock",
                                        "pthread_rwlock_rdlock",
                                        "pthread_rwlock_wrlock",
                                        "pthread_cond_wait",
                                        "pthread_cond_timedwait",
                                        "sem_wait",
                                        NULL};
  find(allocations, watched->allocations);
  find(mutexes, watched->mutexes);
}

static void mark(int signal) {
  syscall(SYS_tgkill, getpid(), gettid(), signal);
}

void steps_begin(void) {
  mark(SIGUSR1);
}

void steps_end(void) {
  mark(SIGUSR2);
}

/* ---- the driver's side ---- */

void steps_allow(void) {
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

/* A number where ptrace is declared to take a pointer. */
static void set_options(pid_t child, long options) {
  ptrace(PTRACE_SETOPTIONS, child, NULL, options);
}

static uint64_t program_counter(const struct user_regs_struct *registers) {
#if defined(__x86_64__)
  return registers->rip;
#else
  return registers->pc;
#endif
}

bool steps_knows_locked(void) {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

/* Instructions of x86-64: what stands before the opcode, then the opcode. `lock` is such a prefix;
 * xchg with memory locks without it. */
static bool is_prefix(unsigned char byte) {
  return strchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3", byte) != NULL && byte != 0;
}

static bool x86_is_locked(const unsigned char *code) {
  while (is_prefix(*code))
    code++;
  if (*code == 0xf0)
    return true;
  if ((*code & 0xf0) == 0x40)
    code++;
  bool exchange = code[0] == 0x86 || code[0] == 0x87;
  return exchange && code[1] < 0xc0;
}

static bool is_system_call(const unsigned char *code) {
#if defined(__x86_64__)
  return code[0] == 0x0f && code[1] == 0x05;
#else /* aarch64 */
  return memcmp(code, "\x01\x00\x00\xd4", 4) == 0;
#endif
}

static bool is_one_of(const uint64_t *addresses, uint64_t address) {
  for (int i = 0; i < STEPS_FUNCTIONS; i++)
    if (addresses[i] == address)
      return true;
  return false;
}

/* Counts the instruction that comes next. */
static bool count(pid_t child, const struct steps_watched *watched, struct steps *steps) {
  struct user_regs_struct registers;
  struct iovec all = {&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all) != 0)
    return false;
  uint64_t at = program_counter(&registers);
  errno = 0;
  long word = ptrace(PTRACE_PEEKTEXT, child, at, NULL); /* NOLINT(performance-no-int-to-ptr) */
  if (errno != 0)
    return false;
  unsigned char code[sizeof word];
  memcpy(code, &word, sizeof word);
  steps->instructions++;
  steps->locked += steps_knows_locked() && x86_is_locked(code);
  steps->system_calls += is_system_call(code);
  steps->allocations += is_one_of(watched->allocations, at);
  steps->mutexes += is_one_of(watched->mutexes, at);
  return true;
}

int steps_take(pid_t child, const struct steps_watched *watched, struct steps_taken *taken) {
  *taken = (struct steps_taken){0};
  bool stepping = false, begun = false;
  for (;;) {
    int status;
    if (waitpid(child, &status, 0) != child)
      return -1;
    if (!WIFSTOPPED(status))
      return status;
    if (!begun)
      set_options(child, PTRACE_O_EXITKILL);
    begun = true;
    int signal = WSTOPSIG(status);
    if (signal == SIGUSR1 && taken->nregions < STEPS_REGIONS)
      stepping = true;
    if (signal == SIGUSR2 && stepping) {
      stepping = false;
      taken->nregions++;
    }
    bool ours = signal == SIGTRAP || signal == SIGUSR1 || signal == SIGUSR2;
    if (stepping && ours && !count(child, watched, &taken->regions[taken->nregions]))
      return -1;
    ptrace(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (long)(ours ? 0 : signal));
  }
}

/* With PTRACE_O_TRACESYSGOOD the stops at a system call, on the way in and on the way out, are told
 * from signals by this bit. The last one has no way out. */
#define SYSTEM_CALL_STOP (SIGTRAP | 0x80)

long steps_count_system_calls(pid_t child) {
  long stops = 0;
  bool begun = false;
  for (;;) {
    int status;
    if (waitpid(child, &status, 0) != child)
      return -1;
    if (!WIFSTOPPED(status))
      return status == 0 ? (stops + 1) / 2 : -1;
    if (!begun)
      set_options(child, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
    begun = true;
    int signal = WSTOPSIG(status);
    stops += signal == SYSTEM_CALL_STOP;
    bool ours = signal == SIGTRAP || signal == SYSTEM_CALL_STOP;
    ptrace(PTRACE_SYSCALL, child, NULL, (long)(ours ? 0 : signal));
  }
}
