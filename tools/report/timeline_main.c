/* nccl-join timeline: draws the traces of a run (NCCL_JOIN_TRACE).
 *
 *   nccl-join timeline FOLDER
 *
 * For each team what timeline.h says. nccl-join report says more; this needs no library.
 */
#include <stdio.h>
#include <string.h>

#include "tools/report/timeline.h"
#include "tools/terminal.h"

int main(int argc, char **argv) {
  struct tracks tracks = {0};
  bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
  if (!help && argc == 2 && argv[1][0] == '-')
    fprintf(stderr, "nccl-join: timeline has no option %s\n", argv[1]);
  if (argc != 2 || argv[1][0] == '-') {
    FILE *out = help ? stdout : stderr;
    fputs("usage: nccl-join timeline FOLDER   (what NCCL_JOIN_TRACE named)\n", out);
    return fflush(out) != 0 ? 1 : help ? 0 : 2;
  }
  if (!tracks_read(&tracks, argv[1])) {
    tracks_free(&tracks);
    return 1;
  }
  timeline_begin();
  for (size_t first = 0, n; first < tracks.count; first += n) {
    n = tracks_of_team(&tracks, first);
    timeline_draw(&tracks.all[first], n);
  }
  tracks_free(&tracks);
  return !terminal_finish();
}
