/* The place of a thread that waits for the calling one (python_frames.h).
 *
 * PyTorch runs backward passes in threads of its own, which have no Python frames but those of what
 * they call back; the thread that called backward() waits for them without the GIL, in a call made
 * by a function of torch.autograd. While it waits it stands still, but nothing says that it still
 * waits: its state, frames and code may go at any time. So they are read by system calls only, and
 * the read counts only if the thread has not run meanwhile: its processor time, which the kernel
 * counts in nanoseconds, is the same before and after. The fast path is that alone: the same thread
 * with the same processor time as at the last call still stands there. Where the kernel does not
 * tell the time, two reads have to agree, and nothing is remembered. Before 3.11 CPython does not
 * say which thread of the system a state is of, and there is no id.
 */
#include "interpose/places/python/python_frames.h"

#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_memory.h"
#include "interpose/places/python/python_opcodes.h"

#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, TRIES = 64 };

/* ---- processor time ---- */

/* Of a thread of this process by its number, as the kernel counts it; 0: not known. The clock's
 * number is that of CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED in the kernel's posix-timers.h. */
static uint64_t processor_time(uint64_t thread) {
  struct timespec time, step;
  clockid_t clock = (clockid_t)(~(uint32_t)thread << 3 | 6);
  if (thread == 0 || clock_getres(clock, &step) != 0 || step.tv_nsec != 1 || step.tv_sec != 0 ||
      clock_gettime(clock, &time) != 0)
    return 0;
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- one thread ---- */

struct waiting {
  uint64_t thread; /* its number; 0: not known */
  uint64_t time;   /* what its processor time has been since it stands there */
  uint32_t id;     /* of its chain; 0: it does not wait */
  bool runs;       /* it is in a backward pass, but on its way into the wait or out of it */
  struct python_outermost outermost;
};

static bool may_hold_gil(const struct python_layout *layout, uint64_t state) {
  uint8_t flags;
  if (layout->at.state_active == 0)
    return (uint64_t)layout->current_state() == state;
  return !python_memory_read(&flags, state + layout->at.state_active, 1) || (flags & 1 << 4) != 0;
}

/* Whether the innermost frame stands at a call in torch.autograd. */
static bool is_in_backward(const struct python_layout *layout, const struct python_frame *frame) {
  struct python_code *code = python_code_read(layout, frame->code);
  bool is_there = code != NULL && strstr(code->file, "torch/autograd/") != NULL;
  uint32_t unit = is_there ? python_code_instruction(layout, code, frame->where) : UINT32_MAX;
  is_there = unit != UINT32_MAX &&
             python_opcode_of(layout->opcodes, code->units[(size_t)2 * unit]) == OPCODE_CALL;
  python_code_free(code);
  return is_there;
}

static uint64_t innermost_of(const struct python_layout *layout, uint64_t state) {
  uint64_t frame = python_memory_word(state + layout->at.state_frame);
  if (layout->at.cframe_frame < 0 || frame == 0)
    return frame;
  return python_memory_word(frame + (uint64_t)layout->at.cframe_frame);
}

/* Returns the id of the chain; 0: it is none of a thread that waits. */
static uint32_t read_chain(const struct python_layout *layout, uint64_t state,
                           struct python_outermost *outermost) {
  uint64_t chain = 0, address = innermost_of(layout, state);
  outermost->came = 0;
  for (unsigned i = 0, n = 0; i < 2 * PYTHON_FRAMES_MAX && address != 0; i++) {
    _Alignas(8) uint8_t bytes[UINT8_MAX + 1];
    struct python_frame frame = {.address = address};
    if (address % 8 != 0 || !python_memory_read(bytes, address, layout->at.frame_size))
      return 0;
    address = python_word(bytes + layout->at.frame_previous);
    if (!python_frame_of(&layout->at, layout->minor, bytes, &frame))
      continue;
    if (n++ == 0 && !is_in_backward(layout, &frame))
      return 0;
    uint64_t hash = python_frame_hash_unsafe(layout, &frame);
    if (hash == PYTHON_FRAME_UNKNOWN)
      return 0;
    chain = python_chain_add(chain, hash);
    python_outermost_add(outermost, &frame, hash);
  }
  return address == 0 ? python_chain_id(chain) : 0;
}

static void look_at(const struct python_layout *layout, uint64_t state, struct waiting *waiting) {
  waiting->id = 0;
  waiting->runs = false;
  waiting->thread =
      layout->at.state_native == 0 ? 0 : python_memory_word(state + layout->at.state_native);
  waiting->time = processor_time(waiting->thread);
  if (may_hold_gil(layout, state))
    return;
  uint32_t id = read_chain(layout, state, &waiting->outermost);
  if (id == 0)
    return;
  bool stood = waiting->time != 0 ? processor_time(waiting->thread) == waiting->time
                                  : read_chain(layout, state, &waiting->outermost) == id;
  if (stood && !may_hold_gil(layout, state))
    waiting->id = id;
  else
    waiting->runs = true;
}

/* ---- the one thread ---- */

/* False: none waits, several do at different places, or one may be about to (found->runs). */
static bool python_search(const struct python_layout *layout, struct waiting *found) {
  uint64_t own = (uint64_t)layout->thread_state();
  uint64_t interpreter = (uint64_t)layout->main_interpreter();
  uint64_t state =
      interpreter == 0 ? 0 : python_memory_word(interpreter + layout->at.state_interp_threads);
  bool runs = false;
  *found = (struct waiting){.id = 0};
  for (int i = 0; i < THREADS_MAX && state != 0; i++) {
    struct waiting waiting = {.id = 0};
    if (state != own)
      look_at(layout, state, &waiting);
    if (waiting.id != 0 && found->id != 0 && waiting.id != found->id)
      return false;
    if (waiting.id != 0)
      *found = waiting;
    runs |= waiting.runs;
    state = python_memory_word(state + layout->at.state_next);
  }
  found->runs = runs;
  return found->id != 0 && !runs;
}

/* The first gradient may come before the thread that has called backward() has begun to wait. It is
 * nearly there, and has no GIL to wait for. */
static bool search_again(const struct python_layout *layout, struct waiting *found) {
  for (int i = 0; i < TRIES && found->runs; i++) {
    sched_yield();
    if (python_search(layout, found))
      return true;
  }
  return false;
}

static bool python_waiting_find(const struct python_layout *layout, struct waiting *found) {
  return python_search(layout, found) || search_again(layout, found);
}

uint32_t python_waiting_id(void) {
  static _Thread_local struct {
    uint64_t thread, time;
    uint32_t id;
  } last;
  const struct python_layout *layout = python_layout();
  if (layout == NULL || layout->at.state_native == 0)
    return 0;
  if (last.id != 0 && processor_time(last.thread) == last.time)
    return last.id;
  last.id = 0;
  struct waiting found;
  if (!python_waiting_find(layout, &found))
    return 0;
  last.thread = found.thread;
  last.time = found.time;
  last.id = found.time == 0 ? 0 : found.id;
  return found.id;
}

bool python_waiting_outermost(const struct python_layout *layout,
                              struct python_outermost *outermost) {
  struct waiting found;
  if (!python_waiting_find(layout, &found))
    return false;
  *outermost = found.outermost;
  outermost->is_main = found.thread == (uint64_t)getpid();
  return true;
}

uint32_t python_waiting_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds) {
  const struct python_layout *layout = python_layout();
  struct python_outermost outermost;
  if (layout == NULL || !python_waiting_outermost(layout, &outermost))
    return 0;
  return python_outermost_nodes(layout, &outermost, nodes, room, rounds);
}
