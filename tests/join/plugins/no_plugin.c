/* A shared object that is no plug-in. */
extern const int something_else;
const int something_else = 1;
