#include "protocol/strategy.h"

namespace leat::protocol {

std::string_view Name(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::kAsync:
      return "async";
    case StrategyKind::kSync:
      return "sync";
    case StrategyKind::kSsp:
      return "ssp";
    case StrategyKind::kDownpour:
      return "downpour";
    case StrategyKind::kAveraging:
      return "averaging";
    case StrategyKind::kAllReduce:
      return "allreduce";
  }
  return "?";
}

Status Check(const StrategyConfig& strategy, uint32_t) {
  if (strategy.virtual_workers == 0) return Status(Code::kInvalidArgument, "virtual_workers is 0");
  return {};
}

}  // namespace leat::protocol
