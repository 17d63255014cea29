// Helpers for tests of this folder: Avro's binary encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/encoding/varint.h"
#include "stream/avro/schema_registry.h"

namespace leat::stream {

inline std::string AvroLong(int64_t x) {
  ByteWriter out;
  PutVarint(ZigZag(x), &out);
  return std::string(AsText(out.view()));
}

inline std::string AvroText(std::string_view text) {
  return AvroLong(static_cast<int64_t>(text.size())).append(text);
}

template <class T>
std::string AvroFloat(T x) {
  return {reinterpret_cast<const char*>(&x), sizeof(x)};
}

// A record with the framing of a registry.
inline std::string Framed(uint32_t id, const std::string& record) {
  std::string out(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(id >> shift));
  return out + record;
}

// The `schema:` of a job, with the text of payment.avsc.
inline Schema AvroSchemaOf(const std::string& fields, const std::string& text) {
  auto schema = Schema::FromConfig(
      Config::Parse("format: avro\navro: {schema: payment.avsc}\nfields:\n" + fields, "job.yaml"));
  (void)UseAvro({{0, text}}, &schema);
  return schema;
}

}  // namespace leat::stream
