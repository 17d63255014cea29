#include "stream/decode/log_scale.h"

namespace leat::stream {

const std::array<LogScale::Entry, 1 << LogScale::kBits> LogScale::kTable = [] {
  std::array<Entry, 1 << kBits> table;
  for (size_t i = 0; i < table.size(); ++i) {
    const double middle = 1 + (static_cast<double>(i) + 0.5) / static_cast<double>(table.size());
    table[i].inverse = 1 / middle;
    table[i].log = -std::log(table[i].inverse);
  }
  return table;
}();

}  // namespace leat::stream
