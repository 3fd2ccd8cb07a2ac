/* The operators themselves, and which of PyTorch's they take the place of: hostcuda.h. */
#include "hostcuda.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/copy_native.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdlib>
#include <unordered_set>

using c10::IValue;

namespace hostcuda {

bool trace() {
  static bool on = std::getenv("HOSTCUDA_TRACE") != nullptr;
  return on;
}

namespace {

/* What the operator returns of its own arguments, or nothing: the original, not the alias. */
const IValue *written_original(const c10::FunctionSchema &schema, size_t returned, const std::vector<IValue> &originals) {
  const auto *alias = schema.returns()[returned].alias_info();
  if (!alias || !alias->isWrite())
    return nullptr;
  for (size_t i = 0; i < originals.size(); i++)
    if (is_written(schema.arguments()[i]) && schema.arguments()[i].alias_info()->beforeSets() == alias->beforeSets())
      return &originals[i];
  return nullptr;
}

void on_the_host(const c10::OperatorHandle &op, c10::Stack *stack) {
  const auto &schema = op.schema();
  size_t arguments = schema.arguments().size(), base = stack->size() - arguments;
  if (trace())
    fprintf(stderr, "hostcuda: %s.%s\n", schema.name().c_str(), schema.overload_name().c_str());
  Mode how = mode();
  if (how != Mode::immediate && defer(op, stack, how == Mode::captured))
    return;
  TORCH_CHECK(how != Mode::captured, "hostcuda: ", schema.name(), " cannot be captured: what it returns is not known before it has run");
  Call call;
  std::vector<IValue> originals(stack->begin() + (long)base, stack->end());
  at::AutoDispatchBelowADInplaceOrView below;
  for (size_t i = 0; i < arguments; i++)
    (*stack)[base + i] = call.to_host(originals[i]);
  TORCH_CHECK(call.device >= 0, "hostcuda: no CUDA tensor or device among the arguments of ", schema.name());
  call.wait();
  op.callBoxed(stack);
  call.resize_originals();
  size_t returns = schema.returns().size(), first = stack->size() - returns;
  for (size_t i = 0; i < returns; i++) {
    const IValue *original = written_original(schema, i, originals);
    (*stack)[first + i] = original ? *original : call.to_device((*stack)[first + i]);
  }
}

/* Contiguous copies are PyTorch's, by cudaMemcpyAsync. */
bool is_plain_copy(const at::Tensor &to, const at::Tensor &from) {
  if (to.numel() == 0 || to.layout() != c10::kStrided || from.layout() != c10::kStrided)
    return true;
  if (to.scalar_type() != from.scalar_type() || to.sizes() != from.sizes() || to.is_conj() != from.is_conj() || to.is_neg() != from.is_neg())
    return false;
  return (to.is_contiguous() && from.is_contiguous()) ||
         (to.strides() == from.strides() && to.is_non_overlapping_and_dense() && from.is_non_overlapping_and_dense());
}

at::Tensor &copy(at::Tensor &self, const at::Tensor &source, bool non_blocking) {
  if (is_plain_copy(self, source))
    return at::native::copy_(self, source, non_blocking);
  Call call;
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor to = call.to_host(self), from = call.to_host(source);
  Mode how = mode();
  if (how != Mode::immediate && self.is_cuda() && source.is_cuda() && self.get_device() == source.get_device()) {
    defer_copy(call.device, to, from, how == Mode::captured);
    return self;
  }
  call.wait();
  to.copy_(from);
  return self;
}

/* scaled_dot_product_attention: the one made of other operators. */
int64_t attention(const at::Tensor &, const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &, double, bool,
                  std::optional<double>, bool) {
  return 0;
}

const std::unordered_set<std::string> native = {
    "aten::empty.memory_format", "aten::empty_strided", "aten::resize_", "aten::set_", "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor", "aten::set_.source_Tensor_storage_offset",
    "aten::record_stream", "aten::_local_scalar_dense", "aten::_pin_memory", "aten::is_pinned", "aten::is_set_to",
    "aten::_efficientzerotensor", "aten::copy_", "aten::_fused_sdp_choice", "aten::_empty_affine_quantized",
    "aten::_cudnn_init_dropout_state", "aten::_has_same_storage_numel", "aten::_copy_from", "aten::_copy_from_and_resize",
    "aten::_nested_tensor_size", "aten::_lazy_clone", "aten::is_contiguous"};

/* They have no kernel for CUDA of their own, but choose one by the library that has it. */
const std::unordered_set<std::string> chosen = {"aten::convolution", "aten::convolution_backward"};

/* Pure views keep their kernels. */
bool is_view(const c10::FunctionSchema &schema) {
  for (const auto &returned : schema.returns())
    if (returned.alias_info() && !returned.alias_info()->isWrite())
      return true;
  return false;
}

bool has_tensors(const c10::FunctionSchema &schema) {
  for (const auto &argument : schema.arguments()) {
    std::string type = argument.type()->str();
    if (type.find("Tensor") != std::string::npos || type.find("Device") != std::string::npos)
      return true;
  }
  return false;
}

/* PyTorch warns of each kernel that is replaced. */
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning &) override {}
};

}  // namespace
}  // namespace hostcuda

extern "C" __attribute__((visibility("default"))) int hostcuda_install() {
  using namespace hostcuda;
  Quiet quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  auto &dispatcher = c10::Dispatcher::singleton();
  int count = 0;
  for (const auto &name : dispatcher.getAllOpNames()) {
    std::string full = name.name + (name.overload_name.empty() ? "" : "." + name.overload_name);
    if (name.name.rfind("aten::", 0) != 0 || native.count(full))
      continue;
    auto op = dispatcher.findSchema(name);
    if (!op || (!chosen.count(full) && !op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) || is_view(op->schema()) ||
        !has_tensors(op->schema()))
      continue;
    library.impl(full.c_str() + 6, torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
    count++;
  }
  library.impl("copy_", TORCH_FN(copy));
  library.impl("_fused_sdp_choice", TORCH_FN(attention));
  return count;
}
