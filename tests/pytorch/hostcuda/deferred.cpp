/* Operators that run in their stream: hostcuda.h. What comes out has to be known before: its sizes are asked for on meta tensors. */
#include "hostcuda.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_set>

using c10::IValue;

namespace hostcuda {

Mode mode() {
  const char *setting = std::getenv("HOSTCUDA_ASYNC");
  static const bool asynchronous = setting && std::strcmp(setting, "0") != 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(), &status);
  if (status != cudaStreamCaptureStatusNone)
    return Mode::captured;
  return asynchronous ? Mode::deferred : Mode::immediate;
}

namespace {

/* What the stream runs: once, or each time that a graph with it is launched. A graph's work stays for good. */
struct Work {
  std::function<void()> act;
  bool again;
};

void CUDART_CB run(void *argument) {
  auto *work = static_cast<Work *>(argument);
  try {
    at::AutoDispatchBelowADInplaceOrView below;
    work->act();
  } catch (const std::exception &error) {
    fprintf(stderr, "hostcuda: on the device: %s\n", error.what());
    abort();
  }
  if (!work->again)
    delete work;
}

void put_into_stream(c10::DeviceIndex device, bool captured, std::function<void()> act) {
  c10::cuda::CUDAGuard guard(device);
  auto *work = new Work{std::move(act), captured};
  cudaError_t error = cudaLaunchHostFunc(c10::cuda::getCurrentCUDAStream(device), run, work);
  TORCH_CHECK(error == cudaSuccess, "hostcuda: cudaLaunchHostFunc: ", cudaGetErrorString(error));
}

/* Runs the operator, and copies what it returns to where it was said to be. */
void compute(const c10::OperatorHandle &op, c10::Stack stack, const std::vector<at::Tensor> &made) {
  const auto &schema = op.schema();
  op.callBoxed(&stack);
  size_t returns = schema.returns().size();
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < returns; i++)
    if (!schema.returns()[i].alias_info() || !schema.returns()[i].alias_info()->isWrite())
      append_tensors(stack[stack.size() - returns + i], results);
  TORCH_CHECK(results.size() == made.size(), schema.name(), " returns other results than on meta tensors");
  for (size_t i = 0; i < results.size(); i++) {
    if (!results[i].defined() || !made[i].defined() || results[i].numel() == 0)
      continue;
    at::Tensor to = made[i];
    to.copy_(results[i]);
  }
}

IValue on_meta(const IValue &value) {
  auto meta = [](const at::Tensor &tensor) {
    return tensor.defined() ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta)) : tensor;
  };
  if (value.isTensor()) {
    at::Tensor tensor = value.toTensor();
    return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number() ? value : meta(tensor);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorVector())
      list.push_back(meta(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      list.push_back(tensor ? std::optional<at::Tensor>(meta(*tensor)) : tensor);
    return list;
  }
  return value;
}

/* What is the host's is read now: single numbers. False: it is more. */
bool take_host_values(IValue &value) {
  std::vector<at::Tensor> tensors;
  append_tensors(value, tensors);
  for (const at::Tensor &tensor : tensors)
    if (tensor.defined() && tensor.is_cpu() && tensor.dim() > 0)
      return false;
  if (value.isOptionalTensorList())
    for (std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      if (tensor && tensor->defined() && tensor->is_cpu())
        return false;
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu()) {
    at::Tensor clone = value.toTensor().clone();
    clone.unsafeGetTensorImpl()->set_wrapped_number(value.toTensor().unsafeGetTensorImpl()->is_wrapped_number());
    value = clone;
  }
  return true;
}

bool returns_new_tensors(const c10::FunctionSchema &schema) {
  for (const auto &returned : schema.returns())
    if (!is_written(returned))
      return true;
  return false;
}

bool can_be_deferred(const c10::OperatorHandle &op) {
  if (op.hasTag(at::Tag::nondeterministic_seeded) || op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape))
    return false;
  for (const auto &returned : op.schema().returns())
    if (returned.type()->str().find("Tensor") == std::string::npos)
      return false;
  return true;
}

/* An out= tensor without elements is one to be resized. */
bool is_to_be_resized(const c10::Argument &argument, const IValue &value) {
  if (!is_written(argument) || !argument.kwarg_only())
    return false;
  std::vector<at::Tensor> outputs;
  append_tensors(value, outputs);
  for (const at::Tensor &output : outputs)
    if (output.numel() == 0)
      return true;
  return false;
}

/* The results on meta tensors; false if the operator cannot tell. */
bool ask_for_sizes(const c10::OperatorHandle &op, const std::vector<IValue> &originals, c10::Stack &metas) {
  static std::mutex lock; /* guards silent */
  static std::unordered_set<std::string> silent;
  std::string name = op.schema().name() + "." + op.schema().overload_name();
  {
    std::lock_guard<std::mutex> guard(lock);
    if (silent.count(name))
      return false;
  }
  for (const IValue &value : originals)
    metas.push_back(on_meta(value));
  try {
    op.callBoxed(&metas);
    return true;
  } catch (const std::exception &error) {
    std::lock_guard<std::mutex> guard(lock);
    silent.insert(name);
    if (trace())
      fprintf(stderr, "hostcuda: %s waits: %.100s\n", name.c_str(), error.what());
    return false;
  }
}

/* The tensors that the caller gets, and in `made` their aliases, in order. */
IValue make_results(const IValue &metas, c10::DeviceIndex device, std::vector<at::Tensor> &made) {
  auto make = [&](const at::Tensor &meta) {
    if (!meta.defined()) {
      made.emplace_back();
      return meta;
    }
    auto tensor = at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(c10::Device(c10::kCUDA, device)));
    made.push_back(alias_of(tensor));
    return tensor;
  };
  if (metas.isTensor())
    return make(metas.toTensor());
  c10::List<at::Tensor> list;
  for (const at::Tensor &tensor : metas.toTensorVector())
    list.push_back(make(tensor));
  return list;
}

}  // namespace

bool defer(const c10::OperatorHandle &op, c10::Stack *stack, bool captured) {
  const auto &schema = op.schema();
  size_t arguments = schema.arguments().size(), base = stack->size() - arguments;
  if (!can_be_deferred(op))
    return false;
  std::vector<IValue> originals(stack->begin() + (long)base, stack->end());
  for (size_t i = 0; i < arguments; i++)
    if (originals[i].isGenerator() || originals[i].isDevice() || !take_host_values(originals[i]) ||
        is_to_be_resized(schema.arguments()[i], originals[i]))
      return false;
  at::AutoDispatchBelowADInplaceOrView below;
  c10::Stack metas;
  if (returns_new_tensors(schema) && !ask_for_sizes(op, originals, metas))
    return false;
  Call call;
  c10::Stack translated;
  for (const IValue &value : originals)
    translated.push_back(call.to_host(value));
  if (call.device < 0)
    return false;
  std::vector<at::Tensor> made;
  std::vector<IValue> results;
  for (size_t i = 0; i < schema.returns().size(); i++) {
    const auto &returned = schema.returns()[i];
    if (!is_written(returned)) {
      results.push_back(make_results(metas[i], call.device, made));
      continue;
    }
    for (size_t j = 0; j < arguments; j++)
      if (is_written(schema.arguments()[j]) && schema.arguments()[j].alias_info()->beforeSets() == returned.alias_info()->beforeSets()) {
        results.push_back((*stack)[base + j]);
        break;
      }
  }
  TORCH_CHECK(results.size() == schema.returns().size(), "hostcuda: results of ", schema.name());
  put_into_stream(call.device, captured, [op, translated, made] { compute(op, translated, made); });
  stack->resize(base);
  for (IValue &result : results)
    stack->push_back(std::move(result));
  return true;
}

void defer_copy(c10::DeviceIndex device, const at::Tensor &to, const at::Tensor &from, bool captured) {
  put_into_stream(device, captured, [to, from] {
    at::Tensor target = to;
    target.copy_(from);
  });
}

}  // namespace hostcuda
