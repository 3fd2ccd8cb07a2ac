/* Arguments and results of an operator: hostcuda.h. */
#include "hostcuda.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

using c10::IValue;

namespace hostcuda {

at::Tensor alias_of(const at::Tensor &tensor) {
  const auto &storage = tensor.storage();
  c10::DataPtr memory(storage.unsafeGetStorageImpl()->mutable_data_ptr().get(), c10::Device(c10::kCPU));
  c10::Storage shared(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(memory), c10::GetCPUAllocator(), /*resizable=*/true);
  auto alias = at::detail::make_tensor<c10::TensorImpl>(std::move(shared), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.is_conj())
    alias._set_conj(true);
  if (tensor.is_neg())
    alias._set_neg(true);
  return alias;
}

bool is_written(const c10::Argument &argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

void append_tensors(const IValue &value, std::vector<at::Tensor> &to) {
  if (value.isTensor())
    to.push_back(value.toTensor());
  else if (value.isTensorList())
    for (const at::Tensor &tensor : value.toTensorVector())
      to.push_back(tensor);
}

at::Tensor Call::to_host(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.is_cuda())
    return tensor;
  for (auto &pair : pairs)
    if (pair.first.is_same(tensor))
      return pair.second;
  if (device < 0)
    device = tensor.get_device();
  pairs.emplace_back(tensor, alias_of(tensor));
  return pairs.back().second;
}

IValue Call::to_host(const IValue &value) {
  if (value.isTensor())
    return to_host(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorVector())
      list.push_back(to_host(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      list.push_back(tensor ? std::optional<at::Tensor>(to_host(*tensor)) : tensor);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) {
    if (device < 0)
      device = value.toDevice().has_index() ? value.toDevice().index() : c10::cuda::current_device();
    return c10::Device(c10::kCPU);
  }
  if (value.isGenerator() && value.toGenerator().device().is_cuda())
    return IValue();
  return value;
}

at::Tensor Call::to_device(const at::Tensor &result) {
  if (!result.defined() || !result.device().is_cpu())
    return result;
  for (auto &pair : pairs) {
    if (pair.second.is_same(result))
      return pair.first;
    if (result.storage().unsafeGetStorageImpl() == pair.second.storage().unsafeGetStorageImpl())
      return pair.first.as_strided(result.sizes(), result.strides(), result.storage_offset());
  }
  auto made = at::empty_strided(result.sizes(), result.strides(), result.options().device(c10::Device(c10::kCUDA, device)));
  if (result.nbytes() > 0 && result.numel() > 0)
    alias_of(made).copy_(result);
  return made;
}

IValue Call::to_device(const IValue &value) {
  if (value.isTensor())
    return to_device(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorVector())
      list.push_back(to_device(tensor));
    return list;
  }
  return value;
}

void Call::resize_originals() {
  for (auto &[original, alias] : pairs) {
    bool moved = alias.storage().data() != original.storage().data();
    if (!moved && alias.sizes() == original.sizes() && alias.strides() == original.strides())
      continue;
    original.resize_(alias.sizes());
    if (alias.strides() != original.strides())
      original.as_strided_(alias.sizes(), alias.strides());
    if (moved && alias.numel() > 0)
      alias_of(original).copy_(alias);
  }
}

void Call::wait() {
  for (auto &pair : pairs)
    if (pair.first.get_device() != device)
      c10::cuda::getCurrentCUDAStream(pair.first.get_device()).synchronize();
  if (device >= 0)
    c10::cuda::getCurrentCUDAStream(device).synchronize();
}

}  // namespace hostcuda
