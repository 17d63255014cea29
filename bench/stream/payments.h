// Payments of the demo's bots for benchmarks, and the way in which simdjson reads them best.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stream/bots/bots.h"
#include "stream/source.h"

namespace leat::bench {

// Appends the next `count` payments to an empty batch, and its padding.
void AppendPayments(stream::Bots& bots, size_t count, stream::RecordBatch* out);

// The columns of a payment as CSV, which are all keys of its JSON object, and its line without a line end.
const std::vector<std::string>& PaymentColumns();
std::string PaymentLine(std::string_view json);

// Rows as the schema of the bots defines them: the columns of stream::DecodedRows.
struct PaymentRows {
  std::vector<float> features, labels, truth;
};

// On-Demand, compiled for this machine's processor. Both throw simdjson's exception if a record is no
// payment.
class SimdjsonPayments {
 public:
  SimdjsonPayments();
  ~SimdjsonPayments();
  // Replaces `rows` by those of the batch.
  void Decode(const stream::RecordBatch& batch, PaymentRows* rows);
  // Reads all fields of one payment, which needs RecordBatch::kPadding readable bytes after it. Returns a
  // number that depends on each of them.
  double ReadAll(std::string_view json);
  // "simdjson 3.0.1"
  static std::string Name();

 private:
  struct State;
  State* const state_;
};

}  // namespace leat::bench
