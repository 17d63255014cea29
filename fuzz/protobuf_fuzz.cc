// The decoder of Protobuf records and libprotobuf agree on which records are messages, and on their values.
// A record may have any byte, so an input is one record.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/stubs/logging.h>

#include <cmath>

#include "base/check.h"
#include "records.h"
#include "stream/decode/decoder.h"

using leat::stream::Schema;
namespace pb = google::protobuf;

namespace {

// Fields of DescriptorProto, a message that nests itself, stands in for those of a user.
Schema MakeSchema() {
  Schema schema = Schema::FromConfig(leat::Config::Parse(R"(format: protobuf
protobuf: {descriptor: d, message: google.protobuf.FieldDescriptorProto}
fields:
  name: {type: category, buckets: 7, default: none}
  number: {type: number, default: -1}
  type: {type: number, default: -2}
  packed: {type: number, path: options.packed, default: -3}
  ctype: {type: category, values: [STRING, CORD], path: options.ctype, default: CORD}
)",
                                                         "fuzz"));
  pb::FileDescriptorSet set;
  pb::FileDescriptorProto::descriptor()->file()->CopyTo(set.add_file());
  leat::stream::UseDescriptor(set.SerializeAsString(), &schema);
  return schema;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Schema schema = MakeSchema();
  static const auto decoder = leat::stream::MakeDecoder(schema);
  static const pb::LogSilencer silencer;
  leat::stream::DecodedRows rows;
  decoder->Decode(leat::fuzz::RecordOf(data, size), &rows);
  LEAT_CHECK(rows.rows + rows.dead.size() == 1);
  pb::FieldDescriptorProto message;
  // It also reads fields that the decoder skips, so it may refuse more.
  if (!message.ParsePartialFromArray(data, static_cast<int>(size))) return 0;
  if (rows.rows == 0) {
    LEAT_CHECK(size == 0 || rows.dead[0].reason.find("is not UTF-8") != std::string::npos);
    return 0;
  }
  const float* row = rows.features.data() + 7;
  LEAT_CHECK(row[0] == (message.has_number() ? static_cast<float>(message.number()) : -1));
  LEAT_CHECK(row[1] == (message.has_type() ? static_cast<float>(message.type()) : -2));
  const auto& options = message.options();
  LEAT_CHECK(row[2] == (options.has_packed() ? static_cast<float>(options.packed()) : -3));
  LEAT_CHECK(row[3] == (options.has_ctype() && options.ctype() == pb::FieldOptions::STRING ? 1 : 0));
  return 0;
}
