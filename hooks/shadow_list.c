/* All shadows of the process: whether memory of one can be given back without holding a peer up
 * (shadow.h, shadow_holds_others_up). */
#include <pthread.h>

#include "hooks/shadow_device.h"

/* Guards the list, and that the streams of those in it exist. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shadow *all;

void shadow_enlist(struct shadow *shadow) {
  pthread_mutex_lock(&all_lock);
  shadow->next = all;
  all = shadow;
  pthread_mutex_unlock(&all_lock);
}

void shadow_delist(const struct shadow *shadow) {
  pthread_mutex_lock(&all_lock);
  for (struct shadow **link = &all; *link != NULL; link = &(*link)->next)
    if (*link == shadow) {
      *link = shadow->next;
      break;
    }
  pthread_mutex_unlock(&all_lock);
}

bool shadow_others_are_under_way(const struct shadow *shadow) {
  const struct shadow_limit at_once = {0};
  bool under_way = false;
  pthread_mutex_lock(&all_lock);
  for (const struct shadow *other = all; other != NULL && !under_way; other = other->next)
    under_way = other != shadow && other->number == shadow->number &&
                device_wait(other, &at_once) == CUDA_ERROR_NOT_READY;
  pthread_mutex_unlock(&all_lock);
  return under_way;
}

bool shadow_holds_others_up(const struct shadow *shadow) {
  const struct shadow_limit at_once = {0};
  return shadow != NULL && device_wait(shadow, &at_once) == CUDA_SUCCESS &&
         shadow_others_are_under_way(shadow);
}
