/* Functions that do not return: see native_graph.h. */
#include "interpose/places/native/native_graph.h"

#include <string.h>

#include "interpose/places/native/native_jumps.h"

/* A longer function is taken for one that returns: this bounds the time for each call. */
enum { LOOKED_AT_MAX = 4096 };

/* Of libc and the C++ runtime; called where gcc and clang make nothing of what follows. */
static const char *const endings[] = {"abort",
                                      "exit",
                                      "_exit",
                                      "_Exit",
                                      "quick_exit",
                                      "err",
                                      "errx",
                                      "pthread_exit",
                                      "longjmp",
                                      "_longjmp",
                                      "siglongjmp",
                                      "__longjmp_chk",
                                      "__assert_fail",
                                      "__assert_perror_fail",
                                      "__stack_chk_fail",
                                      "__chk_fail",
                                      "__fortify_fail",
                                      "__cxa_throw",
                                      "__cxa_rethrow",
                                      "__cxa_bad_cast",
                                      "__cxa_throw_bad_array_new_length",
                                      "__cxa_pure_virtual",
                                      "_Unwind_Resume",
                                      "_ZSt9terminatev"};

/* std::__throw_length_error(char const*) and so on. */
static const char throws[] = "_ZSt";
static const char throws_too[] = "__throw_";

/* What sanitizers report errors with, where they end the program: gcc's __asan_report_load8 and
 * __ubsan_handle_type_mismatch_v1_abort, say. */
static const char reports[] = "__asan_report_";
static const char handles[] = "__ubsan_handle_";
static const char aborts[] = "_abort";

static bool is_of_a_sanitizer(const char *name) {
  size_t length = strlen(name);
  return strncmp(name, reports, sizeof(reports) - 1) == 0 ||
         (strncmp(name, handles, sizeof(handles) - 1) == 0 && length > sizeof(aborts) &&
          strcmp(name + length + 1 - sizeof(aborts), aborts) == 0);
}

/* ---- By code ---- */

static bool has_no_way_out(struct native_part function, native_decode *decode) {
  struct native_instruction is;
  if (function.end - function.begin > LOOKED_AT_MAX)
    return false;
  for (const uint8_t *at = function.begin; at < function.end; at += is.length) {
    if (!decode(at, (size_t)(function.end - at), &is))
      return false;
    const uint8_t *to = (const uint8_t *)((uintptr_t)at + (uintptr_t)is.target);
    bool leaves = is.kind == NATIVE_RETURN || is.kind == NATIVE_JUMP_REGISTER ||
                  is.kind == NATIVE_JUMP_MEMORY;
    bool jumps = is.kind == NATIVE_JUMP || is.kind == NATIVE_BRANCH;
    if (leaves || (jumps && (to < function.begin || to >= function.end)))
      return false;
  }
  return true;
}

/* ---- By name ---- */

static bool is_ending(const char *name) {
  if (strncmp(name, throws, strlen(throws)) == 0 && strstr(name, throws_too) != NULL)
    return true;
  if (is_of_a_sanitizer(name))
    return true;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (strcmp(name, endings[i]) == 0)
      return true;
  return false;
}

bool native_never_returns(const struct native_object *object, const uint8_t *function,
                          native_decode *decode) {
  struct native_part code;
  bool is_moved;
  const char *name;
  if (!native_is_stub(object, function, decode, &name))
    return native_function_at(object, function, &code, &is_moved) && code.begin == function &&
           has_no_way_out(code, decode);
  return name != NULL && is_ending(name);
}
