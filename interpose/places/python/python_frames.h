/* The place of a call in the Python program that makes it (core/place/place.h).
 *
 * Read without the interpreter's help: no GIL is taken or needed, and no function of CPython is
 * called that could run Python code. CPython 3.9 to 3.14 are known, release versions and ordinary
 * builds. Of anything else (other versions, free-threaded and debug builds, other implementations)
 * nothing is read, and everything here says "not known".
 *
 * Every function may be called by any thread at any time between the start of the process and its
 * end, but not in a signal handler.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_FRAMES_H
#define NCCL_JOIN_INTERPOSE_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/place/place_rounds.h"

/* Frames that count for an id: the innermost ones. The nodes come from all frames, of at most
 * 131,072. */
#define PYTHON_FRAMES_MAX 256u

/* Whether a CPython that can be read has been loaded. A load and a branch where there is one. Where
 * there is none, what is loaded is looked at in the first 64 calls of any function here, and
 * whenever their number is a power of two. */
bool python_is_present(void);

/* Whether there is a CPython that cannot be read: what runs in it is not seen. */
bool python_is_unreadable(void);

/* Whether the object loaded at `base` is the one that CPython is in: a libpython, or the program.
 */
bool python_is_in(uintptr_t base);

/* What the chain of Python frames of the calling thread is called: for each frame its code (base
 * name of the file, qualified name, first line, names used, table of lines) and the instruction
 * that it stands at. Equal in all processes that run the same script with the same Python, wherever
 * it lies. 0: no frames, or they cannot be read.
 *
 * Frames of runners (runpy, importlib's bootstrap, asyncio's loop) do not count, neither here nor
 * as nodes. Of a chain deeper than PYTHON_FRAMES_MAX the innermost frames count.
 *
 * No lock, no allocation, no system call once the same frames have been seen. */
uint32_t python_id(void);

/* The way from the outermost frame to the call: for each frame its loops and then its call. Writes
 * at most `room` nodes, the outermost ones, and returns how many. 0: as for python_id. rounds:
 * NULL, as of an engine's thread, or as many, what loops of a thread whose rounds count say
 * (python_thread.h), as far as they do. For claims: the first time that a function is met it is
 * analysed, in microseconds to a few milliseconds, and what was found is kept, in memory of its
 * own. */
uint32_t python_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds);

/* A loop around a call of a thread whose rounds count (python_thread.h), to read its rounds again:
 * another call with the same id stands in it, too, as long as the frame is there. */
#define PYTHON_HELD_MAX 8u
struct python_loop {
  uint64_t thread;      /* python_thread.h; 0: the main thread */
  uint64_t frame, code; /* addresses */
  uint8_t iterator;     /* which one of the frame's iterators it has: python_rounds.h */
  uint8_t nheld;        /* 0: they have not been looked for */
  /* The way to the object that counts: what lies where, and of which type it is; addresses. From
   * the stack of the frame on, one holds the next: an enumerate its iterator, a generator its code,
   * and what it goes over. */
  struct python_held {
    uint64_t at, object, type;
  } held[PYTHON_HELD_MAX];
};

/* The outermost ones, as python_outermost_loops; 0 also if the calling thread's do not count. As
 * python_nodes. */
uint32_t python_call_loops(struct python_loop loops[PLACE_LEVELS]);

/* What it says now. False: the frame is not there any more. Of a call with the same id. */
bool python_loop_round(struct python_loop *loop, struct place_round *round);

/* For threads that an engine has begun, as PyTorch's autograd does: the id and the nodes of the one
 * thread that waits for them in a backward pass. That thread stands still, but nothing holds it. So
 * its frames are read by system calls, which cannot fault. They are believed only if it does not
 * hold the GIL, it stands at a call made by torch.autograd, and its processor time shows that it
 * has not run meanwhile, or two reads agree. 0: there is none, several wait at different places,
 * one does a part of a backward pass in Python, or has more than 512 frames there.
 *
 * python_waiting_id costs a system call for each Python thread (0.2 to 0.8 microseconds) as long as
 * none of them, at most 16, has run since the same thread last called; so for the gradients of a
 * backward pass but the first, mostly. Otherwise it is looked for among all: with a system call for
 * what was read the last time, some 0.5 to 2 microseconds for each frame, once these have been
 * seen. Before Python 3.11 it is always 0: which thread it is cannot be asked there.
 * python_waiting_nodes is for claims, where it is not 0, and looks for the thread again. */
uint32_t python_waiting_id(void);
/* How often it has looked among all for the calling thread: as long as that is the same, all is as
 * it was. */
uint32_t python_waiting_looks(void);
/* As python_call_loops and python_loop_round, of the thread that was found then, if its rounds
 * count; a few system calls. */
uint32_t python_waiting_loops(struct python_loop loops[PLACE_LEVELS]);
bool python_waiting_round(struct python_loop *loop, struct place_round *round);
uint32_t python_waiting_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds);

/* Writes where the call stands, such as "util.py:7 < train.py:41 in the loop of train.py:38", in
 * ASCII with a final 0, cut to `size` bytes: of the frames of the calling thread that are not in an
 * installed package the innermost one, the one that called it, and one further out that stands in a
 * loop, those of them that fit; or else the innermost frame. If the thread is waited for, the
 * frames of the one that waits count as well, as those that called it. An empty text: not known.
 * Allocates as python_nodes does. */
void python_text(char *text, size_t size, bool waited_for);

/* Whether one of the calling thread's innermost PYTHON_CALLERS frames is of a file whose path ends
 * with this. Allocates. */
#define PYTHON_CALLERS 8u
bool python_is_in_file(const char *end);

/* ---- asking something of the Python program that nccl-join is in ---- */

#define PYTHON_RUN_SIZE 2048
#define PYTHON_ANSWER_SIZE 256

/* python_run.c. Runs statements in the module __main__ of the main interpreter. A thread that holds
 * the GIL does it itself. For any other a thread is made, and is waited for at most so many
 * milliseconds: it still runs them once it has the GIL. text: shorter than PYTHON_RUN_SIZE. False:
 * there is no Python that is known, no memory, no thread, an exception has been raised (and
 * printed), or it has not been done yet. */
bool python_run(const char *text, unsigned milliseconds);

/* The same for statements of which nothing stays, and which print nothing: they run by themselves,
 * with the builtins, and leave a str of ASCII in `answer`, which is copied, cut to `size` bytes, or
 * PYTHON_ANSWER_SIZE, with the final 0. */
bool python_ask(const char *text, char *answer, size_t size, unsigned milliseconds);

/* The address of the exception that the calling thread deals with, or, before Python 3.11, of its
 * type; 0: none, or that is not known. Another one may have it later. Some microseconds, and no GIL
 * is needed. */
uint64_t python_exception_at(void);

/* exception_is_under_way of exceptions.h, as far as it is of Python (python_exception.c). */
bool python_exception(char *text, size_t size, bool at_end);

#endif
