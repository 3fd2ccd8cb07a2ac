/* See ranks_options.h. */
#include "tools/ranks_options.h"

#include <ctype.h>
#include <dirent.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void say(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "nccl-join: %s\n", text);
}

static int usage(const char *problem, const char *argument) {
  say("%s%s (see nccl-join --help)", problem, argument);
  return STATUS_USAGE;
}

static bool read_number(const char *text, int *number) {
  char *end;
  long value = strtol(text, &end, 10);
  if (!isdigit((unsigned char)*text) || *end != '\0' || value < 1 || value > RANKS_MAX)
    return false;
  *number = (int)value;
  return true;
}

int options_read(struct options *options, int argc, char **argv) {
  static const struct option known[] = {{"preload", required_argument, NULL, 'p'},
                                        {"libraries", required_argument, NULL, 'l'},
                                        {"no-prefix", no_argument, NULL, 'x'},
                                        {0}};
  *options = (struct options){.prefix = true};
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, "+:n:", known, NULL)) != -1;) {
    if (option == 'n' && !read_number(optarg, &options->nranks))
      return usage("-n takes a number of ranks from 1 to 256, not ", optarg);
    if (option == 'p')
      options->preload = optarg;
    else if (option == 'l')
      options->libraries = optarg;
    else if (option == 'x')
      options->prefix = false;
    else if (option != 'n')
      return usage(option == ':' ? "a value is missing after " : "unknown option ",
                   argv[optind - 1]);
  }
  options->program = argv + optind;
  return *options->program != NULL ? 0 : usage("no program to run", "");
}

/* ---- devices ---- */

/* /dev/nvidia0 and so on, which the driver makes for each. */
static int count_device_files(void) {
  int count = 0;
  DIR *folder = opendir("/dev");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    const char *number = entry->d_name + strlen("nvidia");
    if (strncmp(entry->d_name, "nvidia", strlen("nvidia")) == 0 &&
        isdigit((unsigned char)*number) && number[strspn(number, "0123456789")] == '\0')
      count++;
  }
  if (folder != NULL)
    closedir(folder);
  return count;
}

/* Elements of CUDA_VISIBLE_DEVICES, up to the first that is none (CUDA's programming guide). -1:
 * all. */
static int count_visible(const char *list) {
  int count = 0;
  if (list == NULL)
    return -1;
  while (*list != '\0' && *list != '-' && *list != ',') {
    count++;
    list += strcspn(list, ",");
    list += *list == ',';
  }
  return count;
}

/* NCCL_MULTI_RANK_GPU_ENABLE (NCCL 2.30.3), or ranks that say that they are on several hosts. */
static bool may_share_devices(void) {
  const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return (shared != NULL && atoi(shared) == 1) || getenv("NCCL_HOSTID") != NULL;
}

void options_warn_of_devices(const struct options *options) {
  int visible = count_visible(getenv("CUDA_VISIBLE_DEVICES"));
  int devices = visible >= 0 ? visible : count_device_files();
  if (options->libraries == NULL && devices > 0 && options->nranks > devices &&
      !may_share_devices())
    say("%d ranks, but %s %d GPU%s: NCCL needs one for each rank, and refuses two ranks on one "
        "(\"Duplicate GPU detected\"). To do: -n %d, or --loopback to try it without GPUs",
        options->nranks, visible >= 0 ? "CUDA_VISIBLE_DEVICES names" : "this machine has", devices,
        devices == 1 ? "" : "s", devices);
}
