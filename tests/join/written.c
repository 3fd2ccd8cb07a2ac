/* See written.h. */
#include "tests/join/folder.h"
#include "tests/join/written.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/text_file.h"

char traces_folder[] = "/tmp/nccl-join-report-XXXXXX";

void written_begin(void) {
  folder_make(traces_folder);
  setenv("LC_ALL", "C", 1);
  unsetenv("COLUMNS");
}

void written_end(void) {
  folder_remove(traces_folder);
}

struct run *report(const char *options) {
  char arguments[160];
  snprintf(arguments, sizeof arguments, "%s %s", options, traces_folder);
  return run_tool("tools/nccl-join-report", arguments);
}

void write_text(const char *name, const char *text) {
  text_file_write(traces_folder, name, text);
}

/* Of a process, in a team of so many. */
void write_member(const char *team, int ranks, int rank, int process, const char *header,
                  const char *records) {
  char name[64], *text = NULL;
  snprintf(name, sizeof name, "rank-%d.here.%d-%s.jsonl", rank, process, team);
  cr_assert_geq(
      asprintf(&text,
               "{\"format\":\"nccl-join-trace\",\"version\":1,\"rank\":%d,\"ranks\":%d,\"team\":"
               "\"%s\",\"host\":\"here\",\"pid\":%d,\"start_ns\":1000000000%s}\n%s",
               rank, ranks, team, process, header, records),
      0);
  write_text(name, text);
  free(text);
}

void write_rank(int rank, const char *header, const char *records) {
  write_member("00000000000000ab", 2, rank, 100 + rank, header, records);
}

void expect_not_in(const char *text, const char *part) {
  cr_expect(strstr(text, part) == NULL, "'%s' in:\n%s", part, text);
}
