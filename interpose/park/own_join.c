/* The program's own join: own_join.h. */
#include "interpose/park/own_join.h"

#include <stdatomic.h>

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "interpose/places/places.h"

#define JOIN_FILE "/torch/distributed/algorithms/join.py"

/* Places that have been looked at and are not called there: claims come again from the same ones.
 */
enum { OTHERS = 256 };
static _Atomic uint32_t others[OTHERS];

static const struct member mark = {
    .root = ROOT_NONE, .reduction = REDUCTION_NONE, .kind = MEMBER_MARK, .number = MARK_OWN_JOIN};

static bool is_called_there(uint32_t place) {
  if (place == 0 || atomic_load(&others[place % OTHERS]) == place)
    return false;
  if (places_are_in_file(JOIN_FILE))
    return true;
  atomic_store(&others[place % OTHERS], place);
  return false;
}

void own_join_recognise(struct request *request) {
  if (!is_called_there(unit_place(request->unit)))
    return;
  request->kept = request->unit;
  request->unit = (struct unit){&mark, 1};
}

bool own_join_is_agreed(const struct request *request) {
  struct plane *plane = request->end->team->plane;
  if (unit_mark(request->unit) != MARK_OWN_JOIN)
    return false;
  if (plane_set_apart(plane))
    log_line_of(endpoint_subject(request->end), LOG_LEVEL_INFO,
                "rank %u: the program uses PyTorch's Join, which answers for ranks without data: "
                "nccl-join stands aside for the communicators of these ranks",
                plane->rank);
  return true;
}

void own_join_restore(struct request *request) {
  if (unit_mark(request->unit) == MARK_OWN_JOIN)
    request->unit = request->kept;
}
