/* Exceptions of C++, and with them those of Python (exceptions.h).
 *
 * C++: __cxa_current_exception_type of the Itanium C++ ABI says what is handled in the calling
 * thread, std::uncaught_exceptions whether a stack is unwound. They are looked up among what all
 * can see: of a Python's extension modules, which only these see, no exception passes through
 * Python.
 */
#include "interpose/places/exceptions.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/places/python/python_frames.h"

/* Of C++'s std::type_info, after the pointer to its functions: the mangled name, which may have a *
 * before it. */
struct type_info {
  const void *functions;
  const char *name;
};

/* Returns NULL if it is not there. */
static void *find_function(const char *name) {
  return dlsym(RTLD_DEFAULT, name);
}

static void name_type(const struct type_info *type, char *text, size_t size) {
  char *(*demangle)(const char *name, char *buffer, size_t *length, int *status);
  *(void **)&demangle = find_function("__cxa_demangle"); /* as dlsym(3) says */
  int status = 0;
  const char *mangled = type->name + (type->name[0] == '*');
  char *name = demangle == NULL ? NULL : demangle(mangled, NULL, NULL, &status);
  snprintf(text, size, "%s", name != NULL ? name : mangled);
  free(name);
}

static bool is_in_cpp(char *text, size_t size) {
  int (*uncaught)(void);
  const struct type_info *(*current_type)(void);
  *(void **)&uncaught = find_function("_ZSt19uncaught_exceptionsv");
  *(void **)&current_type = find_function("__cxa_current_exception_type");
  const struct type_info *type = current_type == NULL ? NULL : current_type();
  if (type != NULL)
    name_type(type, text, size);
  else if (uncaught != NULL && uncaught() > 0)
    snprintf(text, size, "an exception of C++");
  else
    return false;
  return true;
}

bool exception_is_under_way(char *text, size_t size, bool at_end) {
  return is_in_cpp(text, size) || python_exception(text, size, at_end);
}
