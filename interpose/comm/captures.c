/* Counting captures (captures.h). */
#include "interpose/comm/captures.h"

#include <stddef.h>

_Atomic int captures_under_way;
static void (*_Atomic told)(void);

void captures_tell(void (*begun)(void)) {
  atomic_store(&told, begun);
}

void captures_began(void) {
  atomic_fetch_add(&captures_under_way, 1);
  void (*begun)(void) = atomic_load(&told);
  if (begun != NULL)
    begun();
}

/* Not below 0: a program may end what it never began. */
void captures_ended(void) {
  int count = atomic_load(&captures_under_way);
  while (count > 0 && !atomic_compare_exchange_weak(&captures_under_way, &count, count - 1))
    ;
}
