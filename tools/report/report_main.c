/* nccl-join report: what a run with NCCL_JOIN_TRACE=FOLDER did, and what to do about it.
 *
 *   nccl-join-report [--json | --text] [--output FILE] FOLDER
 *   nccl-join-report --perfetto FILE FOLDER
 *
 * As a text on stdout and as a page, FOLDER/report.html or FILE, that needs nothing else and no
 * network. --text: no page. --json: what the page draws, on stdout, and neither of both.
 * --perfetto: a trace for the Perfetto UI (perfetto.h), and none of all this.
 */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/perfetto.h"
#include "tools/report/summary.h"
#include "tools/report/timeline.h"
#include "tools/terminal.h"

struct options {
  bool json, text;
  const char *output, *perfetto, *folder;
};

static int usage(FILE *out, int status) {
  fputs("usage: nccl-join report [--json | --text] [--output FILE] FOLDER\n"
        "       nccl-join report --perfetto FILE FOLDER\n",
        out);
  return fflush(out) != 0 ? 1 : status;
}

/* How many of the teams have records, if only of a WARN. */
static size_t summarise(struct summary *summaries, const struct tracks *tracks) {
  size_t count = 0;
  for (size_t first = 0, n; first < tracks->count; first += n) {
    n = tracks_of_team(tracks, first);
    if (summary_make(&summaries[count], &tracks->all[first], n))
      count++;
    else
      summary_free(&summaries[count]);
  }
  return count;
}

static int show(const struct options *options, const struct summary *summaries, size_t count) {
  char path[PATH_MAX];
  if (options->json) {
    json_write(summaries, count);
    return !terminal_finish();
  }
  timeline_begin();
  for (size_t i = 0; i < count; i++)
    text_print(&summaries[i]);
  if (options->text)
    return !terminal_finish();
  snprintf(path, sizeof path, "%s/report.html", options->folder);
  if (options->output != NULL)
    snprintf(path, sizeof path, "%s", options->output);
  if (!page_write(path, summaries, count))
    return 1;
  printf("\nThe same as a page: %s\n", path);
  return !terminal_finish();
}

int main(int argc, char **argv) {
  static char name[] = "nccl-join: report"; /* in what getopt says */
  static const struct option known[] = {
      {"json", no_argument, NULL, 'j'},         {"text", no_argument, NULL, 't'},
      {"output", required_argument, NULL, 'o'}, {"perfetto", required_argument, NULL, 'p'},
      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
  struct options options = {0};
  argv[0] = name;
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == 'h')
      return usage(stdout, 0);
    if (option == '?')
      return usage(stderr, 2);
    options.json |= option == 'j';
    options.text |= option == 't';
    if (option == 'o')
      options.output = optarg;
    if (option == 'p')
      options.perfetto = optarg;
  }
  int kinds = options.json + (options.text || options.output != NULL) + (options.perfetto != NULL);
  const char *problem = kinds > 1 ? "of --json, --text or --output, and --perfetto one at a time"
                        : optind == argc    ? "which FOLDER has the traces?"
                        : optind < argc - 1 ? "one FOLDER at a time"
                                            : NULL;
  if (problem != NULL) {
    fprintf(stderr, "%s: %s\n", name, problem);
    return usage(stderr, 2);
  }
  options.folder = argv[optind];
  struct tracks tracks = {.wants_issued = options.perfetto != NULL};
  bool read = tracks_read(&tracks, options.folder);
  if (read && options.perfetto != NULL) {
    bool written = perfetto_write(options.perfetto, &tracks);
    tracks_free(&tracks);
    return written ? 0 : 1;
  }
  struct summary *summaries = read ? calloc(tracks.count, sizeof *summaries) : NULL;
  size_t count = summaries != NULL ? summarise(summaries, &tracks) : 0;
  int status = 1;
  if (count > 0)
    status = show(&options, summaries, count);
  else if (read)
    fprintf(stderr, "nccl-join: the traces in %s have no record\n", options.folder);
  for (size_t i = 0; i < count; i++)
    summary_free(&summaries[i]);
  free(summaries);
  tracks_free(&tracks);
  return status;
}
