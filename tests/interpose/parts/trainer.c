/* Runs the functions of places.h as a profile is wanted: some ways often, some never. */
#include <stdlib.h>

extern void (*volatile places_site)(int number);
extern int (*volatile places_choice)(int below);
typedef void function(int rows, int columns);
#pragma weak nested
#pragma weak leaving
#pragma weak once
#pragma weak choosing
#pragma weak jumping
#pragma weak inlined
#pragma weak checking
#pragma weak rare
#pragma weak alternatives
#pragma weak catching
#pragma weak scoped
#pragma weak lambdas
extern function nested, leaving, once, choosing, jumping, inlined, checking, rare, alternatives,
    catching, scoped, lambdas;

static void site(int number) {
  (void)number;
}

static int choice(int below) {
  return below - 1; /* never 0, but of 1 */
}

int main(void) {
  function *functions[] = {nested,   leaving, once,         choosing, jumping, inlined,
                           checking, rare,    alternatives, catching, scoped,  lambdas};
  places_site = site;
  places_choice = choice;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    for (int round = 0; functions[i] != NULL && round < 100; round++)
      functions[i](10, 10);
  return 0;
}
