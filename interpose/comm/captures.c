/* Counting captures (captures.h). */
#include "interpose/comm/captures.h"

#include "interpose/comm/communicator.h"

_Atomic int captures_under_way;

void captures_began(void) {
  atomic_fetch_add(&captures_under_way, 1);
  communicator_end_plain();
}

/* Not below 0: a program may end what it never began. */
void captures_ended(void) {
  int count = atomic_load(&captures_under_way);
  while (count > 0 && !atomic_compare_exchange_weak(&captures_under_way, &count, count - 1))
    ;
}
