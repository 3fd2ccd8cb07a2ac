/* Uses NCCL by its functions' names; as a program, or as a library. */
int ncclCommInitRank(void);
int ncclAllReduce(void);

int use_nccl(void) {
  return ncclCommInitRank() + ncclAllReduce();
}

#ifndef LIBRARY
int main(void) {
  return use_nccl();
}
#endif
