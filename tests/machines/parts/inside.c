/* Commands on a machine (inside.h). */
#include "tests/machines/parts/inside.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 127, SIGNALS = 128 };

/* In the order in which they are entered: that of mounts, by which /proc is found, comes last. */
static void enter(pid_t process) {
  static const char *const names[] = {"pid_for_children", "net", "uts", "mnt"};
  enum { COUNT = sizeof names / sizeof *names };
  int files[COUNT];
  char path[64],
      *here = getcwd(NULL, 0); /* mounts are others, and lead to another folder at first */
  for (int i = 0; i < COUNT; i++) {
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)process, names[i]);
    files[i] = open(path, O_RDONLY | O_CLOEXEC);
  }
  for (int i = 0; i < COUNT; i++)
    if (files[i] < 0 || setns(files[i], 0) != 0) {
      perror(names[i]);
      _exit(FAILED);
    }
  if (here == NULL || chdir(here) != 0)
    _exit(FAILED);
  free(here);
}

static int status_of(pid_t child) {
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) != child)
    ;
  return child < 0             ? FAILED
         : WIFSIGNALED(status) ? SIGNALS + WTERMSIG(status)
                               : WEXITSTATUS(status);
}

static pid_t start_shell(const char *command) {
  pid_t child = fork();
  if (child != 0)
    return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(FAILED);
}

void inside_run(pid_t process, const char *command) {
  pid_t child = fork();
  if (child != 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (process != 0)
    enter(process);
  int status = status_of(start_shell(command));
  fprintf(stderr, "machines: has run %s: %d\n", command, status);
  _exit(status);
}

int inside_prepare(const char *command, int machine) {
  char number[16];
  snprintf(number, sizeof number, "%d", machine);
  setenv("MACHINE", number, 1);
  return status_of(start_shell(command)) == 0;
}
