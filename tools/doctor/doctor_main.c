/* nccl-join-doctor: whether nccl-join can work on this machine and in this environment, for
 * `nccl-join doctor`. Changes nothing.
 *
 *   nccl-join-doctor [--json] PRELOAD HELPERS LOOPBACK    where nccl-join's own files are
 *   nccl-join-doctor --is-loaded PRELOAD                  status 0 if that is loaded into it
 *
 * Exit status: 0 nothing is wrong, 1 something is, 2 wrong usage.
 */
#include <getopt.h>
#include <stdlib.h>

#include "tools/doctor/findings.h"
#include "tools/terminal.h"

static int usage(void) {
  fputs("nccl-join: doctor takes no argument but --json (see nccl-join --help)\n", stderr);
  return 2;
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"json", no_argument, NULL, 'j'}, {"is-loaded", required_argument, NULL, 'l'}, {0}};
  bool json = false;
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
    if (option == 'l')
      return is_loaded(optarg) ? 0 : 1;
    if (option != 'j')
      return usage();
    json = true;
  }
  if (argc - optind != 3)
    return usage();
  const struct places places = {argv[optind], argv[optind + 1], argv[optind + 2]};
  struct findings findings = {0};
  look_at_files(&findings, &places);
  look_at_preload(&findings, &places, "/proc/self/exe");
  look_at_memory(&findings);
  look_at_kernel(&findings);
  look_at_nccl(&findings, &places);
  look_at_driver(&findings);
  look_at_machines(&findings, &places);
  look_at_settings(&findings);
  (json ? findings_print_json : findings_print)(stdout, &findings);
  int status = findings_worst(&findings) == HEALTH_WRONG ? 1 : 0;
  findings_free(&findings);
  return terminal_finish() ? status : 1;
}
