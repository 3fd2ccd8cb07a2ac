/* Ids, nodes and texts of the calling thread (python_frames.h).
 *
 * A thread that is inside a C function cannot change its own frames, nor can another one, so they
 * may be read with plain loads, without the GIL: from PyGILState_GetThisThreadState, which only
 * asks for a thread's own key, along the chain of frames. That the layout is the right one is seen
 * once, without the risk of a fault (python_check.h).
 */
#include "interpose/places/python/python_frames.h"

#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_check.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_loops.h"
#include "interpose/places/python/python_rounds.h"
#include "interpose/places/python/python_thread.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Deeper chains have no nodes. */
enum { DEPTH_MAX = 1 << 17 };

bool python_is_present(void) {
  return python_layout() != NULL;
}

bool python_is_unreadable(void) {
  return python_layout() == NULL && python_layout_is_refused();
}

bool python_is_in(uintptr_t base) {
  return python_layout() != NULL && base == python_layout_base();
}

/* ---- the chain ---- */

uint64_t python_own_frames(const struct python_layout *layout) {
  uint64_t state = (uint64_t)layout->thread_state();
  uint64_t frame = state == 0 ? 0 : python_innermost(&layout->at, state);
  bool is_sure = frame == 0 || python_chain_is_compared() || python_chain_check(layout, state);
  return is_sure ? frame : 0;
}

static bool next_frame(const struct python_layout *layout, uint64_t *address,
                       struct python_frame *frame) {
  return python_next_frame(&layout->at, layout->minor, layout->code_type, address, frame);
}

/* ---- nodes ---- */

/* The outermost frames of the calling thread; asks: whether its rounds count. False: they cannot be
 * read. */
static bool read_outermost(const struct python_layout *layout, bool asks,
                           struct python_outermost *outermost) {
  uint64_t address = layout == NULL ? 0 : python_own_frames(layout);
  struct python_frame frame;
  *outermost = (struct python_outermost){.came = 0};
  if (address == 0)
    return false;
  if (asks)
    python_outermost_of(outermost, (uint64_t)syscall(SYS_gettid));
  for (unsigned i = 0; i < DEPTH_MAX && address != 0 && next_frame(layout, &address, &frame); i++) {
    uint64_t hash = python_frame_hash(layout, &frame);
    if (hash == PYTHON_FRAME_UNKNOWN)
      return false;
    python_outermost_add(outermost, &frame, hash);
  }
  return address == 0; /* neither too deep nor broken */
}

uint32_t python_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds) {
  const struct python_layout *layout = python_layout();
  struct python_outermost outermost;
  return read_outermost(layout, rounds != NULL, &outermost)
             ? python_outermost_nodes(layout, &outermost, nodes, room, rounds)
             : 0;
}

/* ---- rounds ---- */

uint32_t python_call_loops(struct python_loop loops[PLACE_LEVELS]) {
  const struct python_layout *layout = python_layout();
  struct python_outermost outermost;
  return read_outermost(layout, true, &outermost) && outermost.counts
             ? python_outermost_loops(layout, &outermost, loops)
             : 0;
}

bool python_loop_round(struct python_loop *loop, struct place_round *round) {
  const struct python_layout *layout = python_layout();
  uint64_t address = layout == NULL ? 0 : python_own_frames(layout);
  struct python_frame frame;
  for (unsigned i = 0; i < DEPTH_MAX && address != 0 && next_frame(layout, &address, &frame); i++) {
    if (frame.address != loop->frame)
      continue;
    if (frame.code != loop->code || !python_thread_still_counts(loop->thread))
      return false;
    *round = python_rounds_again(layout, &frame, loop, true);
    return true;
  }
  return false;
}

/* ---- texts ---- */

/* A text as it is put together, from the innermost frame outward. */
struct chain_text {
  char *text;
  size_t size, length;
  uint32_t frames;
};

/* Adds a frame, if the whole of it fits: " < train.py:41 in the loop of train.py:38". */
static void add_frame(struct chain_text *to, const char *base, uint32_t line, uint32_t loop) {
  const char *before = to->length == 0 ? "" : " < ";
  size_t room = to->size - to->length;
  int length = loop == 0 ? snprintf(to->text + to->length, room, "%s%s:%u", before, base, line)
                         : snprintf(to->text + to->length, room, "%s%s:%u in the loop of %s:%u",
                                    before, base, line, base, loop);
  to->frames++;
  if (length > 0 && (size_t)length < room)
    to->length += (size_t)length;
  else if (to->length == 0)
    to->length = to->size - 1;
  else
    to->text[to->length] = '\0';
}

/* Of the program the innermost frame and the one that called it, whatever they are; further out
 * what stands in a loop. */
static void python_frames_describe(const struct python_layout *layout,
                                   const struct python_code *code, uint32_t instruction,
                                   struct chain_text *to) {
  uint32_t loop = python_loops_line(layout, code, instruction);
  if (to->frames < 2 || loop != 0)
    add_frame(to, python_base_name(code->file), python_line(layout->minor, code, instruction),
              loop);
}

enum { FRAMES_NAMED = 3, FRAMES_LOOKED_AT = 64 };

/* Goes on with the frames of the thread that waits for this one. */
static void python_waiting_describe(const struct python_layout *layout, struct chain_text *to) {
  struct python_outermost outermost;
  if (!python_waiting_outermost(layout, &outermost))
    return;
  uint32_t nframes = outermost.came < PLACE_NODES_MAX ? outermost.came : PLACE_NODES_MAX;
  for (uint32_t i = 0; i < nframes && to->frames < FRAMES_NAMED; i++) {
    uint32_t at = (outermost.came - nframes + i) % PLACE_NODES_MAX;
    const struct python_frame *frame = &outermost.frames[at];
    struct python_code *code = python_code_read(layout, frame->code);
    uint32_t instruction =
        code == NULL ? UINT32_MAX : python_code_instruction(layout, code, frame->where);
    if (instruction != UINT32_MAX && !python_code_is_installed(code) &&
        python_frame_hash_of(layout, code, frame->where) == outermost.hashes[at])
      python_frames_describe(layout, code, instruction, to);
    python_code_free(code);
  }
}

void python_text(char *text, size_t size, bool waited_for) {
  if (size == 0)
    return;
  text[0] = '\0';
  const struct python_layout *layout = python_layout();
  uint64_t address = layout == NULL ? 0 : python_own_frames(layout);
  struct python_frame frame;
  struct chain_text of_program = {.text = text, .size = size}, innermost = of_program;
  for (unsigned i = 0, more = 0;
       i < PYTHON_FRAMES_MAX && more < FRAMES_LOOKED_AT && of_program.frames < FRAMES_NAMED &&
       address != 0 && next_frame(layout, &address, &frame);
       i++) {
    struct python_code *code = python_code_read(layout, frame.code);
    uint32_t instruction =
        code == NULL ? UINT32_MAX : python_code_instruction(layout, code, frame.where);
    if (instruction != UINT32_MAX && !python_code_is_installed(code))
      python_frames_describe(layout, code, instruction, &of_program);
    else if (instruction != UINT32_MAX && innermost.frames == 0 && of_program.frames == 0)
      python_frames_describe(layout, code, instruction, &innermost);
    more += of_program.frames != 0;
    python_code_free(code);
  }
  if (waited_for && layout != NULL)
    python_waiting_describe(layout, &of_program);
}

/* ---- files ---- */

bool python_is_in_file(const char *end) {
  const struct python_layout *layout = python_layout();
  uint64_t address = layout == NULL ? 0 : python_own_frames(layout);
  struct python_frame frame;
  bool is_in = false;
  for (unsigned i = 0;
       i < PYTHON_CALLERS && !is_in && address != 0 && next_frame(layout, &address, &frame); i++) {
    struct python_code *code = python_code_read(layout, frame.code);
    size_t length = code == NULL ? 0 : strlen(code->file);
    is_in = code != NULL && length >= strlen(end) &&
            strcmp(code->file + length - strlen(end), end) == 0;
    python_code_free(code);
  }
  return is_in;
}
