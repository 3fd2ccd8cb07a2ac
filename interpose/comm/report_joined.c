/* How often and how long a rank is joined, counted in its log, where all ranks see it (report.h).
 * What is said of it at the end: report_uneven.c.
 */
#include "interpose/comm/clock.h"
#include "interpose/comm/report_private.h"

void report_joined(struct endpoint *end, struct unit unit) {
  struct plane *plane = end->team->plane;
  end->joined.shadows += !member_is_point_to_point(unit.members->kind);
  if (end->joined_since_ms == 0 && !unit_is_exchange(unit)) {
    uint64_t parked = plane_parked_since(plane, plane->rank);
    end->joined_since_ms = parked != 0 ? parked : now_ms();
  }
  plane_say_joined(plane, end->joined, end->joined_since_ms);
}

void report_active(struct endpoint *end) {
  if (end->joined_since_ms == 0)
    return;
  end->joined.ms += now_ms() - end->joined_since_ms;
  end->joined_since_ms = 0;
  plane_say_joined(end->team->plane, end->joined, 0);
}
