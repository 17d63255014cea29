#include "compute/onnx/write/ops.h"

#include "base/check.h"

namespace leat::onnx {

void WriterTable::Add(std::string_view kind, WriteOp write) {
  const bool is_new = writers.emplace(kind, write).second;
  LEAT_CHECK(is_new);
}

WriteOp FindWriter(std::string_view kind) {
  static const auto* table = [] {
    auto* made = new WriterTable;
    AddMathWriters(*made);
    AddImageWriters(*made);
    AddShapeWriters(*made);
    AddSequenceWriters(*made);
    return made;
  }();
  const auto at = table->writers.find(kind);
  return at == table->writers.end() ? nullptr : at->second;
}

bool LeftToBias(Writer& w, const Node& node) {
  if (w.Uses(Out(node)) != 1) return false;
  for (const auto& other : w.graph().nodes()) {
    if (other.op->kind() == "bias_add" && other.inputs[0] == Out(node)) return true;
  }
  return false;
}

}  // namespace leat::onnx
