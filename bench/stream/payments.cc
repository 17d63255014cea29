#include "payments.h"

namespace leat::bench {

void AppendPayments(stream::Bots& bots, size_t count, stream::RecordBatch* out) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text.clear();
    bots.Next(&text);
    const ByteView bytes = AsBytes(text);
    out->data.insert(out->data.end(), bytes.begin(), bytes.end());
    out->offsets.push_back(out->data.size());
  }
  out->data.resize(out->data.size() + stream::RecordBatch::kPadding);
}

const std::vector<std::string>& PaymentColumns() {
  static const std::vector<std::string> columns = {
      "id",          "time", "customer", "amount",  "times_usual", "hour",       "hours_off", "since_last",
      "distance_km", "kind", "country",  "channel", "device",      "new_device", "fraud",     "p_fraud"};
  return columns;
}

// Values keep their spelling.
std::string PaymentLine(std::string_view json) {
  std::string line;
  for (const std::string& column : PaymentColumns()) {
    const std::string key = "\"" + column + "\":";
    size_t begin = json.find(key) + key.size();
    const bool quoted = json[begin] == '"';
    begin += quoted;
    const size_t end = json.find_first_of(quoted ? "\"" : ",}", begin);
    if (!line.empty()) line += ',';
    line += json.substr(begin, end - begin);
  }
  return line;
}

}  // namespace leat::bench
