/* The place of a thread that waits for the calling one (python_frames.h).
 *
 * PyTorch runs backward passes in threads of its own, which have no Python frames but those of what
 * they call back; the thread that called backward() waits for them without the GIL, in a call made
 * by a function of torch.autograd. While it waits it stands still, but nothing says that it still
 * waits: its state, frames and code may go at any time. So they are read by system calls only, and
 * the read counts only if the thread has not run meanwhile: its processor time, which the kernel
 * counts in nanoseconds, is the same before and after. The fast path is that alone: while the
 * processor times of all Python threads are those of the last call, nothing has changed. A thread
 * that runs (on its way into the wait, or it does a part of the backward pass itself), or whose
 * time the kernel does not tell, has no GIL, without which it cannot change its frames: two reads
 * have to agree. Before 3.11 CPython does not say which thread of the system a state is of, and
 * there is no id.
 */
#include "interpose/places/python/python_frames.h"

#include "interpose/places/python/python_ahead.h"
#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_memory.h"
#include "interpose/places/python/python_opcodes.h"
#include "interpose/places/python/python_rounds.h"
#include "interpose/places/python/python_thread.h"
#include "interpose/places/python/python_watch.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, TRIES = 64 };

/* ---- one thread ---- */

struct waiting {
  uint64_t thread; /* its number; 0: not known */
  uint32_t id;     /* of its chain; 0: it does not wait */
  bool runs;       /* it is in a backward pass, and its frames change */
  bool unclear;    /* it is in one, and does not stand in the call, or cannot be read */
  struct python_outermost outermost;
};

/* A thread state, as far as it is read at once: it is larger in all versions. */
struct state {
  uint64_t address;
  _Alignas(8) uint8_t bytes[256];
};

static uint64_t state_word(const struct state *state, uint16_t offset) {
  bool is_here = offset + sizeof(uint64_t) <= sizeof(state->bytes);
  return is_here ? python_word(state->bytes + offset) : python_memory_word(state->address + offset);
}

/* Not from what has been read ahead: it is asked last of all, too. */
static bool may_hold_gil(const struct python_layout *layout, uint64_t state) {
  uint8_t flags;
  if (layout->at.state_active == 0)
    return (uint64_t)layout->current_state() == state;
  return !python_memory_read(&flags, state + layout->at.state_active, 1) || (flags & 1 << 4) != 0;
}

/* The functions of torch.autograd that call the engine: the first one since PyTorch 2.3, the others
 * before (torch/autograd/graph.py, torch/autograd/__init__.py). Into other ones all kinds of
 * threads go (no_grad), and wait for the GIL there. */
static bool calls_engine(const struct python_code *code) {
  static const char *const functions[] = {"_engine_run_backward", "backward", "grad"};
  bool calls = false;
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
    calls |= strcmp(code->name, functions[i]) == 0;
  return calls && strstr(code->file, "torch/autograd/") != NULL;
}

/* What is asked of the innermost frame: whether it stands at a call in such a function. */
static uint64_t is_in_backward(const struct python_layout *layout,
                               const struct python_frame *frame) {
  struct python_code *code = python_code_read(layout, frame->code);
  bool is_there = code != NULL && calls_engine(code);
  uint32_t unit = is_there ? python_code_instruction(layout, code, frame->where) : UINT32_MAX;
  is_there = unit != UINT32_MAX &&
             python_opcode_of(layout->opcodes, code->units[(size_t)2 * unit]) == OPCODE_CALL;
  python_code_free(code);
  return is_there;
}

static uint64_t innermost_of(const struct python_layout *layout, struct python_ahead *ahead,
                             const struct state *state) {
  uint64_t frame = state_word(state, layout->at.state_frame);
  if (layout->at.cframe_frame < 0 || frame == 0)
    return frame;
  return python_ahead_word(ahead, frame + (uint64_t)layout->at.cframe_frame);
}

/* Goes one frame of Python code out from *address. False at the end of the chain, with *address 0,
 * or where there is no frame, with *address not 0. check: of the frame. */
static bool read_frame(const struct python_layout *layout, struct python_ahead *ahead,
                       uint64_t *address, struct python_frame *frame, uint64_t *check) {
  for (unsigned i = 0; i < PYTHON_FRAMES_MAX && *address != 0 && *address % 8 == 0; i++) {
    _Alignas(8) uint8_t bytes[UINT8_MAX + 1], header[PYTHON_HEADER_MAX];
    frame->address = *address;
    if (!python_ahead_read(ahead, bytes, *address, layout->at.frame_size))
      break;
    *address = python_word(bytes + layout->at.frame_previous);
    if (!python_frame_of(&layout->at, layout->minor, bytes, frame))
      continue;
    bool is_read = python_ahead_read(ahead, header, frame->code, layout->at.code_size);
    if (is_read)
      *check = python_frame_check(layout, frame, header);
    else
      *address = frame->address;
    return is_read;
  }
  return false;
}

/* Where a thread is in a backward pass: with its innermost frame, or it does a part of that pass,
 * in Python. */
enum in_backward { BACKWARD_NOT, BACKWARD_STANDS, BACKWARD_WORKS };

static enum in_backward place_in_backward(const struct python_layout *layout,
                                          struct python_ahead *ahead, uint64_t innermost) {
  struct python_frame frame;
  uint64_t check;
  for (unsigned i = 0;
       i < PYTHON_FRAMES_MAX && read_frame(layout, ahead, &innermost, &frame, &check); i++)
    if (python_frame_known(layout, &frame, check, is_in_backward) != 0)
      return i == 0 ? BACKWARD_STANDS : BACKWARD_WORKS;
  return BACKWARD_NOT;
}

/* Returns the id of the chain; 0: it is none of a thread that waits. */
static uint32_t read_chain(const struct python_layout *layout, struct python_ahead *ahead,
                           uint64_t innermost, struct python_outermost *outermost) {
  uint64_t chain = 0, address = innermost, check;
  struct python_frame frame;
  outermost->came = 0;
  if (place_in_backward(layout, ahead, innermost) != BACKWARD_STANDS)
    return 0;
  for (unsigned i = 0; i < 2 * PYTHON_FRAMES_MAX && address != 0; i++) {
    if (!read_frame(layout, ahead, &address, &frame, &check))
      break;
    uint64_t hash = python_frame_hash_unsafe(layout, &frame, check);
    if (hash == PYTHON_FRAME_UNKNOWN)
      return 0;
    chain = python_chain_add(chain, hash);
    python_outermost_add(outermost, &frame, hash);
  }
  return address == 0 ? python_chain_id(chain) : 0;
}

/* ---- all threads ---- */

struct search {
  const struct python_layout *layout;
  struct python_ahead *ahead;
  struct python_watch *watch;
};

/* The chain as it is now, whatever has been read ahead. */
static uint32_t read_chain_now(const struct python_layout *layout, struct state *state,
                               struct python_outermost *outermost) {
  if (!python_memory_read(state->bytes, state->address, sizeof(state->bytes)))
    return 0;
  return read_chain(layout, NULL, innermost_of(layout, NULL, state), outermost);
}

static void look_at(const struct search *search, struct state *state, struct waiting *waiting) {
  const struct python_layout *layout = search->layout;
  uint16_t native = layout->at.state_native;
  *waiting = (struct waiting){.thread = native == 0 ? 0 : state_word(state, native)};
  uint64_t time = python_watch_thread(search->watch, waiting->thread);
  uint64_t innermost = innermost_of(layout, search->ahead, state);
  enum in_backward in = place_in_backward(layout, search->ahead, innermost);
  waiting->unclear = in == BACKWARD_WORKS;
  if (in != BACKWARD_STANDS || may_hold_gil(layout, state->address))
    return;
  bool is_old = time != 0;
  if (!is_old)
    time = python_watch_time(waiting->thread);
  waiting->id = is_old ? read_chain(layout, search->ahead, innermost, &waiting->outermost)
                       : read_chain_now(layout, state, &waiting->outermost);
  waiting->unclear = waiting->id == 0;
  if (waiting->id == 0)
    return;
  bool stood = time != 0 && python_watch_time(waiting->thread) == time;
  bool is_whole = stood || read_chain_now(layout, state, &waiting->outermost) == waiting->id;
  waiting->runs = !is_whole || may_hold_gil(layout, state->address);
  if (waiting->runs)
    waiting->id = 0;
}

/* False: none waits, several do or may do at different places, or one is about to (found->runs). */
static bool look_at_all(const struct search *search, struct waiting *found) {
  const struct python_layout *layout = search->layout;
  uint64_t own = (uint64_t)layout->thread_state();
  uint64_t interpreter = (uint64_t)layout->main_interpreter();
  struct state state = {.address = 0};
  bool runs = false;
  if (interpreter != 0)
    state.address = python_ahead_word(search->ahead, interpreter + layout->at.state_interp_threads);
  for (int i = 0; i < THREADS_MAX && state.address != 0; i++) {
    struct waiting waiting = {.id = 0};
    if (!python_ahead_read(search->ahead, state.bytes, state.address, sizeof(state.bytes)))
      break;
    if (state.address != own)
      look_at(search, &state, &waiting);
    if (waiting.unclear || (waiting.id != 0 && found->id != 0 && waiting.id != found->id))
      return false;
    if (waiting.id != 0)
      *found = waiting;
    runs |= waiting.runs;
    state.address = state_word(&state, layout->at.state_next);
  }
  found->runs = runs;
  return found->id != 0 && !runs;
}

static bool python_search(const struct python_layout *layout, struct python_watch *watch,
                          struct waiting *found) {
  python_watch_begin(watch);
  struct search search = {layout, python_ahead_begin(), watch};
  *found = (struct waiting){.id = 0};
  bool waits = look_at_all(&search, found);
  python_ahead_end(search.ahead);
  python_watch_end(watch);
  return waits;
}

/* The first gradient may come before the thread that has called backward() has begun to wait. It is
 * nearly there, and has no GIL to wait for. */
static bool search_again(const struct python_layout *layout, struct python_watch *watch,
                         struct waiting *found) {
  for (int i = 0; i < TRIES && found->runs; i++) {
    sched_yield();
    if (python_search(layout, watch, found))
      return true;
  }
  return false;
}

static bool python_waiting_find(const struct python_layout *layout, struct python_watch *watch,
                                struct waiting *found) {
  return python_search(layout, watch, found) || search_again(layout, watch, found);
}

/* The outermost frames of what a thread has found last: addresses. In memory of the thread's own,
 * as there is little room for thread-local variables in what is loaded late (NCCL's profiler
 * plug-in). */
enum { FRAMES_KEPT = 24 };
struct frames_kept {
  uint32_t n;
  struct {
    uint64_t frame, code;
  } of[FRAMES_KEPT];
};
static _Thread_local struct frames_kept *kept;
static _Thread_local uint32_t looks; /* how often it has looked */
static pthread_key_t kept_key;

static void forget_frames(void *frames) {
  free(frames);
  kept = NULL;
}

static void make_key(void) {
  (void)pthread_key_create(&kept_key, forget_frames); /* without one it is not freed */
}

static void keep_frames(const struct waiting *found) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const struct python_outermost *outermost = &found->outermost;
  (void)pthread_once(&once, make_key);
  if (kept == NULL && (kept = calloc(1, sizeof(*kept))) != NULL)
    (void)pthread_setspecific(kept_key, kept);
  if (kept == NULL)
    return;
  for (kept->n = 0; found->id != 0 && kept->n < FRAMES_KEPT && kept->n < outermost->came;
       kept->n++) {
    const struct python_frame *frame =
        &outermost->frames[(outermost->came - 1 - kept->n) % PLACE_NODES_MAX];
    kept->of[kept->n].frame = frame->address;
    kept->of[kept->n].code = frame->code;
  }
}

uint32_t python_waiting_looks(void) {
  return looks;
}

uint32_t python_waiting_id(void) {
  static _Thread_local struct python_watch watch;
  static _Thread_local uint32_t last;
  const struct python_layout *layout = python_layout();
  if (layout == NULL || layout->at.state_native == 0)
    return 0;
  if (last != 0 && python_watch_is_still(&watch))
    return last;
  struct waiting found;
  looks++;
  last = python_waiting_find(layout, &watch, &found) ? found.id : 0;
  found.id = last;
  keep_frames(&found);
  return last;
}

uint32_t python_waiting_loops(struct python_loop loops[PLACE_LEVELS]) {
  const struct python_layout *layout = python_layout();
  struct python_outermost outermost;
  return layout != NULL && python_waiting_outermost(layout, &outermost) && outermost.counts
             ? python_outermost_loops(layout, &outermost, loops)
             : 0;
}

bool python_waiting_round(struct python_loop *loop, struct place_round *round) {
  const struct python_layout *layout = python_layout();
  for (uint32_t i = 0; layout != NULL && kept != NULL && i < kept->n; i++) {
    const struct python_frame frame = {.address = kept->of[i].frame, .code = kept->of[i].code};
    if (frame.address != loop->frame || frame.code != loop->code ||
        !python_thread_still_counts(loop->thread))
      continue;
    *round = python_rounds_again(layout, &frame, loop, false);
    return true;
  }
  return false;
}

bool python_waiting_outermost(const struct python_layout *layout,
                              struct python_outermost *outermost) {
  struct python_watch watch = {.n = 0};
  struct waiting found;
  if (!python_waiting_find(layout, &watch, &found))
    return false;
  *outermost = found.outermost;
  python_outermost_of(outermost, found.thread);
  return true;
}

uint32_t python_waiting_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds) {
  const struct python_layout *layout = python_layout();
  struct python_outermost outermost;
  if (layout == NULL || !python_waiting_outermost(layout, &outermost))
    return 0;
  return python_outermost_nodes(layout, &outermost, nodes, room, rounds);
}
