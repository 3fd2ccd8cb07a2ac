/* A program that calls Python: the libpython named first is opened as the second word says (local,
 * global). "readable" as the third: what runs in it can be seen. Ends with a signal, or says what
 * is not as it should be.
 *
 * Built without Python's headers, so that one program goes with all versions.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct standing { /* standing.c */
  uint32_t id;
  int loops;
};
struct standing stand(void);

struct method { /* PyMethodDef */
  const char *name;
  void *(*function)(void *self, void *arguments);
  int flags;
  const char *text;
};

static struct {
  void (*initialize)(int);
  int (*finalize)(void);
  int (*run)(const char *);
  void *(*module)(const char *);
  int (*set)(void *object, const char *name, void *value);
  void *(*function)(struct method *, void *self, void *module);
  void *(*number)(long);
  void *(*save)(void);
  void (*restore)(void *);
  int (*ensure)(void);
  void (*release)(int);
  void *(*begin_interpreter)(void);
  void (*end_interpreter)(void *);
  void *(*swap)(void *);
} python;

static bool is_readable;
static struct standing seen; /* what look() has seen last */
static int wrong;

static void expect(bool condition, const char *what) {
  if (condition)
    return;
  printf("%s: id %08x, %d loops\n", what, seen.id, seen.loops);
  wrong++;
}

static NOINLINE void *look(void *self, void *arguments) {
  (void)self, (void)arguments;
  seen = stand();
  return python.number(seen.loops);
}

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    printf("no %s: %s\n", name, dlerror());
    exit(2);
  }
  memcpy(function, &found, sizeof(found));
}

static void find_all(void *library) {
  find(library, "Py_InitializeEx", &python.initialize);
  find(library, "Py_FinalizeEx", &python.finalize);
  find(library, "PyImport_AddModule", &python.module);
  find(library, "PyObject_SetAttrString", &python.set);
  find(library, "PyCFunction_NewEx", &python.function);
  find(library, "PyLong_FromLong", &python.number);
  find(library, "PyRun_SimpleString", &python.run);
  find(library, "PyEval_SaveThread", &python.save);
  find(library, "PyEval_RestoreThread", &python.restore);
  find(library, "PyGILState_Ensure", &python.ensure);
  find(library, "PyGILState_Release", &python.release);
  find(library, "Py_NewInterpreter", &python.begin_interpreter);
  find(library, "Py_EndInterpreter", &python.end_interpreter);
  find(library, "PyThreadState_Swap", &python.swap);
}

static const char text[] = "def step():\n"
                           "    for _ in range(2):\n"
                           "        look()\n"
                           "def flat():\n"
                           "    look()\n";

static void define(void) {
  static struct method method = {"look", look, 4, NULL}; /* METH_NOARGS */
  python.set(python.module("__main__"), "look", python.function(&method, NULL, NULL));
  python.run(text);
}

/* ---- what the program does ---- */

/* Its own calls, in a loop of its own. */
static NOINLINE void call_natively(int times) {
  for (int i = 0; i < times; i++) {
    seen = stand();
    __asm__ volatile("" ::: "memory");
  }
}

static NOINLINE void call_python_in_loop(int times) {
  for (int i = 0; i < times; i++)
    python.run("step()");
}

static NOINLINE void call_python(void) {
  python.run("step()");
  uint32_t first = seen.id;
  python.run("step()");
  expect(!is_readable || first != seen.id, "two calls of one function are two places");
}

static void expect_python(int loops, const char *what) {
  if (is_readable)
    expect(seen.id != 0 && seen.loops == loops, what);
  else
    expect(seen.id == 0, what);
}

static void call_in_order(void) {
  call_natively(3);
  expect(!is_readable || seen.loops == 1, "the program's own call");
  call_python();
  expect_python(1, "a loop of Python's");
  call_python_in_loop(3);
  expect_python(2, "a loop of the program's around one of Python's");
  python.run("flat()");
  expect_python(0, "no loop");
  call_natively(3);
  expect(!is_readable || seen.loops == 1, "the program's own call after Python's");
}

/* ---- other threads, interpreters and processes ---- */

static void *run_thread(void *with_python) {
  if (with_python != NULL) {
    int state = python.ensure();
    python.run("step()");
    python.release(state);
  } else {
    call_natively(2);
  }
  return NULL;
}

static void call_in_threads(void) {
  for (int with = 0; with < 2; with++) {
    pthread_t thread;
    pthread_create(&thread, NULL, run_thread, with ? &wrong : NULL);
    pthread_join(thread, NULL);
    if (with)
      expect_python(1, "in another thread");
    else
      expect(!is_readable || seen.loops == 1, "in another thread, without Python");
  }
}

/* What is seen in another interpreter is not asked for: only that nothing breaks. */
static void call_in_interpreter(void) {
  void *main_state = python.swap(NULL);
  python.swap(main_state);
  void *state = python.begin_interpreter();
  define();
  python.run("step()");
  python.end_interpreter(state);
  python.swap(main_state);
  python.run("step()");
  expect_python(1, "after another interpreter");
}

static void call_in_child(void) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    call_natively(2);
    python.run("step()");
    expect_python(1, "in a forked process");
    python.run("import os\nif os.fork() == 0:\n    step()\n    os._exit(0)\nos.wait()\n");
    fflush(stdout);
    _exit(wrong != 0);
  }
  int status;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked process");
}

int main(int argc, char **argv) {
  is_readable = argc > 3 && strcmp(argv[3], "readable") == 0;
  call_natively(3);
  expect(seen.loops == 1, "before there is Python");
  void *library =
      argc < 3
          ? NULL
          : dlopen(argv[1], RTLD_NOW | (strcmp(argv[2], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL));
  if (library == NULL) {
    printf("%s\n", argc < 3 ? "no library" : dlerror());
    return 2;
  }
  find_all(library);
  python.initialize(0);
  define();
  call_in_order();
  void *state = python.save();
  call_in_threads();
  python.restore(state);
  call_in_interpreter();
  call_in_child();
  python.finalize();
  call_natively(2);
  return wrong != 0;
}
