/* The grammar of RFC 8259, by recursive descent (json_syntax.h). */
#include "tests/tools/json_syntax.h"

#include <stddef.h>
#include <string.h>

static bool value(const char **at);

static void space(const char **at) {
  *at += strspn(*at, " \t\r\n");
}

static bool take(const char **at, const char *text) {
  size_t size = strlen(text);
  if (strncmp(*at, text, size) != 0)
    return false;
  *at += size;
  return true;
}

static bool digits(const char **at) {
  size_t size = strspn(*at, "0123456789");
  *at += size;
  return size > 0;
}

static bool number(const char **at) {
  take(at, "-");
  if (!take(at, "0") && !digits(at))
    return false;
  if (take(at, ".") && !digits(at))
    return false;
  if (!take(at, "e") && !take(at, "E"))
    return true;
  if (!take(at, "+"))
    take(at, "-");
  return digits(at);
}

static bool escape(const char **at) {
  if (!take(at, "u"))
    return **at != '\0' && strchr("\"\\/bfnrt", *(*at)++) != NULL;
  for (int i = 0; i < 4; i++)
    if (**at == '\0' || strchr("0123456789abcdefABCDEF", *(*at)++) == NULL)
      return false;
  return true;
}

static bool string(const char **at) {
  if (!take(at, "\""))
    return false;
  while (!take(at, "\"")) {
    if ((unsigned char)**at < ' ')
      return false;
    if (*(*at)++ == '\\' && !escape(at))
      return false;
  }
  return true;
}

/* What stands between brackets: elements, or names with elements. */
static bool list(const char **at, const char *end, bool named) {
  space(at);
  if (take(at, end))
    return true;
  do {
    space(at);
    if (named && !string(at))
      return false;
    space(at);
    if ((named && !take(at, ":")) || !value(at))
      return false;
  } while (take(at, ","));
  return take(at, end);
}

static bool value(const char **at) {
  space(at);
  bool good = take(at, "{")   ? list(at, "}", true)
              : take(at, "[") ? list(at, "]", false)
              : **at == '"'
                  ? string(at)
                  : take(at, "true") || take(at, "false") || take(at, "null") || number(at);
  space(at);
  return good;
}

bool is_json(const char *text) {
  return value(&text) && *text == '\0';
}
