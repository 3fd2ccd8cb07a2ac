/* CUDA tensors computed by the CPU: for PyTorch on the loopback, whose device memory is host
 * memory.
 *
 * Every aten operator that has a kernel for CUDA gets a boxed one in its place, which makes CPU
 * tensors of the same memory, calls the operator on them, and makes CUDA tensors of what is new.
 * Allocation, views and contiguous copies stay PyTorch's own.
 *
 * Ordinarily the caller waits for the stream and computes (operators.cpp). With HOSTCUDA_ASYNC=1,
 * and where a CUDA graph is being captured, the operator becomes a host function of the stream
 * (deferred.cpp), so that the host runs ahead as on a GPU. */
#ifndef HOSTCUDA_H
#define HOSTCUDA_H

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <utility>
#include <vector>

namespace hostcuda {

/* HOSTCUDA_TRACE: one line on stderr for each operator. */
bool trace();

/* A CPU tensor of a CUDA tensor's memory. It owns nothing. */
at::Tensor alias_of(const at::Tensor &tensor);

/* The schema says that the operator writes to it. */
bool is_written(const c10::Argument &argument);

/* The tensors of a value, one by one. */
void append_tensors(const c10::IValue &value, std::vector<at::Tensor> &to);

/* The arguments of one operator: translated for the CPU, and results translated back. */
class Call {
public:
  c10::DeviceIndex device = -1; /* of the first CUDA tensor or device among the arguments */

  at::Tensor to_host(const at::Tensor &tensor);
  c10::IValue to_host(const c10::IValue &value);
  at::Tensor to_device(const at::Tensor &result);
  c10::IValue to_device(const c10::IValue &value);

  /* Gives originals the sizes that the operator has given their aliases. */
  void resize_originals();

  /* Waits for the current streams of all devices concerned. */
  void wait();

private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs; /* on the device, its alias */
};

/* Whether operators have to go into the device's current stream now, and whether that is being
 * captured. */
enum class Mode { immediate, deferred, captured };
Mode mode();

/* Puts the operator into the stream, and its results on the stack. False: it cannot, because its
 * results' sizes depend on data, for one; nothing has happened. */
bool defer(const c10::OperatorHandle &op, c10::Stack *stack, bool captured);

/* Likewise, copies between aliases on one device. */
void defer_copy(c10::DeviceIndex device, const at::Tensor &to, const at::Tensor &from,
                bool captured);

} // namespace hostcuda

#endif
