/* Calls all of steps.h and says the results; a program (main below, without PART), and a library to
 * be opened by it. The words of the program:
 *
 *   steps          calls them
 *   make           makes a communicator: from here on calls may be watched
 *   end            destroys it
 *   open FILE      opens a library and lets it call them; reopen: closes it before
 *   close          closes the library
 *   maps           says of the page of the program's first reference that is read-only once it has
 *                  been relocated whether it is: "sealed" or "writable"
 *   whose          says in which library the program's reference to step_integers ends
 *   point          takes the address of step_cc instead of looking it up
 *   look NAME      looks a function up; call: calls the last that was looked up, with 4
 *   keep FILE      opens a library for good, and looks step_integers up in it
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/parts/say.h"
#include "tests/interpose/parts/steps.h"

#ifdef OLD
__asm__(".symver step_versioned, step_versioned@STEPS_1");
#endif

#ifdef STEPLESS
static void all_steps(void) {}
#else
__attribute__((visibility("default"))) void all_steps(void) {
  struct large large = {1.5, 2.5, {1, 2, 3, 4}};
  double complex z = 1 + 2 * I;
  say("%ld", step_integers(1, 2, 3, 4, 5, 6, 7, 8, 9));
  say("%g", step_doubles(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2));
  say("%g", (double)step_float(1.5F, 3, 0.25F));
  say("%Lg", step_long_double(1, 8));
  z = step_complex(z);
  say("%g %g", creal(z), cimag(z));
  large = step_large(large, 2);
  say("%g %g %ld %ld", large.x, large.y, large.z[0], large.z[3]);
  say("%g", step_variadic(10, 1., 2., 3., 4., 5., 6., 7., 8., 9., 10.));
  say("%ld", step_variadic_integers(8, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L));
  errno = EPERM;
  const char *found = step_errno(EPERM);
  say("%s %s", found, errno == ENOTTY ? "given" : "taken");
  say("%d", step_cc(1));
  say("%ld", step_again(3));
  say("%d", step_chosen(4));
  say("%d", step_versioned(5));
  say("%d", MPI_Step(6));
#ifdef __AVX__
  eight_floats a = {1, 2, 3, 4, 5, 6, 7, 8}, b = step_vector(a, a);
  say("%g %g", (double)b[0], (double)b[7]);
#endif
}

#endif

#ifndef PART
static void *library, *function;

static int is(const char *word, const char *other) {
  return strcmp(word, other) == 0;
}

static void close_library(void) {
  dlclose(library);
  library = NULL;
}

static int open_library(const char *file) {
  library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  void *steps = library == NULL ? NULL : dlsym(library, "all_steps");
  if (steps == NULL)
    return 0;
  ((void (*)(void))steps)();
  return 1;
}

static int find_sealed(struct dl_phdr_info *info, size_t size, void *address) {
  (void)size;
  for (unsigned i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
      *(uintptr_t *)address = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
  return 1;
}

static void say_whether_sealed(void) {
  char line[4096], writable = '?';
  uintptr_t address = 0, begin, end;
  dl_iterate_phdr(find_sealed, &address);
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) != NULL)
    if (sscanf(line, "%lx-%lx r%c", &begin, &end, &writable) == 3 && begin <= address &&
        address < end)
      break;
  fclose(maps);
  say(writable == 'w' ? "writable" : "sealed");
}

#ifdef STEPLESS
static void say_whose(void) {}
static void point(void) {}
#else
static void point(void) {
  int (*volatile reference)(int) = step_cc;
  function = (void *)reference;
}

static void say_whose(void) {
  long (*volatile reference)(long, long, long, long, long, long, long, long, long) = step_integers;
  Dl_info object;
  say("%s", dladdr((void *)reference, &object) ? strrchr(object.dli_fname, '/') + 1 : "nobody");
}
#endif

int main(int argc, char **argv) {
  static ncclComm_t comm;
  (void)argc;
  for (char **word = argv + 1; *word != NULL; word++) {
    if (is(*word, "steps"))
      all_steps();
    else if (is(*word, "make"))
      ncclCommInitRank(&comm, 1, (ncclUniqueId){0}, 0);
    else if (is(*word, "end"))
      ncclCommDestroy(comm);
    else if (is(*word, "open") || is(*word, "reopen")) {
      if (is(*word, "reopen"))
        close_library();
      if (!open_library(*++word))
        return 98;
    } else if (is(*word, "close"))
      close_library();
    else if (is(*word, "whose"))
      say_whose();
    else if (is(*word, "point"))
      point();
    else if (is(*word, "maps"))
      say_whether_sealed();
    else if (is(*word, "look"))
      function = dlsym(RTLD_DEFAULT, *++word);
    else if (is(*word, "keep"))
      function = dlsym(dlopen(*++word, RTLD_LAZY | RTLD_LOCAL), "step_integers");
    else if (is(*word, "call"))
      say("%d", ((int (*)(int))function)(4));
    else
      return 97;
  }
  return 0;
}
#endif
