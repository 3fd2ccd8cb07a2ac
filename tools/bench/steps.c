/* Single-stepping by ptrace (steps.h). */
#include "tools/bench/steps.h"

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
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

/* ---- instructions, decoded by Capstone ---- */

#define INSTRUCTION_MAX 15 /* bytes, on x86-64 */

/* Opened once, for the instructions of this processor. */
static csh decoder(void) {
  static csh handle;
  if (handle != 0)
    return handle;
#if defined(__x86_64__)
  cs_err error = cs_open(CS_ARCH_X86, CS_MODE_64, &handle);
#else
  cs_err error = cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &handle);
#endif
  if (error != CS_ERR_OK || cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
    abort();
  return handle;
}

/* xchg with memory locks without the prefix. */
static bool is_locked(const cs_insn *instruction) {
#if defined(__x86_64__)
  const cs_x86 *x86 = &instruction->detail->x86;
  bool exchange = instruction->id == X86_INS_XCHG;
  return x86->prefix[0] == X86_PREFIX_LOCK ||
         (exchange && (x86->operands[0].type == X86_OP_MEM || x86->operands[1].type == X86_OP_MEM));
#else
  (void)instruction;
  return false;
#endif
}

static bool is_system_call(const cs_insn *instruction) {
#if defined(__x86_64__)
  return instruction->id == X86_INS_SYSCALL;
#else
  return instruction->id == ARM64_INS_SVC;
#endif
}

static void count_kind(const unsigned char *code, size_t size, struct steps *steps) {
  cs_insn *instruction = NULL;
  if (cs_disasm(decoder(), code, size, 0, 1, &instruction) != 1)
    return; /* one that is newer than Capstone, and neither */
  steps->locked += is_locked(instruction);
  steps->system_calls += is_system_call(instruction);
  cs_free(instruction, 1);
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
  unsigned char code[INSTRUCTION_MAX];
  struct iovec here = {code, sizeof code}, there = {(void *)(uintptr_t)at, sizeof code};
  ssize_t got = process_vm_readv(child, &here, 1, &there, 1, 0);
  if (got < 0) { /* the next page may not be there */
    there.iov_len = 4096 - at % 4096 < sizeof code ? 4096 - at % 4096 : sizeof code;
    got = process_vm_readv(child, &here, 1, &there, 1, 0);
  }
  if (got <= 0)
    return false;
  steps->instructions++;
  count_kind(code, (size_t)got, steps);
  steps->allocations += is_one_of(watched->allocations, at);
  steps->mutexes += is_one_of(watched->mutexes, at);
  return true;
}

/* Each instruction takes two switches between the child and this process, which on a busy machine
 * would wait for their turn a million times. What is counted does not depend on who goes first;
 * where it is not allowed, it takes longer. */
static void step_first(pid_t pid, bool first) {
  struct sched_param priority = {.sched_priority = first ? sched_get_priority_min(SCHED_FIFO) : 0};
  sched_setscheduler(pid, first ? SCHED_FIFO : SCHED_OTHER, &priority);
}

static int follow_steps(pid_t child, const struct steps_watched *watched,
                        struct steps_taken *taken) {
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
      step_first(child, stepping = true);
    if (signal == SIGUSR2 && stepping) {
      step_first(child, stepping = false);
      taken->nregions++;
    }
    bool ours = signal == SIGTRAP || signal == SIGUSR1 || signal == SIGUSR2;
    if (stepping && ours && !count(child, watched, &taken->regions[taken->nregions]))
      return -1;
    ptrace(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (long)(ours ? 0 : signal));
  }
}

int steps_take(pid_t child, const struct steps_watched *watched, struct steps_taken *taken) {
  step_first(0, true);
  int status = follow_steps(child, watched, taken);
  step_first(0, false);
  return status;
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
