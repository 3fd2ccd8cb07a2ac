/* How machines find each other: ids of several processes, ids that say nothing, and what a site
 * says itself. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 4 };
static const struct schedule uneven = {.nranks = RANKS, .epochs = 1, .n = {{3, 5, 4, 6}}};

/* Programs/sum on two machines of two ranks, with these settings. */
static struct run *run_sum(const char *iterations, const char *environment) {
  char options[64];
  snprintf(options, sizeof options, "--iterations %s", iterations);
  return machines_run(&(struct machines_job){
      .machines = "2,2", .program = "sum", .options = options, .environment = environment});
}

static void check_sum(const char *environment) {
  struct run *result = run_sum(schedule_text(&uneven), environment);
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &uneven, 1);
  lines_add_left(lines, RANKS);
  finish_run(result, lines);
}

/* ---- by a launcher of MPI ---- */

/* On each machine one rank of start.c's, which is mpirun's or its ssh's: mpirun starts two ranks on
 * each. */
Test(machines_found, mpirun_starts_the_ranks) {
  NEED_MACHINES();
  if (system("command -v mpirun >/dev/null") != 0) // NOLINT(cert-env33-c)
    cr_skip_test("no mpirun here");
  struct run *result =
      machines_run(&(struct machines_job){.machines = "1,1",
                                          .launcher = "tests/machines/parts/by_mpirun 2",
                                          .program = "sum",
                                          .options = "--iterations 3,5,4,6"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &uneven, 1);
  lines_add_left(lines, RANKS);
  finish_run(result, lines);
}

/* ---- several jobs of one process ---- */

Test(machines_found, a_process_may_belong_to_several_jobs) {
  NEED_MACHINES();
  struct run *result = machines_run(&(struct machines_job){
      .machines = "2,2", .program = "jobs", .options = "--iterations 3,5,4,6"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < RANKS; rank++)
    for (int i = 0; i < uneven.n[0][rank]; i++) {
      unsigned active = schedule_active(&uneven, 0, i);
      lines_add(lines, rank, "all %d %u", i, active);
      lines_add(lines, rank, "pair %d %u", i, active & (rank % 2 == 0 ? 5u : 10u));
    }
  lines_add_left(lines, RANKS);
  finish_run(result, lines);
}

/* ---- a secret of the site's ---- */

static char folder[] = "/tmp/nccl-join-secret-XXXXXX", secret[64];

static void write_secret(const char *bytes, mode_t mode) {
  FILE *file = fopen(secret, "w");
  cr_assert_not_null(file);
  fputs(bytes, file);
  fclose(file);
  cr_assert_eq(chmod(secret, mode), 0);
}

static void make_secret(void) {
  cr_assert_not_null(mkdtemp(folder));
  snprintf(secret, sizeof secret, "%s/secret", folder);
  write_secret("0123456789abcdef0123456789abcdef\n", 0600);
}

static void remove_secret(void) {
  (void)unlink(secret);
  (void)rmdir(folder);
}

TestSuite(machines_secret, .init = make_secret, .fini = remove_secret);

static const char *with_secret(const char *more) {
  static char environment[256];
  snprintf(environment, sizeof environment, "NCCL_JOIN_MACHINES_SECRET=%s %s", secret, more);
  return environment;
}

Test(machines_secret, stands_for_the_one_in_the_id) {
  NEED_MACHINES();
  check_sum(with_secret(""));
}

Test(machines_secret, lets_ids_of_nccl_comm_id_find_machines) {
  NEED_MACHINES();
  check_sum(with_secret("NCCL_COMM_ID=10.77.0.1:29777"));
}

Test(machines_secret, may_meet_where_the_site_says) {
  NEED_MACHINES();
  check_sum(with_secret("NCCL_JOIN_RENDEZVOUS=10.77.0.2:31000 NCCL_COMM_ID=10.77.0.1:29777"));
  check_sum(with_secret("NCCL_JOIN_RENDEZVOUS=[::ffff:10.77.0.1]:31000"));
  check_sum(with_secret("NCCL_JOIN_MACHINES_PORTS=31000-31007"));
}

static void check_off(const char *environment, const char *says) {
  struct run *result = run_sum("4", environment);
  assert_went_well(result);
  cr_expect(run_says_in_a_line(result, "NCCL-JOIN WARN", says, NULL), "%s", result->errors);
  cr_expect(run_says(result, "join is off for communicator"), "%s", result->errors);
  run_free(result);
}

Test(machines_secret, without_one_an_id_of_nccl_comm_id_is_said_to_be_of_no_use) {
  NEED_MACHINES();
  check_off("NCCL_COMM_ID=10.77.0.1:29777", "set NCCL_JOIN_MACHINES_SECRET on all ranks");
  check_off("NCCL_JOIN_RENDEZVOUS=10.77.0.1:31000", "set NCCL_JOIN_MACHINES_SECRET on all ranks");
}

Test(machines_secret, that_others_can_read_or_that_is_short_is_none) {
  NEED_MACHINES();
  write_secret("0123456789abcdef0123456789abcdef\n", 0644);
  check_off(with_secret(""), "closed to others");
  write_secret("0123456789abcdef0123456789abcde", 0600);
  check_off(with_secret(""), "it has less than 32 bytes");
  remove_secret();
  check_off(with_secret(""), "No such file");
}

Test(machines_secret, of_a_place_that_is_not_there_is_said) {
  NEED_MACHINES();
  check_off(with_secret("NCCL_JOIN_RENDEZVOUS=nowhere.invalid:31000"),
            "nothing is known here of nowhere.invalid");
}
