/* Texts of places (places.h, places_text.h): made when a place is described, where its frames are
 * at hand, and asked for later by its id alone. */
#include "interpose/places_text.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "interpose/places.h"
#include "interpose/python_frames.h"

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

static void describe_frame(const struct native_frame *frame, bool in_loop, char *text,
                           size_t size) {
  Dl_info at;
  const char *loop = in_loop ? ", in a loop" : "";
  if (dladdr((const void *)(frame->pc - 1), &at) == 0)
    snprintf(text, size, "%#lx%s", (unsigned long)frame->pc, loop);
  else if (at.dli_sname != NULL)
    snprintf(text, size, "%s+%#lx (%s)%s", at.dli_sname,
             (unsigned long)(frame->pc - (uintptr_t)at.dli_saddr), at.dli_fname, loop);
  else
    snprintf(text, size, "%s+%#lx%s", at.dli_fname,
             (unsigned long)(frame->pc - (uintptr_t)at.dli_fbase), loop);
}

static void describe(const struct place *place, const struct native_frame *innermost, char *text,
                     size_t size) {
  python_text(text, size);
  if (text[0] != '\0')
    return;
  if (innermost != NULL)
    describe_frame(innermost, has_loop(place), text, size);
}

static void add(uint32_t id, const char *text) {
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

void places_text_remember(const struct place *place, const struct native_frame *innermost) {
  char text[TEXT_SIZE] = "";
  if (text_of(place->id) != NULL)
    return;
  describe(place, innermost, text, sizeof(text));
  if (text[0] == '\0' || pthread_mutex_trylock(&adding) != 0)
    return;
  add(place->id, text);
  pthread_mutex_unlock(&adding);
}

const char *places_text(uint32_t id, char *text, size_t size) {
  const char *known = id != 0 ? text_of(id) : NULL;
  snprintf(text, size, "%s", known != NULL ? known : "an unknown place");
  return text;
}
