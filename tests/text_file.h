/* Small files that tests write and read. Linked to every test program (tests/rules.mk). A test's
 * own thread calls; what cannot be done fails the test.
 */
#ifndef TESTS_TEXT_FILE_H
#define TESTS_TEXT_FILE_H

/* Writes the file folder/name, or over it. The folder is there. */
void text_file_write(const char *folder, const char *name, const char *text);

/* What is in a file, as far as TEXT_FILE_MAX bytes, in a buffer that the next call overwrites; ""
 * if there is none. */
const char *text_file_read(const char *path);

enum {
  TEXT_FILE_MAX = 256 * 1024 /* more than any test writes on purpose */
};

#endif
