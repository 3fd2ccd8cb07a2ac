/* Texts of places (places.h): made when a place is described, where its frames are
 * at hand, and asked for later by its id alone. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "interpose/places/places.h"
#include "interpose/places/python/python_frames.h"

#define TEXTS_MAX 512u
#define TEXT_SIZE 192u

/* Never changed once its id has been stored. */
static struct {
  _Atomic uint32_t id;
  char text[TEXT_SIZE];
} texts[TEXTS_MAX];
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static const char *text_of(uint32_t id) {
  for (uint32_t i = 0; i < TEXTS_MAX; i++) {
    uint32_t of = atomic_load_explicit(&texts[i].id, memory_order_acquire);
    if (of == 0)
      return NULL;
    if (of == id)
      return texts[i].text;
  }
  return NULL;
}

static bool has_loop(const struct place *place) {
  for (uint32_t i = 0; i < place->nnodes; i++)
    if ((place->nodes[i].flags & PLACE_LOOP) != 0)
      return true;
  return false;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* Frames that are named: as many as messages have room for. */
enum { FRAMES_LEAST = 3, FRAMES_MOST = 6 };

/* Appends "train_epoch+0x41", or "+0x1641" where there is no symbol: the last byte of the call, for
 * which addr2line gives the call's line. What it returns to may be of another one.
 * With its object, if that is another one than the innermost frame's, which is named for all. */
static int describe_frame(const struct native_frame *frame, const void *innermost, char *text,
                          size_t size) {
  Dl_info at;
  uintptr_t call = frame->pc - 1;
  if (dladdr((const void *)call, &at) == 0)
    return snprintf(text, size, "%#lx", (unsigned long)call);
  bool named = at.dli_sname != NULL, other = at.dli_fbase != innermost;
  return snprintf(text, size, "%s+%#lx%s%s%s", named ? at.dli_sname : "",
                  (unsigned long)(call - (uintptr_t)(named ? at.dli_saddr : at.dli_fbase)),
                  other ? " (" : "", other ? base_name(at.dli_fname) : "", other ? ")" : "");
}

/* The caller, and who calls it; of more frames than `most` the outermost ones, as what lies between
 * are often functions that all calls go through. Whether some are left out. */
static bool frames_named(const struct native_stack *stack, size_t most,
                         const struct native_frame *named[FRAMES_MOST], size_t *count) {
  bool cut = stack->nouter > most;
  *count = cut ? most : stack->nouter;
  named[0] = &stack->inner[0];
  for (size_t i = 1; i < *count; i++)
    named[i] = &stack->outer[stack->nouter - *count + i];
  return cut;
}

/* "step+0x41 < visit+0x12 (plugin.so) < train_epoch+0x90 (train), in a loop": from the innermost
 * frame outward; "reduce+0x41 < ... < train_epoch+0x90 < main+0x31 (train), in a loop". How long it
 * is. */
static size_t describe_named(const struct native_stack *stack, size_t most, bool in_loop,
                             char *text, size_t size) {
  Dl_info at;
  const struct native_frame *named[FRAMES_MOST];
  size_t length = 0, count;
  bool cut = frames_named(stack, most, named, &count);
  bool known = dladdr((const void *)(named[0]->pc - 1), &at) != 0;
  for (size_t i = 0; i < count && length < size; i++) {
    length += (size_t)snprintf(text + length, size - length, "%s%s", i == 0 ? "" : " < ",
                               cut && i == 1 ? "... < " : "");
    if (length < size)
      length += (size_t)describe_frame(named[i], known ? at.dli_fbase : NULL, text + length,
                                       size - length);
  }
  if (length < size)
    length += (size_t)snprintf(text + length, size - length, " (%s)%s",
                               known ? base_name(at.dli_fname) : "no object",
                               in_loop ? ", in a loop" : "");
  return length;
}

static void describe_frames(const struct native_stack *stack, bool in_loop, char *text,
                            size_t size) {
  size_t most = FRAMES_MOST;
  while (describe_named(stack, most, in_loop, text, size) >= PLACE_TEXT_MAX && most > FRAMES_LEAST)
    most--;
}

static void places_text_describe(const struct place *place, const struct native_stack *stack,
                                 bool waited_for, char *text, size_t size) {
  python_text(text, size, waited_for);
  if (text[0] == '\0' && stack->ninner > 0)
    describe_frames(stack, has_loop(place), text, size);
}

static void places_text_add(uint32_t id, const char *text) {
  for (uint32_t i = 0; i < TEXTS_MAX; i++) {
    uint32_t of = atomic_load_explicit(&texts[i].id, memory_order_relaxed);
    if (of == id)
      return;
    if (of == 0) {
      memcpy(texts[i].text, text, TEXT_SIZE);
      atomic_store_explicit(&texts[i].id, id, memory_order_release);
      return;
    }
  }
}

void places_text_remember(const struct place *place, const struct native_stack *stack,
                          bool waited_for) {
  char text[TEXT_SIZE] = "";
  if (text_of(place->id) != NULL)
    return;
  places_text_describe(place, stack, waited_for, text, sizeof(text));
  if (text[0] == '\0' || pthread_mutex_trylock(&adding) != 0)
    return;
  places_text_add(place->id, text);
  pthread_mutex_unlock(&adding);
}

bool places_are_described(uint32_t id) {
  return id != 0 && text_of(id) != NULL;
}

const char *places_text(uint32_t id, char *text, size_t size) {
  const char *known = id != 0 ? text_of(id) : NULL;
  snprintf(text, size, "%s", known != NULL ? known : "an unknown place");
  return text;
}
