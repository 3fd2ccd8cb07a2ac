/* See json_text.h. */
#include "tools/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the character at the beginning of a text; 0 if there is none. Jansson knows what is one.
 */
static size_t character_size(const char *text) {
  for (size_t size = 1; size <= 4 && text[size - 1] != '\0'; size++) {
    json_t *string = json_stringn(text, size);
    json_decref(string);
    if (string != NULL)
      return size;
  }
  return 0;
}

json_t *json_of(const char *text) {
  static const char replacement[] = "\xef\xbf\xbd";
  json_t *string = json_string(text);
  char *valid = string == NULL ? malloc(3 * strlen(text) + 1) : NULL;
  if (valid == NULL)
    return string;
  size_t used = 0;
  while (*text != '\0') {
    size_t size = character_size(text);
    memcpy(valid + used, size > 0 ? text : replacement, size > 0 ? size : 3);
    used += size > 0 ? size : 3;
    text += size > 0 ? size : 1;
  }
  string = json_stringn(valid, used);
  free(valid);
  return string;
}

json_t *json_of_optional(const char *text) {
  return text != NULL ? json_of(text) : json_null();
}

void json_print(FILE *out, json_t *value) {
  json_dumpf(value, out, JSON_COMPACT);
  json_decref(value);
  fputc('\n', out);
}
