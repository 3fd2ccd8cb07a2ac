/* Answer: what nccl-join check has to say of a command. Everything is decided here; report.h only
 * writes it down. */
#ifndef NCCL_JOIN_TOOLS_CHECK_ANSWER_H
#define NCCL_JOIN_TOOLS_CHECK_ANSWER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/check/image.h"

/* Whether nccl-join will see the calls; the exit status. */
enum seen { SEEN_YES, SEEN_NO, SEEN_UNKNOWN };

/* How a program comes to NCCL. The first that there is, is the answer. */
enum reach {
  REACH_LINKED,   /* to a library that has it, directly or through others */
  REACH_EXPORTED, /* it is part of the program or of a library of it, and others can use it */
  REACH_OPENED,   /* by dlopen and dlsym */
  REACH_HIDDEN,   /* it is part of the program or of a library of it, and nobody else sees it */
  REACH_NONE,
  REACH_UNKNOWN,
};

/* One file that calls NCCL's functions. */
struct way {
  enum reach reach;
  enum seen seen;
  char object[PATH_MAX];
  char library[PATH_MAX]; /* whose functions they are; "" not found */
  char version[IMAGE_VERSION_SIZE];
};

/* What stands in the way, or is good to know. */
struct remark {
  const char *kind;    /* one word, for programs that read the answer */
  char *what, *remedy; /* owned */
  bool harmless;       /* only good to know */
  bool is_wrong;       /* for certain: worth a warning before the program runs */
};

struct answer {
  char file[PATH_MAX];    /* the program's, or the script's */
  struct names launchers; /* by which it is started, outermost first */
  enum seen seen;
  bool is_doubtful; /* something else may come between: then seen is no yes */
  enum reach reach;
  struct way *ways; /* the telling one first */
  size_t nways, ways_room;
  struct remark *remarks;
  size_t nremarks;
};

/* What one may know beforehand of the run. */
struct circumstances {
  const char *libraries; /* a folder that is to come before LD_LIBRARY_PATH; NULL: none */
  bool in_front;         /* nccl-join is to be put in front, whatever LD_PRELOAD says */
  bool brief;            /* only what a warning is made of is wanted, quickly */
  bool driver;           /* it needs one of a GPU */
};

#define ANSWER_ERROR_SIZE 4608

/* Reads the program (words[0] and its arguments, ended by NULL) and all it loads, in this
 * environment. False with a text in error if the program is not there or cannot be read. */
bool answer_make(struct answer *answer, char *const *words,
                 const struct circumstances *circumstances, char error[ANSWER_ERROR_SIZE]);

void answer_free(struct answer *answer);

#endif
