#include "job/input/descriptor_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "stream/base64.h"
#include "stream/decode/decoder.h"

namespace leat::job {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxFile = 64 << 20;
// Of what the job needs of it: every role gets it with the job.
constexpr size_t kMaxKept = 256 << 10;

std::string ReadBytes(const fs::path& path, const std::string& where) {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument(where + ": " + path.string() + ": " + why);
  };
  std::error_code error;
  if (!fs::is_regular_file(path, error)) fail("there is no such file");
  if (fs::file_size(path, error) > kMaxFile || error)
    fail("a descriptor has at most " + std::to_string(kMaxFile) + " bytes");
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (!in) fail("cannot be read");
  return bytes;
}

}  // namespace

void ReadDescriptor(const Config& resolved, const std::string& data, stream::Schema* schema) {
  stream::ProtobufSettings& settings = schema->protobuf;
  if (resolved.Has("descriptor")) {
    settings.descriptor = stream::FromBase64(resolved.At("descriptor").String());
  } else {
    stream::UseDescriptor(ReadBytes(fs::path(data) / settings.file, settings.where), schema);
  }
  if (settings.descriptor.size() > kMaxKept) {
    throw std::invalid_argument(settings.where + ": the fields need " +
                                std::to_string(settings.descriptor.size()) +
                                " bytes of the descriptor; at most " + std::to_string(kMaxKept));
  }
  (void)stream::MakeDecoder(*schema);  // reports what does not fit
}

Config WithDescriptor(const Config& resolved, const std::string& descriptor) {
  return descriptor.empty() ? resolved : resolved.With("descriptor", stream::ToBase64(descriptor));
}

}  // namespace leat::job
