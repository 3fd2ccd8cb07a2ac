/* A library of the name by which PyTorch is known. */
extern const int nothing_of_pytorch;
const int nothing_of_pytorch = 1;
