/* The settings: what is accepted, and what errors say. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/settings/settings_private.h"

static struct settings settings;
static char error[SETTINGS_ERROR_SIZE];

/* Reads the given entries; the array ends with NULL. */
#define READ(...) settings_read(&settings, (char *[]){__VA_ARGS__, NULL}, error, sizeof(error))

/* Whether all kinds have the policy. */
static bool all_are(enum lossy_policy policy) {
  for (int kind = 0; kind < LOSSY_KINDS; kind++)
    if (settings.lossy[kind] != policy)
      return false;
  return true;
}

static bool mentions(const char *text) {
  return strstr(error, text) != NULL;
}

#define expect_mentions(text) cr_expect(mentions(text), "no '%s' in: %s", text, error)

Test(settings, nothing_set_gives_the_documented_defaults) {
  cr_expect(READ("HOME=/root", "NCCL_DEBUG=INFO"));
  cr_expect(settings.enabled);
  cr_expect_eq(settings.early_exit, EARLY_EXIT_JOIN);
  cr_expect_eq(settings.divisor, DIVISOR_INITIAL);
  cr_expect_eq(settings.divisor_min, 1024);
  cr_expect(all_are(LOSSY_ERROR));
  cr_expect_eq(settings.resync, RESYNC_NONE);
  cr_expect_eq(settings.shadow_memory, SHADOW_MEMORY_PLAIN);
  cr_expect_str_empty(settings.hooks);
  cr_expect_str_empty(settings.exit_on);
  cr_expect_eq(settings.skew_warn, 1000);
  cr_expect_eq(settings.stall_warn_s, 60);
  cr_expect_eq(settings.timeout_s, 1800);
  cr_expect_eq(settings.log_level, LOG_LEVEL_WARN);
  cr_expect_str_empty(settings.log_file);
  cr_expect_str_empty(settings.trace_folder);
  cr_expect_str_eq(settings.report, REPORT_LINE);
  cr_expect_str_empty(error);
}

Test(settings, no_environment_at_all_is_the_defaults) {
  cr_expect(settings_read(&settings, NULL, NULL, 0));
  cr_expect_eq(settings.timeout_s, 1800);
}

Test(settings, every_setting_is_read) {
  cr_expect(READ("NCCL_JOIN=0", "NCCL_JOIN_EARLY_EXIT=throw", "NCCL_JOIN_DIVISOR=active-sum",
                 "NCCL_JOIN_DIVISOR_MIN=1", "NCCL_JOIN_LOSSY=zero", "NCCL_JOIN_PLACES=1",
                 "NCCL_JOIN_SKEW_WARN=0", "NCCL_JOIN_TIMEOUT=31536000", "NCCL_JOIN_DEBUG=TRACE",
                 "NCCL_JOIN_DEBUG_FILE=/tmp/%h.%p.%r.%%", "NCCL_JOIN_TRACE=traces",
                 "NCCL_JOIN_TRACE_SIZE=65536", "NCCL_JOIN_RESYNC=broadcasts",
                 "NCCL_JOIN_HOOK=/a.so,b.so", "NCCL_JOIN_SHADOW_MEMORY=alias",
                 "NCCL_JOIN_EXIT_ON=finish,-MPI_Barrier"));
  cr_expect_str_eq(settings.exit_on, "finish,-MPI_Barrier");
  cr_expect_not(settings.enabled);
  cr_expect_eq(settings.resync, RESYNC_BROADCASTS);
  cr_expect_eq(settings.shadow_memory, SHADOW_MEMORY_ALIAS);
  cr_expect_str_eq(settings.hooks, "/a.so,b.so");
  cr_expect_eq(settings.early_exit, EARLY_EXIT_THROW);
  cr_expect_eq(settings.divisor, DIVISOR_ACTIVE_SUM);
  cr_expect_eq(settings.divisor_min, 1);
  cr_expect(all_are(LOSSY_ZERO));
  cr_expect(settings.places);
  cr_expect_eq(settings.skew_warn, 0);
  cr_expect_eq(settings.timeout_s, 31536000);
  cr_expect_eq(settings.log_level, LOG_LEVEL_TRACE);
  cr_expect_str_eq(settings.log_file, "/tmp/%h.%p.%r.%%");
  cr_expect_str_eq(settings.trace_folder, "traces");
  cr_expect_eq(settings.trace_mib, 65536);
}

Test(settings, words_may_be_in_any_case) {
  cr_expect(READ("NCCL_JOIN_DEBUG=info", "NCCL_JOIN_LOSSY=Zero"));
  cr_expect_eq(settings.log_level, LOG_LEVEL_INFO);
  cr_expect(all_are(LOSSY_ZERO));
}

Test(settings, set_to_nothing_is_not_set) {
  cr_expect(READ("NCCL_JOIN=", "NCCL_JOIN_TIMEOUT=", "NCCL_JOIN_TRACE="));
  cr_expect(settings.enabled);
  cr_expect_eq(settings.timeout_s, 1800);
}

Test(settings, of_two_entries_the_first_counts_as_for_getenv) {
  cr_expect(READ("NCCL_JOIN_TIMEOUT=5", "NCCL_JOIN_TIMEOUT=6"));
  cr_expect_eq(settings.timeout_s, 5);
}

Test(settings, a_wrong_word_is_an_error_that_names_setting_value_and_accepted) {
  cr_expect_not(READ("NCCL_JOIN_LOSSY=nothing"));
  cr_expect_str_eq(error,
                   "NCCL_JOIN_LOSSY=nothing is not accepted. Accepted: error, zero, last, or "
                   "kind:value,... with each kind at most once: allgather, alltoall, gather, "
                   "scatter, send");
  cr_expect(all_are(LOSSY_ERROR));
}

Test(settings, each_kind_of_lossy_collective_may_have_a_policy_of_its_own) {
  cr_expect(READ("NCCL_JOIN_LOSSY=allgather:zero,SEND:Zero,scatter:error"));
  cr_expect_eq(settings.lossy[LOSSY_ALLGATHER], LOSSY_ZERO);
  cr_expect_eq(settings.lossy[LOSSY_ALLTOALL], LOSSY_ERROR);
  cr_expect_eq(settings.lossy[LOSSY_GATHER], LOSSY_ERROR);
  cr_expect_eq(settings.lossy[LOSSY_SCATTER], LOSSY_ERROR);
  cr_expect_eq(settings.lossy[LOSSY_SEND], LOSSY_ZERO);
  cr_expect(READ("NCCL_JOIN_LOSSY=last"));
  cr_expect(all_are(LOSSY_LAST));
  cr_expect(READ("NCCL_JOIN_LOSSY=gather:last,alltoall:zero"));
  cr_expect_eq(settings.lossy[LOSSY_GATHER], LOSSY_LAST);
  cr_expect_eq(settings.lossy[LOSSY_ALLTOALL], LOSSY_ZERO);
  cr_expect_eq(settings.lossy[LOSSY_ALLGATHER], LOSSY_ERROR);
}

Test(settings, a_list_of_policies_that_is_not_right_as_a_whole_changes_nothing) {
  static const char *const lists[] = {
      "allgather",
      "allgather:",
      ":zero",
      "allgather:zero,",
      ",allgather:zero",
      "allgather:zero,,send:zero",
      "allgather:zero,zero",
      "zero,allgather:zero",
      "allgather:zero:zero",
      "allgather:zero,allgather:error",
      "allgather:zero, send:zero",
      "allgather:zero,allreduce:zero",
      "allgather:zero,broadcast:error",
      "allgather=zero",
  };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    char entry[128];
    snprintf(entry, sizeof entry, "NCCL_JOIN_LOSSY=%s", lists[i]);
    cr_expect_not(READ(entry), "%s", entry);
    cr_expect(all_are(LOSSY_ERROR), "%s", entry);
    expect_mentions("allgather, alltoall, gather, scatter, send");
  }
}

Test(settings, a_near_kind_or_value_of_a_list_is_suggested) {
  cr_expect_not(READ("NCCL_JOIN_LOSSY=allgahter:zero"));
  expect_mentions("Did you mean allgather?");
  cr_expect_not(READ("NCCL_JOIN_LOSSY=scatter:zero,send:eror"));
  expect_mentions("Did you mean error?");
  cr_expect_not(READ("NCCL_JOIN_LOSSY=scatter:zero,broadcast:error"));
  cr_expect_not(mentions("Did you mean"));
}

Test(settings, a_near_word_is_suggested) {
  cr_expect_not(READ("NCCL_JOIN_DEBUG=WRAN"));
  expect_mentions("Did you mean WARN?");
  cr_expect_not(READ("NCCL_JOIN_LOSSY=eror"));
  expect_mentions("Did you mean error?");
}

Test(settings, only_plain_numbers_in_range_are_numbers) {
  static const char *const wrong[] = {"0",
                                      "-1",
                                      "+5",
                                      "5s",
                                      "0x10",
                                      " 5",
                                      "1e3",
                                      "31536001",
                                      "1.5",
                                      "ten",
                                      "18446744073709551617",
                                      "99999999999999999999999999"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    char entry[64];
    snprintf(entry, sizeof(entry), "NCCL_JOIN_TIMEOUT=%s", wrong[i]);
    cr_expect_not(READ(entry), "accepted %s", entry);
    expect_mentions(entry);
    expect_mentions("1 to 31536000 seconds");
    cr_expect_eq(settings.timeout_s, 1800);
  }
}

Test(settings, an_address_has_a_port) {
  static const char *const wrong[] = {"head",    "head:",  "head:0",   "head:65529",
                                      "head:8x", ":31000", "[]:31000", "fd00::1:31000"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    char entry[64];
    snprintf(entry, sizeof(entry), "NCCL_JOIN_RENDEZVOUS=%s", wrong[i]);
    cr_expect_not(READ(entry), "accepted %s", entry);
    expect_mentions("host:port or [IPv6]:port");
    cr_expect_str_empty(settings.rendezvous.host);
  }
  cr_expect(READ("NCCL_JOIN_RENDEZVOUS=head.cluster:65528"));
  cr_expect_str_eq(settings.rendezvous.host, "head.cluster");
  cr_expect_eq(settings.rendezvous.port, 65528);
  cr_expect(READ("NCCL_JOIN_RENDEZVOUS=[fd00::1]:31000"));
  cr_expect_str_eq(settings.rendezvous.host, "fd00::1");
  cr_expect_eq(settings.rendezvous.port, 31000);
}

Test(settings, a_range_of_ports_has_as_many_as_are_tried) {
  static const char *const wrong[] = {"31000",       "31000-", "-31007",      "31000-31006",
                                      "31007-31000", "0-100",  "65530-65537", "31000-31007-31020"};
  cr_expect(READ("NCCL_JOIN=1"));
  cr_expect_eq(settings.machines_ports.first, 61000);
  cr_expect_eq(settings.machines_ports.last, 65535);
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    char entry[64];
    snprintf(entry, sizeof(entry), "NCCL_JOIN_MACHINES_PORTS=%s", wrong[i]);
    cr_expect_not(READ(entry), "accepted %s", entry);
    expect_mentions("first-last, at least 8 ports");
  }
  cr_expect(READ("NCCL_JOIN_MACHINES_PORTS=31000-31007"));
  cr_expect_eq(settings.machines_ports.first, 31000);
  cr_expect_eq(settings.machines_ports.last, 31007);
}

Test(settings, an_unknown_name_is_an_error_and_the_known_ones_are_listed_once) {
  cr_expect_not(READ("NCCL_JOIN_TIEMOUT=5", "NCCL_JOIN_COLOUR=red", "NCCL_JOIN_TASTE=sweet"));
  const char *list = strstr(error, "\nNCCL_JOIN_COLOUR is not known to this version of nccl-join. "
                                   "Known: NCCL_JOIN, NCCL_JOIN_EARLY_EXIT, ");
  cr_assert(list, "%s", error);
  cr_expect(strstr(list, ", NCCL_JOIN_TRACE, NCCL_JOIN_TRACE_SIZE, "
                         "NCCL_JOIN_REPORT\nNCCL_JOIN_TASTE is not known to "
                         "this version of nccl-join."),
            "%s", error);
  cr_expect_null(strstr(strstr(list, " Known: ") + 1, " Known: "), "%s", error);
}

Test(settings, a_mistyped_name_is_suggested_and_nothing_else) {
  static const char *const names[][2] = {{"TIEMOUT", "TIMEOUT"},
                                         {"DEBUGFILE", "DEBUG_FILE"},
                                         {"SKEWWARN", "SKEW_WARN"},
                                         {"TRACES", "TRACE"},
                                         {"DEBUG_FILES", "DEBUG_FILE"}};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    char entry[64], said[160];
    snprintf(entry, sizeof(entry), "NCCL_JOIN_%s=x", names[i][0]);
    cr_expect_not(READ(entry));
    snprintf(said, sizeof(said),
             "NCCL_JOIN_%s is not known to this version of nccl-join. Did you "
             "mean NCCL_JOIN_%s?",
             names[i][0], names[i][1]);
    cr_expect_str_eq(error, said);
  }
  cr_expect_not(READ("NCCL_JOIN_DEBUG_FILES_OF_ALL_MY_RANKS=/tmp"));
  cr_expect_not(mentions("Did you mean"));
  cr_expect_not(READ("NCCL_JOIN_FOO=1"));
  cr_expect_not(mentions("Did you mean"), "%s", error);
}

Test(settings, other_programs_names_are_left_alone) {
  cr_expect(READ("NCCL_JOINT=1", "MY_NCCL_JOIN_X=1", "NCCL_JOIN_", "NCCLJOIN_X=1") ||
            mentions("NCCL_JOIN_ is not known"));
  cr_expect(READ("NCCL_JOINT=1", "MY_NCCL_JOIN_X=1", "NCCLJOIN_X=1"), "%s", error);
}

Test(settings, several_errors_are_a_line_each_and_the_rest_is_read) {
  cr_expect_not(
      READ("NCCL_JOIN_NO=1", "NCCL_JOIN=yes", "NCCL_JOIN_TIMEOUT=7", "NCCL_JOIN_LOSSY=x"));
  size_t lines = 1;
  for (const char *c = error; *c; c++)
    lines += *c == '\n';
  cr_expect_eq(lines, 3, "%s", error);
  expect_mentions("NCCL_JOIN=yes is not accepted. Accepted: 1, 0");
  cr_expect_eq(settings.timeout_s, 7);
}

Test(settings, a_path_that_does_not_fit_is_an_error) {
  char entry[SETTINGS_PATH_SIZE + 64] = "NCCL_JOIN_TRACE=";
  size_t prefix = strlen(entry);
  memset(entry + prefix, 'x', SETTINGS_PATH_SIZE);
  cr_expect_not(READ(entry));
  expect_mentions("shorter than 1024 bytes");
  char hook[SETTINGS_PATH_SIZE + 64] = "NCCL_JOIN_HOOK=";
  memset(hook + strlen(hook), 'x', SETTINGS_PATH_SIZE);
  cr_expect_not(READ(hook));
  expect_mentions("shorter than 1024 bytes");
  entry[prefix + SETTINGS_PATH_SIZE - 1] = '\0';
  cr_expect(READ(entry));
  cr_expect_eq(strlen(settings.trace_folder), SETTINGS_PATH_SIZE - 1);
}

Test(settings, only_known_percent_signs_in_the_file_name) {
  cr_expect_not(READ("NCCL_JOIN_DEBUG_FILE=/tmp/%d.log"));
  expect_mentions("%h host, %p process, %r rank");
  cr_expect_not(READ("NCCL_JOIN_DEBUG_FILE=log%"));
  cr_expect(READ("NCCL_JOIN_TRACE=/tmp/100%"));
}

Test(settings, error_text_never_leaves_its_buffer_and_is_whole_lines_after_the_first) {
  char *const environment[] = {
      "NCCL_JOIN_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=1", "NCCL_JOIN_LOSSY=x",
      "NCCL_JOIN=x", "NCCL_JOIN_TIMEOUT=x", NULL};
  char whole[SETTINGS_ERROR_SIZE];
  settings_read(&settings, environment, whole, sizeof(whole));
  for (size_t size = 1; size < sizeof(whole); size++) {
    char text[SETTINGS_ERROR_SIZE + 1];
    memset(text, 'z', sizeof(text));
    cr_assert_not(settings_read(&settings, environment, text, size));
    size_t length = strlen(text);
    cr_assert_lt(length, size);
    cr_assert_eq(text[size], 'z');
    cr_assert_eq(strncmp(text, whole, length), 0);
    cr_assert(!strchr(text, '\n') || whole[length] == '\n' || whole[length] == '\0', "%s", text);
  }
}

Test(settings, an_error_stays_one_line_whatever_the_value_holds) {
  cr_expect_not(READ("NCCL_JOIN_LOSSY=a\nb\033[31m\x7f", "NCCL_JOIN_A\nB=1"));
  cr_expect_eq(strncmp(error, "NCCL_JOIN_LOSSY=a?b?[31m? is not accepted.", 42), 0, "%s", error);
  expect_mentions("\nNCCL_JOIN_A?B is not known");
}

Test(settings, a_long_value_is_cut_between_characters) {
  char entry[256] = "NCCL_JOIN_LOSSY=x", shown[128] = "NCCL_JOIN_LOSSY=x";
  for (int i = 0; i < 60; i++)
    strcat(entry, "\xc3\xa9"); /* e acute */
  for (int i = 0; i < 39; i++)
    strcat(shown, "\xc3\xa9");
  cr_expect_not(READ(entry));
  strcat(shown, "... is not accepted");
  expect_mentions(shown);
}

Test(settings, the_longest_value_that_fits_is_shown_whole) {
  char bytes[16];
  cr_expect_str_eq(settings_as_line("fifteen letters", 15, bytes, sizeof(bytes)),
                   "fifteen letters");
  cr_expect_str_eq(settings_as_line("sixteen letters.", 16, bytes, sizeof(bytes)),
                   "sixteen lett...");
}

Test(settings, a_long_value_without_a_character_is_cut_to_nothing) {
  char entry[256] = "NCCL_JOIN_LOSSY=";
  memset(entry + strlen(entry), 0x80, 200);
  cr_expect_not(READ(entry));
  expect_mentions("NCCL_JOIN_LOSSY=... is not accepted");
}

Test(settings, names_of_functions) {
  static const char *const right[] = {"finish", "MPI_Barrier", "-MPI_Barrier,-MPI_Finalize",
                                      "_ZN4gloo7barrierERNS_14BarrierOptionsE", "a,b,a1,A,$x,a.b"};
  static const char *const wrong[] = {
      ",",         "finish,",  ",finish", "a,,b",          "a b", "1a",
      "a,a",       "-finish",  "-",       "ncclBroadcast", "a;b", "-MPI_Barrier,-MPI_Barrier",
      "MPI_Bar-r", "finish()", "a,-a"};
  char entry[256];
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
    snprintf(entry, sizeof entry, "NCCL_JOIN_EXIT_ON=%s", right[i]);
    cr_expect(READ(entry), "%s: %s", right[i], error);
    cr_expect_str_eq(settings.exit_on, right[i]);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    snprintf(entry, sizeof entry, "NCCL_JOIN_EXIT_ON=%s", wrong[i]);
    cr_expect_not(READ(entry), "%s", wrong[i]);
    cr_expect_str_empty(settings.exit_on);
  }
  expect_mentions("Wrong is \"-a\". Accepted: names, separated by commas; -MPI_Barrier, "
                  "-MPI_Finalize, -ProcessGroupNCCL: not that one; as the linker knows them (nm), "
                  "without blanks, each "
                  "once, at most 32, none of NCCL's");
  cr_expect_not(READ("NCCL_JOIN_EXIT_ON=finish, other"));
  expect_mentions("NCCL_JOIN_EXIT_ON=finish, other is not accepted. Wrong is \" other\".");
}

Test(settings, at_most_32_names_of_functions) {
  char entry[512] = "NCCL_JOIN_EXIT_ON=f0";
  for (int i = 1; i < SETTINGS_NAMES_MAX; i++)
    snprintf(entry + strlen(entry), sizeof entry - strlen(entry), ",f%d", i);
  cr_expect(READ(entry));
  snprintf(entry + strlen(entry), sizeof entry - strlen(entry), ",one_more");
  cr_expect_not(READ(entry));
}

/* A typo of a word is no folder. */
Test(settings, a_folder_is_known_by_its_slash) {
  cr_expect(READ("NCCL_JOIN_REPORT=OFF"));
  cr_expect_str_eq(settings.report, REPORT_OFF);
  cr_expect(READ("NCCL_JOIN_REPORT=./off"));
  cr_expect_str_eq(settings.report, "./off");
  cr_expect_not(READ("NCCL_JOIN_REPORT=lin"));
  expect_mentions("Did you mean line? Accepted: line, off, or a folder with a / in it");
  cr_expect_str_eq(settings.report, REPORT_LINE);
}
