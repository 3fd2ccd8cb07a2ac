/* nccl-join's own files, the release of glibc that they need, and whether they can be preloaded
 * (findings.h). */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/check/image.h"
#include "tools/doctor/findings.h"

/* ---- glibc ---- */

/* A release of glibc: 2.34 is 2034. */
static unsigned release_number(const char *text) {
  unsigned major = 0, minor = 0;
  return sscanf(text, "%u.%u", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

/* The highest GLIBC_x.y that a section of needed versions names, as text; "" none. */
static void read_needed(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, char needed[16]) {
  Elf_Data *data = elf_getdata(section, NULL);
  GElf_Verneed need;
  for (int at = 0; data != NULL && gelf_getverneed(data, at, &need) != NULL;) {
    GElf_Vernaux version;
    for (int inner = at + (int)need.vn_aux, i = 0;
         i < need.vn_cnt && gelf_getvernaux(data, inner, &version) != NULL;
         inner += (int)version.vna_next, i++) {
      const char *name = elf_strptr(elf, header->sh_link, version.vna_name);
      if (name != NULL && strncmp(name, "GLIBC_", 6) == 0 &&
          release_number(name + 6) > release_number(needed))
        snprintf(needed, 16, "%s", name + 6);
    }
    if (need.vn_next == 0)
      return;
    at += (int)need.vn_next;
  }
}

static void find_needed(const char *path, char needed[16]) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  elf_version(EV_CURRENT);
  Elf *elf = file >= 0 ? elf_begin(file, ELF_C_READ, NULL) : NULL;
  for (Elf_Scn *section = NULL; elf != NULL && (section = elf_nextscn(elf, section)) != NULL;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != NULL && header.sh_type == SHT_GNU_verneed)
      read_needed(elf, section, &header, needed);
  }
  elf_end(elf);
  if (file >= 0)
    close(file);
}

static void look_at_libc(struct findings *findings, const struct places *places) {
  char needed[16] = "", path[PATH_MAX];
  const char *here = gnu_get_libc_version(), *by = places->preload;
  find_needed(places->preload, needed);
  DIR *folder = opendir(places->helpers);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    char before[16];
    memcpy(before, needed, sizeof before);
    if (strncmp(entry->d_name, "nccl-join-", 10) == 0 &&
        snprintf(path, sizeof path, "%s/%s", places->helpers, entry->d_name) < PATH_MAX)
      find_needed(path, needed);
    if (strcmp(before, needed) != 0)
      by = "a program of nccl-join";
  }
  if (folder != NULL)
    closedir(folder);
  if (release_number(needed) > release_number(here))
    finding(findings, HEALTH_WRONG, "glibc", "build nccl-join on this machine, or on an older one",
            "%s here; %s needs %s", here, by, needed);
  else
    finding(findings, HEALTH_GOOD, "glibc", NULL, "%s here; this build needs %s", here,
            *needed != '\0' ? needed : "any");
}

/* ---- the files ---- */

void look_at_files(struct findings *findings, const struct places *places) {
  char error[IMAGE_ERROR_SIZE], path[PATH_MAX];
  static const char again[] = "make, or make install again";
  struct image *image = image_read(places->preload, error);
  if (image == NULL)
    finding(findings, HEALTH_WRONG, "nccl-join", again, "%s %s", places->preload, error);
  else if (!image->runs_here || !image->is_library)
    finding(findings, HEALTH_WRONG, "nccl-join", again, "%s is no library for this machine",
            places->preload);
  else
    finding(findings, HEALTH_GOOD, "nccl-join", NULL, "%s, %s", NCCL_JOIN_VERSION, places->preload);
  image_free(image);
  snprintf(path, sizeof path, "%s/libnccl.so.2", places->loopback);
  if (access(path, R_OK) == 0)
    finding(findings, HEALTH_GOOD, "stand-ins", NULL, "%s, for nccl-join run --loopback",
            places->loopback);
  else
    finding(findings, HEALTH_NOTE, "stand-ins", "make loopback, to run programs without a GPU",
            "not built: nccl-join run --loopback does not work");
  look_at_libc(findings, places);
}

/* ---- preloading ---- */

bool is_loaded(const char *preload) {
  char line[2 * PATH_MAX];
  FILE *maps = fopen("/proc/self/maps", "re");
  bool found = false;
  while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL)
    found = strstr(line, base_name(preload)) != NULL;
  if (maps != NULL)
    fclose(maps);
  return found;
}

/* What the dynamic linker says of it, in one line. */
static void start_child(const char *self, const char *preload, int *status, char *said,
                        size_t size) {
  int ends[2];
  *said = '\0';
  *status = -1;
  if (pipe(ends) != 0)
    return;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    setenv("LD_PRELOAD", preload, 1);
    execl(self, self, LOADED_OPTION, preload, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *lines = fdopen(ends[0], "r");
  if (lines == NULL || fgets(said, (int)size, lines) == NULL)
    *said = '\0';
  said[strcspn(said, "\n")] = '\0';
  if (lines != NULL)
    fclose(lines);
  if (child > 0)
    waitpid(child, status, 0);
}

void look_at_preload(struct findings *findings, const struct places *places, const char *self) {
  char said[1024];
  int status;
  if (strpbrk(places->preload, " :;\t") != NULL) {
    finding(findings, HEALTH_WRONG, "preload", "install it to a path without them",
            "the dynamic linker cannot take a path with a space, colon or semicolon: %s",
            places->preload);
    return;
  }
  start_child(self, places->preload, &status, said, sizeof said);
  if (status == 0)
    finding(findings, HEALTH_GOOD, "preload", NULL, "a child process has it in front");
  else
    finding(findings, HEALTH_WRONG, "preload",
            "see whether its folder may be executed from (mount without noexec), and whether "
            "something here clears LD_PRELOAD",
            "a child process does not have it in front%s%s", *said != '\0' ? ": " : "", said);
}
