/* See terminal.h. */
#include "tools/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NARROWEST 40

int terminal_width(FILE *out) {
  struct winsize size;
  const char *columns = getenv("COLUMNS");
  long width = columns != NULL ? strtol(columns, NULL, 10) : 0;
  if (width <= 0 && isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
    width = size.ws_col;
  return width <= 0 ? 0 : width < NARROWEST ? NARROWEST : width > 10000 ? 10000 : (int)width;
}

bool terminal_has_colours(FILE *out) {
  const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
  return isatty(fileno(out)) && terminal != NULL && *terminal != '\0' &&
         strcmp(terminal, "dumb") != 0 && (none == NULL || *none == '\0');
}

/* Bytes of the first line of a text. A word that is longer than a line is not broken, so that it
 * can be copied. */
static size_t line_size(const char *text, int room) {
  size_t size = strcspn(text, " ");
  while (text[size] != '\0') {
    size_t next = size + 1 + strcspn(text + size + 1, " ");
    if (next > (size_t)room)
      break;
    size = next;
  }
  return size;
}

void terminal_print(FILE *out, int column, int indent, const char *text) {
  int width = terminal_width(out);
  while (width > 0 && strlen(text) > (size_t)(width - column)) {
    size_t size = line_size(text, width - column);
    if (text[size] == '\0')
      break;
    fprintf(out, "%.*s\n%*s", (int)size, text, indent, "");
    text += size + 1;
    column = indent;
  }
  fprintf(out, "%s\n", text);
}

bool terminal_finish(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return true;
  fprintf(stderr, "nccl-join: cannot write all of the output%s%s\n", errno != 0 ? ": " : "",
          errno != 0 ? strerror(errno) : "");
  return false;
}
