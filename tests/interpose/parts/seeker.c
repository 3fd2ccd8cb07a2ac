/* A program that comes to NCCL by opening it and looking functions up. Arguments, any number of
 * times over:
 *
 *   --HOW FILE   what to look up in from here on:
 *     --local, --global, --deepbind   FILE opened so
 *     --noload                        the same, of which there is another handle already
 *     --default                       everywhere (RTLD_DEFAULT), with FILE opened for all
 *     --program                       the handle of the program itself, with FILE opened for all
 *     --versioned                     FILE, by dlvsym
 *   close        closes the handle
 *   has:NAME     says whether the function is there, and what dlerror thinks of that
 *   NAME         calls the function (client.c)
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/parts/client.h"
#include "tests/interpose/parts/say.h"

static void *handle;
static bool versioned;

void *client_look_up(const char *name) {
  return versioned ? dlvsym(handle, name, "ANY_1.0") : dlsym(handle, name);
}

static const struct way {
  const char *name;
  int flags;
} ways[] = {
    {"--local", RTLD_LAZY | RTLD_LOCAL},       {"--global", RTLD_NOW | RTLD_GLOBAL},
    {"--deepbind", RTLD_LAZY | RTLD_DEEPBIND}, {"--noload", RTLD_LAZY | RTLD_NOLOAD},
    {"--default", RTLD_LAZY | RTLD_GLOBAL},    {"--program", RTLD_LAZY | RTLD_GLOBAL},
    {"--versioned", RTLD_LAZY | RTLD_LOCAL},
};

static bool open_as(const char *name, const char *file) {
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (strcmp(ways[i].name, name) != 0)
      continue;
    if (ways[i].flags & RTLD_NOLOAD)
      dlopen(file, RTLD_LAZY);
    handle = dlopen(file, ways[i].flags);
    if (handle == NULL)
      break;
    if (strcmp(name, "--default") == 0)
      handle = RTLD_DEFAULT;
    if (strcmp(name, "--program") == 0)
      handle = dlopen(NULL, RTLD_LAZY);
    versioned = strcmp(name, "--versioned") == 0;
    return true;
  }
  return false;
}

static void tell_of(const char *name) {
  dlerror();
  bool has = client_look_up(name) != NULL;
  const char *error = dlerror();
  say("%s: %s", name, has ? "there" : error == NULL ? "no error" : "missing");
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "has:", 4) == 0) {
      tell_of(argv[i] + 4);
    } else if (strcmp(argv[i], "close") == 0) {
      dlclose(handle);
    } else if (strncmp(argv[i], "--", 2) != 0) {
      client(1, argv + i);
    } else if (!open_as(argv[i], argv[i + 1])) {
      say("%s", dlerror());
      return 98;
    } else {
      i++;
    }
  }
  return 0;
}
