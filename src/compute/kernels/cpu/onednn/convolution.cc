#include <algorithm>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "compute/kernels/cpu/kernels.h"
#include "compute/kernels/cpu/onednn/primitive.h"
#include "compute/ops/convolution/convolution.h"

namespace leat::cpu {
namespace {

using dnnl::memory;
using ops::Conv2dSizes;

// The memory of an argument: an input, an output, or an offset into the scratch memory.
struct ArgumentRef {
  enum class Kind : uint8_t { kInput, kOutput, kScratch };
  Kind kind;
  size_t at;
};
ArgumentRef Input(size_t i) {
  return {ArgumentRef::Kind::kInput, i};
}
ArgumentRef Output(size_t i) {
  return {ArgumentRef::Kind::kOutput, i};
}

// Primitives that run one after the other.
class StagesKernel final : public graph::Kernel {
 public:
  explicit StagesKernel(int threads) : threads_(threads) {}

  ArgumentRef Scratch(size_t bytes) {
    const ArgumentRef place{ArgumentRef::Kind::kScratch, scratch_bytes_};
    scratch_bytes_ += (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
    return place;
  }
  void Add(dnnl::primitive primitive, const memory::desc& scratch,
           std::vector<std::pair<Argument, ArgumentRef>> arguments) {
    arguments.push_back({{DNNL_ARG_SCRATCHPAD, scratch}, Scratch(scratch.get_size())});
    Stage stage;
    std::vector<Argument> described;
    for (const auto& [argument, place] : arguments) {
      described.push_back(argument);
      stage.places.push_back(place);
    }
    stage.primitive = PreparedPrimitive(std::move(primitive), described);
    stages_.push_back(std::move(stage));
  }
  void AddReorder(const memory::desc& from, ArgumentRef from_place, const memory::desc& to,
                  ArgumentRef to_place) {
    const dnnl::reorder::primitive_desc reorder(Engine(), from, Engine(), to, UserScratch());
    Add(dnnl::reorder(reorder), reorder.scratchpad_desc(),
        {{{DNNL_ARG_FROM, from}, from_place}, {{DNNL_ARG_TO, to}, to_place}});
  }

  static dnnl::primitive_attr UserScratch() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }
  void Run(const KernelArgs& args) override {
    const ThreadLimit limit(threads_);
    for (Stage& stage : stages_) {
      for (size_t i = 0; i < stage.places.size(); ++i) stage.primitive.Set(i, Find(stage.places[i], args));
      stage.primitive.Run();
    }
  }

 private:
  struct Stage {
    PreparedPrimitive primitive;
    std::vector<ArgumentRef> places;  // by argument
  };

  static const void* Find(ArgumentRef place, const KernelArgs& args) {
    if (place.kind == ArgumentRef::Kind::kInput) return args.inputs[place.at];
    if (place.kind == ArgumentRef::Kind::kOutput) return args.outputs[place.at];
    return args.scratch + place.at;
  }

  int threads_;
  size_t scratch_bytes_ = 0;
  std::vector<Stage> stages_;
};

// The oneDNN description of a convolution. Images keep their layout [height, width, channels]. The primitive
// chooses the layout of the weights, which are cheap to reorder. The two operands among x, y and weights have
// the operand type; the third is the result and f32.
enum class Made : uint8_t { kX, kY, kWeights };
struct Description {
  Description(const Conv2dSizes& s, DType operands, Made made)
      : x(Images(s.batch, s.channels, s.input, made == Made::kX ? DType::kF32 : operands)),
        y(Images(s.batch, s.filters, s.output, made == Made::kY ? DType::kF32 : operands)),
        bias({s.filters}, memory::data_type::f32, memory::format_tag::x),
        hint_x(Images(s.batch, s.channels, s.input, operands)),
        hint_y(Images(s.batch, s.filters, s.output, operands)) {
    const ops::Window& window = s.window;
    strides = {window.strides.height, window.strides.width};
    dilations = {window.dilations.height - 1, window.dilations.width - 1};
    before = {window.padding.top, window.padding.left};
    after = {window.padding.bottom, window.padding.right};
    using Tag = memory::format_tag;
    memory::dims sizes = {s.filters, s.channels / s.groups, window.kernel.height, window.kernel.width};
    if (s.groups > 1) {
      sizes[0] /= s.groups;
      sizes.insert(sizes.begin(), s.groups);
    }
    const auto type = DnnlType(made == Made::kWeights ? DType::kF32 : operands);
    plain_weights = {sizes, type, s.groups > 1 ? Tag::goihw : Tag::oihw};
    weights = {sizes, type, Tag::any};
    hint_weights = {sizes, DnnlType(operands), Tag::any};
  }

  dnnl::convolution_forward::primitive_desc Forward(bool with_bias, ops::Activation activation) const {
    constexpr auto kProp = dnnl::prop_kind::forward_training;
    using Desc = dnnl::convolution_forward::desc;
    const Desc forward = with_bias
                             ? Desc(kProp, kDirect, x, weights, bias, y, strides, dilations, before, after)
                             : Desc(kProp, kDirect, x, weights, y, strides, dilations, before, after);
    dnnl::primitive_attr attributes = StagesKernel::UserScratch();
    attributes.set_post_ops(PostOpsOf(activation));
    return {forward, attributes, Engine()};
  }
  dnnl::convolution_backward_data::primitive_desc BackwardData() const {
    const dnnl::convolution_backward_data::desc backward(kDirect, x, weights, y, strides, dilations, before,
                                                         after);
    return {backward, StagesKernel::UserScratch(), Engine(), Hint(false)};
  }
  dnnl::convolution_backward_weights::primitive_desc BackwardWeights(bool with_bias) const {
    using Desc = dnnl::convolution_backward_weights::desc;
    const Desc backward = with_bias ? Desc(kDirect, x, weights, bias, y, strides, dilations, before, after)
                                    : Desc(kDirect, x, weights, y, strides, dilations, before, after);
    return {backward, StagesKernel::UserScratch(), Engine(), Hint(with_bias)};
  }

  memory::desc x, y, bias, weights, plain_weights;
  memory::dims strides, dilations, before, after;

 private:
  static constexpr auto kDirect = dnnl::algorithm::convolution_direct;

  // The forward convolution that a backward one belongs to.
  dnnl::convolution_forward::primitive_desc Hint(bool with_bias) const {
    constexpr auto kProp = dnnl::prop_kind::forward_training;
    using Desc = dnnl::convolution_forward::desc;
    return {with_bias
                ? Desc(kProp, kDirect, hint_x, hint_weights, bias, hint_y, strides, dilations, before, after)
                : Desc(kProp, kDirect, hint_x, hint_weights, hint_y, strides, dilations, before, after),
            StagesKernel::UserScratch(), Engine()};
  }

  static memory::desc Images(int64_t batch, int64_t channels, const ops::Pair& size, DType type) {
    return {{batch, channels, size.height, size.width}, DnnlType(type), memory::format_tag::nhwc};
  }

  memory::desc hint_x, hint_y, hint_weights;
};

// oneDNN has no primitive for empty tensors, some of its loops overflow beyond 31 bits, and few support
// windows that lie entirely in the padding.
bool Covered(const Conv2dSizes& s) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const auto fits = [](const Shape& shape) { return shape.elements() > 0 && shape.elements() <= kMax; };
  const ops::Pair extent = s.window.Extent();
  const ops::Padding& p = s.window.padding;
  return fits(s.x) && fits(s.w) && fits(s.y) && std::max(p.top, p.bottom) < extent.height &&
         std::max(p.left, p.right) < extent.width;
}

template <class F>
KernelPtr MakeStages(const KernelRequest& request, Made made, F add) {
  const Conv2dSizes sizes = static_cast<const ops::ConvolutionOp&>(request.op).Sizes(request.inputs);
  const DType operands = request.inputs[0].dtype;
  if (!Covered(sizes) || (operands == DType::kBf16 && !HasBf16())) return nullptr;
  const int threads = ThreadsOf(request);
  const ThreadLimit limit(threads);
  try {
    auto kernel = std::make_unique<StagesKernel>(threads);
    add(*kernel, Description(sizes, operands, made));
    return kernel;
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented) return nullptr;
    throw;
  }
}

// Reorders the weights to the layout of the primitive, if necessary.
ArgumentRef ReorderedWeights(StagesKernel& kernel, const Description& d, const memory::desc& wanted) {
  if (wanted == d.plain_weights) return Input(1);
  const ArgumentRef place = kernel.Scratch(wanted.get_size());
  kernel.AddReorder(d.plain_weights, Input(1), wanted, place);
  return place;
}

KernelPtr MakeForward(const KernelRequest& request) {
  const auto* fused = dynamic_cast<const ops::Conv2dBias*>(&request.op);
  const bool with_bias = fused != nullptr;
  const auto activation = with_bias ? fused->activation : ops::Activation::kNone;
  return MakeStages(request, Made::kY, [&](StagesKernel& kernel, const Description& d) {
    const auto forward = d.Forward(with_bias, activation);
    const ArgumentRef weights = ReorderedWeights(kernel, d, forward.weights_desc());
    std::vector<std::pair<Argument, ArgumentRef>> arguments = {
        {{DNNL_ARG_SRC, d.x}, Input(0)},
        {{DNNL_ARG_WEIGHTS, forward.weights_desc()}, weights},
        {{DNNL_ARG_DST, d.y}, Output(0)},
    };
    if (with_bias) arguments.push_back({{DNNL_ARG_BIAS, d.bias}, Input(2)});
    kernel.Add(dnnl::convolution_forward(forward), forward.scratchpad_desc(), std::move(arguments));
  });
}

KernelPtr MakeConv2dGradInput(const KernelRequest& request) {
  return MakeStages(request, Made::kX, [](StagesKernel& kernel, const Description& d) {
    const auto backward = d.BackwardData();
    const ArgumentRef weights = ReorderedWeights(kernel, d, backward.weights_desc());
    kernel.Add(dnnl::convolution_backward_data(backward), backward.scratchpad_desc(),
               {{{DNNL_ARG_DIFF_DST, d.y}, Input(0)},
                {{DNNL_ARG_WEIGHTS, backward.weights_desc()}, weights},
                {{DNNL_ARG_DIFF_SRC, d.x}, Output(0)}});
  });
}

// Also computes the bias gradient if there is a second output.
KernelPtr MakeGradWeights(const KernelRequest& request) {
  return MakeStages(request, Made::kWeights, [&](StagesKernel& kernel, const Description& d) {
    const bool with_bias = request.outputs.size() == 2;
    const auto backward = d.BackwardWeights(with_bias);
    const memory::desc made = backward.diff_weights_desc();
    const ArgumentRef weights = made == d.plain_weights ? Output(0) : kernel.Scratch(made.get_size());
    std::vector<std::pair<Argument, ArgumentRef>> arguments = {
        {{DNNL_ARG_SRC, d.x}, Input(0)},
        {{DNNL_ARG_DIFF_DST, d.y}, Input(1)},
        {{DNNL_ARG_DIFF_WEIGHTS, made}, weights},
    };
    if (with_bias) arguments.push_back({{DNNL_ARG_DIFF_BIAS, d.bias}, Output(1)});
    kernel.Add(dnnl::convolution_backward_weights(backward), backward.scratchpad_desc(),
               std::move(arguments));
    if (made != d.plain_weights) kernel.AddReorder(made, weights, d.plain_weights, Output(0));
  });
}

}  // namespace

void AddConvolution(graph::KernelTable& table) {
  table.Add("conv2d", MakeForward);
  table.Add("conv2d_bias", MakeForward);
  table.Add("conv2d_grad_input", MakeConv2dGradInput);
  table.Add("conv2d_grad_weights", MakeGradWeights);
  table.Add("conv2d_grad_weights_bias", MakeGradWeights);
}

}  // namespace leat::cpu
