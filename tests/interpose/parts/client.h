/* What a program does with NCCL: client.c. */
#ifndef TESTS_INTERPOSE_PARTS_CLIENT_H
#define TESTS_INTERPOSE_PARTS_CLIENT_H

/* Calls the named functions (without "nccl") one after the other. Returns the exit status. */
__attribute__((visibility("default"))) int client(int count, char **names);

/* Of client.c with LOOKED_UP: where a function is, or NULL. */
void *client_look_up(const char *name);

#endif
