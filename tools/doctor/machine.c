/* What the machine has (findings.h): shared memory, the kernel, NCCL, the driver. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/transport/segment.h"
#include "tools/check/command.h"
#include "tools/check/image.h"
#include "tools/check/python.h"
#include "tools/check/search.h"
#include "tools/doctor/findings.h"

#define MIB ((unsigned long long)1 << 20)

/* Docker's default for /dev/shm. NCCL's own guide asks for more in containers (its troubleshooting,
 * "Docker": --shm-size=1g). */
#define CONTAINER_BYTES (64 * MIB)
#define RANKS 8u

static const char folder[] = "/dev/shm";

/* Files of jobs that were killed before all of their ranks had come. */
static unsigned count_left(void) {
  char begin[64];
  unsigned count = 0;
  snprintf(begin, sizeof begin, "nccl-join-%u-", (unsigned)getuid());
  DIR *files = opendir(folder);
  for (struct dirent *entry; files != NULL && (entry = readdir(files)) != NULL;)
    count += strncmp(entry->d_name, begin, strlen(begin)) == 0;
  if (files != NULL)
    closedir(files);
  return count;
}

static bool can_make_files(void) {
  char path[] = "/dev/shm/nccl-join-doctor-XXXXXX";
  int file = mkostemp(path, O_CLOEXEC);
  if (file < 0)
    return false;
  unlink(path);
  bool good = posix_fallocate(file, 0, (off_t)segment_bytes(RANKS)) == 0;
  close(file);
  return good;
}

void look_at_memory(struct findings *findings) {
  struct statvfs system;
  unsigned long long needed = segment_bytes(RANKS), total, left;
  static const char enlarge[] = "mount -o remount,size=1G /dev/shm; in a container docker run "
                                "--shm-size=1g, or in Kubernetes an emptyDir of medium Memory";
  if (statvfs(folder, &system) != 0) {
    finding(findings, HEALTH_WRONG, "/dev/shm", "mount -t tmpfs tmpfs /dev/shm", "there is none");
    return;
  }
  if (system.f_flag & ST_RDONLY) {
    finding(findings, HEALTH_WRONG, folder, "mount -o remount,rw /dev/shm", "it is read-only");
    return;
  }
  total = (unsigned long long)system.f_blocks * system.f_frsize;
  left = (unsigned long long)system.f_bavail * system.f_frsize;
  if (left < needed || !can_make_files())
    finding(findings, HEALTH_WRONG, folder, enlarge,
            "%llu of %llu KiB are free; a communicator of %u ranks takes %llu KiB", left / 1024,
            total / 1024, RANKS, needed / 1024);
  else if (total > 0 && total <= CONTAINER_BYTES)
    finding(
        findings, HEALTH_NOTE, folder, enlarge,
        "%llu MiB: enough for nccl-join (%llu KiB for a communicator of %u ranks), but NCCL needs "
        "it as well",
        total / MIB, needed / 1024, RANKS);
  else
    finding(findings, HEALTH_GOOD, folder, NULL,
            "%llu of %llu MiB are free; a communicator of %u ranks takes %llu KiB", left / MIB,
            total / MIB, RANKS, needed / 1024);
  uint32_t nleft = count_left();
  if (nleft > 0)
    finding(findings, HEALTH_NOTE, folder,
            "if no job of yours is running: rm /dev/shm/nccl-join-$(id -u)-*",
            nleft == 1
                ? "%u communicator is being made by a running job, or was left by a killed one"
                : "%u communicators are being made by running jobs, or were left by killed ones",
            nleft);
}

void look_at_kernel(struct findings *findings) {
  long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
  if (known > 0 && known & MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    finding(findings, HEALTH_GOOD, "kernel", NULL, "membarrier: expected collectives take no lock");
  else
    finding(findings, HEALTH_NOTE, "kernel",
            "allow the system call membarrier (a container's seccomp profile)",
            "no membarrier: every collective takes a lock");
}

/* ---- NCCL ---- */

/* Folders of the Python that is first on PATH, into which frameworks install NCCL. */
static void find_python_folders(struct python *python) {
  char name[] = "python3", *words[] = {name, NULL}, error[COMMAND_ERROR_SIZE];
  struct command command;
  if (command_read(&command, words, error) && command.kind == COMMAND_PYTHON)
    python_read(python, &command, PYTHON_OWN, error);
  command_free(&command);
}

static void describe_nccl(struct findings *findings, const char *path, const char *whose) {
  char error[IMAGE_ERROR_SIZE], real[PATH_MAX];
  struct image *image = image_read(path, error);
  unsigned major = 0, minor = 0;
  if (image == NULL)
    return;
  image_scan(image, SCAN_CARRIED);
  bool known = sscanf(image->version, "%u.%u", &major, &minor) == 2;
  if (realpath(path, real) == NULL)
    snprintf(real, sizeof real, "%s", path);
  if (known && (major < 2 || (major == 2 && minor < 18)))
    finding(findings, HEALTH_WRONG, "NCCL", "use NCCL 2.18 or later",
            "%s, %s, %s: older than what nccl-join is made for, 2.18", image->version, real, whose);
  else
    finding(findings, HEALTH_GOOD, "NCCL", NULL, "%s, %s, %s",
            known ? image->version : "of a version that is not written in it", real, whose);
  image_free(image);
}

void look_at_nccl(struct findings *findings, const struct places *places) {
  (void)places;
  struct search search;
  struct python python = {0};
  char path[PATH_MAX], inner[PATH_MAX];
  size_t before = findings->count;
  search_begin(&search, getenv("LD_LIBRARY_PATH"));
  if (search_library(&search, "libnccl.so.2", NULL, path))
    describe_nccl(findings, path, "which the dynamic linker finds");
  find_python_folders(&python);
  for (size_t i = 0; i < python.folders.count; i++)
    if (snprintf(inner, sizeof inner, "%s/libnccl.so.2", python.folders.items[i]) < PATH_MAX &&
        access(inner, R_OK) == 0)
      describe_nccl(findings, inner, "of the packages of python3");
  if (findings->count == before)
    finding(findings, HEALTH_NOTE, "NCCL",
            "set LD_LIBRARY_PATH, or ask for your program: nccl-join check python train.py",
            "none is found by the dynamic linker, nor among the packages of python3");
  python_free(&python);
  search_end(&search);
}

/* ---- the driver ---- */

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  ..." */
static bool driver_version(char version[64]) {
  char line[512] = "";
  FILE *file = fopen("/proc/driver/nvidia/version", "re");
  bool read = file != NULL && fgets(line, sizeof line, file) != NULL;
  if (file != NULL)
    fclose(file);
  const char *at = read ? strstr(line, "Module") : NULL;
  return at != NULL && sscanf(at + 6, "%63s", version) == 1;
}

void look_at_driver(struct findings *findings) {
  struct search search;
  char path[PATH_MAX], version[64];
  search_begin(&search, getenv("LD_LIBRARY_PATH"));
  bool has_library = search_library(&search, "libcuda.so.1", NULL, path);
  search_end(&search);
  if (driver_version(version) && has_library)
    finding(findings, HEALTH_GOOD, "GPU driver", NULL, "%s, %s", version, path);
  else if (driver_version(version))
    finding(findings, HEALTH_WRONG, "GPU driver",
            "in a container: start it with the NVIDIA container toolkit (--gpus all)",
            "%s is in the kernel, but libcuda.so.1 is not found", version);
  else
    finding(findings, HEALTH_NOTE, "GPU driver",
            "without a GPU, programs run on the stand-ins: nccl-join run --loopback",
            "there is none%s%s", has_library ? ", though there is " : "", has_library ? path : "");
}
