#include "compute/kernels/cpu/onednn/primitive.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"

// Declared here because clang does not ship omp.h.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace leat::cpu {

// Never destroyed, since kernels may outlive static objects at exit.
const dnnl::engine& Engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type DnnlType(DType type) {
  return type == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

bool HasBf16() {
  // An ISA value is a bit set that includes the bits of the ISAs it extends.
  constexpr auto kBf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kBf16) == kBf16;
}

ThreadLimit::ThreadLimit(int threads) : old_(omp_get_max_threads()) {
  if (threads != old_) omp_set_num_threads(threads);
  changed_ = threads != old_;
}

ThreadLimit::~ThreadLimit() {
  if (changed_) omp_set_num_threads(old_);
}

int ThreadsOf(const KernelRequest& request) {
  if (request.intra_op_threads > 0) return request.intra_op_threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

dnnl::post_ops PostOpsOf(ops::Activation activation) {
  dnnl::post_ops after;
  switch (activation) {
    case ops::Activation::kNone:
      break;
    case ops::Activation::kRelu:
      after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
      break;
    case ops::Activation::kSigmoid:
      after.append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0);
      break;
    case ops::Activation::kTanh:
      after.append_eltwise(1, dnnl::algorithm::eltwise_tanh, 0, 0);
      break;
    case ops::Activation::kGelu:
      after.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
      break;
    case ops::Activation::kGeluTanh:
      after.append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
      break;
  }
  return after;
}

PreparedPrimitive::PreparedPrimitive(dnnl::primitive primitive, const std::vector<Argument>& arguments)
    : stream_(Engine()), primitive_(std::move(primitive)) {
  for (const Argument& argument : arguments) {
    memories_.push_back(dnnl::memory(argument.description, Engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({argument.what, memories_.back().get()});
  }
}

void PreparedPrimitive::Set(size_t i, const void* data) {
  LEAT_CHECK(dnnl_memory_set_data_handle(arguments_[i].memory, const_cast<void*>(data)) == dnnl_success);
}

void PreparedPrimitive::Run() {
  LEAT_CHECK(dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                                    arguments_.data()) == dnnl_success);
}

}  // namespace leat::cpu
